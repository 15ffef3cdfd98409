"""The oracles notice a core that is wrong: each fault is found in the lives of a few groups.

A fault is the core with one thing bent, so that all else is right: what is noticed is the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from group_coordinator.coordinator_state.consumer import (
    advance,
    heartbeat,
    leaving,
    reconcile,
    topic_metadata,
)
from group_coordinator.coordinator_state.consumer.assignors import ASSIGNORS, GroupSpec
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.member_index import MemberIndex
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.subscriptions import Subscriptions
from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.coordinator_state.kinds import KINDS
from group_coordinator.coordinator_state.step import step
from group_coordinator.coordinator_state.turn import Turn
from tests.coordinator_state import faults
from tests.coordinator_state.consumer.world import World
from tests.coordinator_state.observer import Step

pytestmark = pytest.mark.drawn

Patch = pytest.MonkeyPatch


def live(step: Step = step) -> None:
    """Let a few groups live, settle, and be read again."""
    for seed in range(25):
        rng = Random(seed)
        world = World(rng, step, group_consumer_assignment_interval_ms=rng.choice([0, 1_000]))
        world.live(60)
        world.settles()
        world.is_the_same_however_it_is_cut()


def test_nothing_is_wrong_with_the_core() -> None:
    live()


# -- faults ----------------------------------------------------------------------------------------


def gives_what_another_has(patch: Patch) -> None:
    """A partition is free for the next, whether somebody has it or not."""
    patch.setattr(MemberIndex, "is_free", lambda *_: True)


def waits_for_no_acknowledgement(patch: Patch) -> None:
    """A member has given up what it was told to, whatever it says."""
    patch.setattr(reconcile, "_has_any", lambda *_: False)


def asks_for_the_acknowledgement_and_does_not_read_it(patch: Patch) -> None:
    """A member that says what it has is taken for one that says nothing."""
    patch.setattr(reconcile, "_has_any", lambda *_: True)


def knows_every_epoch(patch: Patch) -> None:
    """A member whose epoch is long ago goes on with what it believes it has."""
    patch.setattr(heartbeat, "knows_its_epoch", lambda *_: True)


def gives_time_without_end_to_revoke(patch: Patch) -> None:
    """No deadline is set for what a member is to give up."""
    patch.setattr(advance, "_await_revocation", lambda *_: None)


def hears_no_sign_of_life(patch: Patch) -> None:
    """A session does not go on with a heartbeat."""
    restart = Turn.restart_session

    def once(turn: Turn[Any], member_id: str, timeout_ms: int) -> None:
        if turn.group.members[member_id].session_deadline_ms is None:
            restart(turn, member_id, timeout_ms)

    patch.setattr(Turn, "restart_session", once)


def keeps_members_for_ever(patch: Patch) -> None:
    """Nothing happens when a deadline passes."""
    kind = KINDS["consumer"]
    patch.setitem(KINDS, "consumer", kind._replace(expire=lambda *_: None))


def does_not_see_topics_change(patch: Patch) -> None:
    """New topics and partitions are known, and are nobody's."""
    go_on = heartbeat._go_on

    def blindly(turn: Turn[Any], *given: Any, **fields: Any) -> Any:
        turn.group.metadata_changed = False
        return go_on(turn, *given, **fields)

    patch.setattr(heartbeat, "_go_on", blindly)


def begins_no_epoch_when_a_member_goes(patch: Patch) -> None:
    """What a member had that left is nobody's for ever."""

    def quiet(turn: Turn[Any], cause: Any, reason: str) -> None:
        advance.tell_state(turn, reason, cause)

    patch.setattr(leaving, "advance_epoch", quiet)


def begins_no_epoch_for_a_new_subscription(patch: Patch) -> None:
    """A member that changes its mind gets the topics of before."""
    patch.setattr(heartbeat, "advance_epoch", lambda *_: None)


def forgets_to_count_a_subscription_less(patch: Patch) -> None:
    """Topics that nobody names any more are named for ever."""
    patch.setattr(Subscriptions, "drop", lambda *_: None)


def forgets_who_has_come_to_its_target(patch: Patch) -> None:
    """The group is Reconciling for ever, or never."""

    def change(group: ConsumerGroup, member: Any, share: Any) -> None:
        before, unsettled = group.is_settled(member), group.unsettled
        member.share = share
        group.unsettled = unsettled if before else unsettled - 1
        group.__dict__.pop("index", None)

    patch.setattr(ConsumerGroup, "change_member", change)


def tells_the_target_instead_of_the_share(patch: Patch) -> None:
    """A member is told its target, though others still have parts of it."""
    told = TopicTable.told
    members: list[Any] = []
    before = advance.reconcile_member

    def remember(turn: Turn[Any], member: Any, *args: Any, **more: Any) -> bool:
        members.append(member)
        return before(turn, member, *args, **more)

    def of_target(table: TopicTable, _partitions: Any) -> Any:
        return told(table, unpack(members[-1].target))

    patch.setattr(heartbeat, "reconcile_member", remember)
    patch.setattr(TopicTable, "told", of_target)


