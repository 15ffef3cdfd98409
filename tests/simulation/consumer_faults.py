"""Cores and members of the consumer protocol that are wrong, to see whether a simulation notices.

Each has one thing bent, so that all else is right: what is noticed is the fault.
"""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.coordinator_state.consumer import advance, heartbeat, member_index, reconcile
from group_coordinator.coordinator_state.consumer.assignors import ASSIGNORS, GroupSpec
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.reconcile import Share
from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.kinds import KINDS
from tests.simulation.consumers import Consumer

Patch = pytest.MonkeyPatch

# -- the core ------------------------------------------------------------------------------------------


def frees_partitions_before_they_are_given_up(patch: Patch) -> None:
    """What a member was told to give up is free for others at once."""
    patch.setattr(
        member_index,
        "_pairs",
        lambda share: [(it, each) for it, held in share.assigned.items() for each in held],
    )


def waits_for_no_acknowledgement(patch: Patch) -> None:
    """A member has given up what it was told to, whatever it says."""
    patch.setattr(reconcile, "_has_any", lambda *_: False)


def forgets_what_is_pending(patch: Patch) -> None:
    """A member that leaves its old share behind is not asked for the partitions that it loses."""
    patch.setattr(reconcile, "Share", _share_without_pending)


def _share_without_pending(epoch: int, before: int, _state: Any, assigned: Any, _pending: Any) -> Any:
    return Share(epoch, before, reconcile.MemberState.STABLE, assigned, {})


def fences_the_epoch_before(patch: Patch) -> None:
    """A member that says all, and has not heard the answer to what it has said before, is fenced."""

    def knows(_group: Any, member: Any, request: Any) -> bool:
        return request.epoch in (0, member.epoch)

    patch.setattr(heartbeat, "knows_its_epoch", knows)


def takes_the_epoch_before_that(patch: Patch) -> None:
    """A member that is one epoch further behind goes on with what it believes that it has."""
    knows_its_epoch = heartbeat.knows_its_epoch

    def knows(of: Any, member: Any, request: Any) -> bool:
        return knows_its_epoch(of, member, request) or member.epoch - request.epoch in (1, 2)

    patch.setattr(heartbeat, "knows_its_epoch", knows)


def goes_on_before_it_has_heard(patch: Patch) -> None:
    """A member that says all with the epoch before comes on by one more, and is fenced the next time."""
    go_on = heartbeat._go_on

    def went(turn: Any, member: Any, request: Any, **more: bool) -> Any:
        if request is not None and request.epoch not in (0, member.epoch):
            owned = turn.group.topics.owned(request.topic_partitions)
            advance.reconcile_member(turn, member, owned)
        return go_on(turn, member, request, **more)

    patch.setattr(heartbeat, "_go_on", went)


def hears_no_sign_of_life(patch: Patch) -> None:
    """A session does not go on with a heartbeat that says no more than that its member is alive."""
    live_on = heartbeat._live_on

    def live(turn: Any, *args: Any) -> Any:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(heartbeat, "_hear_from", lambda *_: None)
            return live_on(turn, *args)

    patch.setattr(heartbeat, "_live_on", live)


def divides_the_work_at_once(patch: Patch) -> None:
    """The interval between two assignments counts for nothing."""
    assign = advance.assign

    def assigned(turn: Any) -> None:
        turn.group.assigned_at_ms = None
        assign(turn)

    patch.setattr(heartbeat, "assign", assigned)


def gives_time_without_end_to_revoke(patch: Patch) -> None:
    """Nothing happens when the time is over in which a member has to give something up."""
    kind = KINDS["consumer"]

    def expire(turn: Any, deadline: Any) -> None:
        if deadline.kind is not DeadlineKind.REVOCATION:
            kind.expire(turn, deadline)

    patch.setitem(KINDS, "consumer", kind._replace(expire=expire))