def does_not_tell_what_has_changed(patch: Patch) -> None:
    """A heartbeat is answered without the assignment, though it is another one."""
    before = advance.reconcile_member

    def silent(*args: Any, **more: Any) -> bool:
        before(*args, **more)
        return False

    patch.setattr(heartbeat, "reconcile_member", silent)


def numbers_a_topic_again(patch: Patch) -> None:
    """A topic that comes back has another number, so its partitions seem free."""
    patch.setattr(TopicTable, "_number_for", lambda table, _facts, others: table._next_number + others)


def remembers_all_topics(patch: Patch) -> None:
    """What nobody names is kept for ever."""
    patch.setattr(TopicTable, "prune", lambda *_: None)


def believes_every_hint(patch: Patch) -> None:
    """A hint replaces what is known: members that see other numbers make the group go back and forth."""
    patch.setattr(TopicTable, "hints", TopicTable.changed_by)


def takes_what_the_watcher_says_whenever_it_comes(patch: Patch) -> None:
    """A record that is based on an older version counts as well."""
    take = topic_metadata.take_topic_metadata

    def always(turn: Turn[Any], request: Any) -> str | None:
        turn.group.topics.version = max(turn.group.topics.version, request.based_on + 1)
        return take(turn, request)

    patch.setattr("group_coordinator.coordinator_state.routes.take_topic_metadata", always)


def begins_no_epoch_when_a_pattern_matches_others(patch: Patch) -> None:
    """A topic that is new to a pattern is nobody's."""

    def quiet(turn: Turn[Any], *_: object) -> None:
        turn.group.metadata_changed = False

    patch.setattr(topic_metadata, "advance_epoch", quiet)


def keeps_patterns_that_nobody_has(patch: Patch) -> None:
    """What a pattern has matched is kept for ever, and counts when a member has it again."""
    drop = Subscriptions.drop

    def kept(subscriptions: Subscriptions, number: int) -> None:
        resolved = dict(subscriptions.resolved)
        drop(subscriptions, number)
        subscriptions.resolved = resolved

    patch.setattr(Subscriptions, "drop", kept)


def keeps_what_one_that_is_away_was_to_give_up(patch: Patch) -> None:
    """A static member that left for a while keeps what another waits for."""

    def go(turn: Turn[Any], member: Any) -> None:
        turn.group.change_member(member, member.share._replace(epoch=-2))
        leaving.tell_state(turn, "left")
        turn.change_picture()

    patch.setattr(leaving, "_go_away", go)


def shows_no_change_of_a_member(patch: Patch) -> None:
    """The picture that was written first is never renewed."""
    patch.setattr(Turn, "change_picture", lambda _turn: None)


class Assigns:
    """An assignor that is not a function of its arguments, or leaves out what it should give."""

    def __init__(self, *, forgets: bool) -> None:
        self._forgets, self._calls = forgets, 0

    def __call__(self, group: GroupSpec) -> Any:
        self._calls += 1
        targets = ASSIGNORS["range"](group)
        if self._forgets:
            return targets | {next(iter(group.targets)): {}}
        for subscription in {group.subscription(each) for each in group.targets}:
            alike = [each for each in group.targets if group.subscription(each) == subscription]
            shift = self._calls % len(alike)
            shares = [targets[each] for each in alike]
            targets |= zip(alike, shares[shift:] + shares[:shift], strict=True)
        return targets


def leaves_out_a_member(patch: Patch) -> None:
    """The partitions of one member are in nobody's target."""
    patch.setitem(ASSIGNORS, "uniform", Assigns(forgets=True))


def divides_by_how_often_it_was_called(patch: Patch) -> None:
    """The same log gives other targets when it is read again."""
    patch.setitem(ASSIGNORS, "uniform", Assigns(forgets=False))


FAULTS: list[Callable[[Patch], None]] = [
    gives_what_another_has,
    waits_for_no_acknowledgement,
    asks_for_the_acknowledgement_and_does_not_read_it,
    gives_time_without_end_to_revoke,
    hears_no_sign_of_life,
    keeps_members_for_ever,
    does_not_see_topics_change,
    begins_no_epoch_when_a_member_goes,
    begins_no_epoch_for_a_new_subscription,
    forgets_to_count_a_subscription_less,
    forgets_who_has_come_to_its_target,
    tells_the_target_instead_of_the_share,
    does_not_tell_what_has_changed,
    numbers_a_topic_again,
    remembers_all_topics,
    believes_every_hint,
    takes_what_the_watcher_says_whenever_it_comes,
    begins_no_epoch_when_a_pattern_matches_others,
    keeps_patterns_that_nobody_has,
    keeps_what_one_that_is_away_was_to_give_up,
    shows_no_change_of_a_member,
    leaves_out_a_member,
    divides_by_how_often_it_was_called,
    knows_every_epoch,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_fault_is_noticed(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    fault(monkeypatch)
    # Some end in a number of a topic that nobody knows.
    with pytest.raises((AssertionError, KeyError)):
        live()


@pytest.mark.parametrize("fault", [faults.lets_time_pass_first, faults.never_expires])
def test_call_that_is_wrong_is_noticed(fault: Step) -> None:
    with pytest.raises(AssertionError):
        live(fault)