def believes_every_hint(patch: Patch) -> None:
    """A hint of fewer partitions, or of a topic that is gone, replaces what is known."""
    patch.setattr(TopicTable, "hints", TopicTable.changed_by)


def grants_every_commit(patch: Patch) -> None:
    """Also those of members that were put out."""
    patch.setattr(ConsumerGroup, "may_commit", lambda *_: Errors.NONE)


def tells_nobody_what_has_changed(patch: Patch) -> None:
    """A heartbeat is answered without the assignment, though it is another one."""
    before = advance.reconcile_member

    def silent(*args: Any, **more: Any) -> bool:
        before(*args, **more)
        return False

    patch.setattr(heartbeat, "reconcile_member", silent)


def divides_by_how_often_it_was_called(patch: Patch) -> None:
    """The same log gives other targets when it is read again."""
    calls = [0]

    def assign(group: GroupSpec) -> Any:
        calls[0] += 1
        names = ["uniform", "range"]
        return real[names[calls[0] % 2]](group)

    real = dict(ASSIGNORS)
    for name in real:
        patch.setitem(ASSIGNORS, name, assign)


def looks_late_for_what_expires(patch: Patch) -> None:
    """Offsets that nobody reads any more wait for an expiry that was awaited before."""

    def look(turn: Any) -> None:
        if turn.group.cleanup_deadline_ms is None:
            turn.await_cleanup()

    patch.setattr(advance, "look_soon", look)


# -- members -------------------------------------------------------------------------------------------


def acknowledges_before_it_has_given_up(patch: Patch) -> None:
    """It says that it has what it was told, while its user still works on more."""
    keep_word, say_all = ConsumerMembership._keep_word, ConsumerMembership._say_all

    def said(member: Any, now_ms: int) -> None:
        owned, session = member.owned, member._session
        if session is not None:
            member.owned = owned & session.assigned
        say_all(member, now_ms)
        member.owned = owned

    def kept(member: Any, now_ms: int) -> None:
        owned, session = member.owned, member._session
        if session is not None:
            member.owned = owned & session.assigned
        keep_word(member, now_ms)
        member.owned = owned

    patch.setattr(ConsumerMembership, "_say_all", said)
    patch.setattr(ConsumerMembership, "_keep_word", kept)


def keeps_what_it_has_when_it_is_put_out(patch: Patch) -> None:
    """It joins again, and its user has never heard that anything was lost."""
    patch.setattr(ConsumerMembership, "lost", frozenset())
    patch.setattr(ConsumerMembership, "needs_join", property(lambda it: it.state == "Unjoined"))


def goes_on_when_it_is_put_out(patch: Patch) -> None:
    """It sends heartbeats, and works on, whatever they are answered with."""
    on_error = ConsumerMembership._on_error

    def heard(member: Any, news: Any, now_ms: int) -> None:
        if news.code not in (Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID):
            on_error(member, news, now_ms)

    patch.setattr(ConsumerMembership, "_on_error", heard)


def takes_every_answer_for_the_newest(patch: Patch) -> None:
    """One that was overtaken takes it back to an earlier epoch."""
    receive = ConsumerMembership.receive

    def received(member: Any, answer: Any, now_ms: int) -> None:
        if member._session is not None:
            member._session.heard = 0
        receive(member, answer, now_ms)

    patch.setattr(ConsumerMembership, "receive", received)


def is_silent_when_nothing_changes(patch: Patch) -> None:
    """It sends no heartbeats that say no more than that it is alive."""

    def alive(_member: Any, session: Any, now_ms: int) -> None:
        session.heartbeat_at = now_ms + session.interval_ms

    patch.setattr(ConsumerMembership, "_say_alive", alive)


def begins_at_nothing(patch: Patch) -> None:
    """Its user does not ask where to go on."""

    def fetch(client: Consumer) -> None:
        client.positions = dict.fromkeys(client._takes, 0)

    patch.setattr(Consumer, "_fetch", fetch)
