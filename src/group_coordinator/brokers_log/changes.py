"""The events that follow of two states of a group of the classic protocol.

Kafka writes a group down when it is Stable or Empty, and never while it rebalances. So a rebalance is known
by the states before and after it, and by the time at which its join phase ended. In between the group was in
the states of the state diagram, so these moves are told. Kafka does not write down why a rebalance began, or
why a member went. So the cause is unknown, and the reason says what has changed.

The guard of a group that is at the coordinator reads nothing, so it is told as no member. Each gateway renews
it under another member id.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER, partitions_of, topics_of
from group_coordinator.coordinator_state.events import (
    AssignmentPropagated,
    GenerationCompleted,
    GroupCreated,
    GroupDeleted,
    MemberAdded,
    MemberAssigned,
    MemberFenced,
    MemberRemoved,
    RebalanceCause,
    StateChanged,
)
from group_coordinator.coordinator_state.naming import some_of
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.coordinator_state.sides import GUARD_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from group_coordinator.coordinator_state.committed import CommittedOffsets
    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.responses import PicturedMember

T = TypeVar("T")

NOTHING_CHANGED = "nothing has changed that is written down"
_NAMED = 3
"""Members that a reason names at most. It has the number of the others."""
_PREPARING, _COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


def changed(
    before: GroupPicture | None, written: GroupPicture, at_ms: int, since_ms: int, offsets: CommittedOffsets
) -> tuple[GroupPicture, list[Event]]:
    """Return the group as it is `written` at `at_ms`, and the events that have led there.

    `before`: the group as it was before, None if that is not known. All has happened since `since_ms`. The
    events lack their ids and the group's.
    """
    joined_ms = at_ms if written.state_timestamp_ms < 0 else written.state_timestamp_ms
    joined_ms = min(max(joined_ms, since_ms), at_ms)
    events: list[Event] = []
    # The first generation of a group with members, or none yet.
    if before is None and written.generation_id <= (1 if written.members else 0):
        events.append(GroupCreated(at_ms=joined_ms))
        before = empty_group(written.group_id, joined_ms)
    written = _without_guard(written)
    after = replace(written, state_timestamp_ms=at_ms if written.members else joined_ms)
    if before is None:
        return after, [*_first_seen(after)]
    members = _Members.of(before, after)
    is_same = (before.state, before.generation_id) == (after.state, after.generation_id)
    if is_same and not members.gone and not members.joined:
        after = replace(after, state_timestamp_ms=before.state_timestamp_ms)
        events += _restarted(after, members, at_ms)
    else:
        events += _rebalanced(before, after, members, offsets, joined_ms)
    return after, events


def deleted(group: GroupPicture, at_ms: int) -> list[Event]:
    """The events of a group whose record was deleted."""
    reason = "its record was deleted"
    if group.members:
        # Kafka deletes Empty groups only.
        reason += " while it had members: it belongs to another protocol now, or older records are missing"
    now: dict[str, Any] = {"at_ms": at_ms, "generation_id": group.generation_id}
    return [StateChanged(**now, from_=group.state, to=GroupState.DEAD, reason=reason), GroupDeleted(**now)]


def empty_group(group_id: str, at_ms: int) -> GroupPicture:
    """A group that nobody has joined yet, since `at_ms`."""
    return GroupPicture(
        group_id=group_id,
        state=GroupState.EMPTY,
        generation_id=0,
        protocol_type=None,
        protocol_name=None,
        leader=None,
        members=[],
        state_timestamp_ms=at_ms,
    )


def _without_guard(written: GroupPicture) -> GroupPicture:
    """The group that the guard keeps, as an Empty one. The guard's protocol says that it is there."""
    if written.protocol_name != GUARD_TYPE:
        return written
    return replace(written, state=GroupState.EMPTY, leader=None, members=[])


# -- events ----------------------------------------------------------------------------------------------


def _first_seen(group: GroupPicture) -> Iterator[Event]:
    now: dict[str, Any] = {"at_ms": group.state_timestamp_ms, "generation_id": group.generation_id}
    yield StateChanged(**now, from_="", to=group.state, reason="older records of the group are not there")
    if group.members:
        yield _completed(group, now)
        yield _propagated(group, now)


def _restarted(after: GroupPicture, members: _Members, at_ms: int) -> Iterator[Event]:
    """Nothing but restarts of static members, which need no rebalance."""
    now = {"at_ms": at_ms, "generation_id": after.generation_id}
    yield from _fenced(members, now)
    both = (*members.stayed, *members.restarted)
    if any(old.member_assignment != new.member_assignment for old, new in both):
        yield _propagated(after, now)


def _rebalanced(
    before: GroupPicture, after: GroupPicture, members: _Members, offsets: CommittedOffsets, joined_ms: int
) -> Iterator[Event]:
    now: dict[str, Any] = {"at_ms": joined_ms, "generation_id": before.generation_id}
    for member in members.gone:
        owned = _owned([member]) if before.protocol_type == CONSUMER else None
        yield MemberRemoved(
            **now,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            reason="unknown",
            session_timeout_ms=member.session_timeout_ms,
            last_commit_ms=last_commit_ms(owned or (), offsets, joined_ms),
        )
    yield from _fenced(members, now)
    for member in members.joined:
        yield MemberAdded(
            **now,
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            join_phase_ms=None,
        )
    # Nothing but a join begins a rebalance of a group without members. Generations that are missing had some.
    is_next = after.generation_id == before.generation_id + 1
    is_first_join = is_next and not before.members and after.members
    cause = RebalanceCause.MEMBER_JOINED if is_first_join else RebalanceCause.UNKNOWN
    reason = "; ".join(_facts(before, after, members)) or NOTHING_CHANGED
    yield StateChanged(**now, from_=before.state, to=_PREPARING, reason=reason, cause=cause)
    now["generation_id"] = after.generation_id
    if not after.members:
        reason = "no members are left"
        yield StateChanged(**now, from_=_PREPARING, to=after.state, reason=reason, cause=cause)
        return
    yield StateChanged(**now, from_=_PREPARING, to=_COMPLETING, reason="the join phase ended")
    yield _completed(after, now)
    now["at_ms"] = after.state_timestamp_ms
    reason = "the leader's assignment arrived"
    yield StateChanged(**now, from_=_COMPLETING, to=after.state, reason=reason, cause=cause)
    yield _propagated(after, now)


def _fenced(members: _Members, now: dict[str, Any]) -> Iterator[MemberFenced]:
    for old, new in members.restarted:
        yield MemberFenced(
            **now,
            member_id=old.member_id,
            group_instance_id=new.group_instance_id or "",
            replaced_by=new.member_id,
            client_id=new.client_id,
            client_host=new.client_host,
            client_reason=None,
        )


def _completed(group: GroupPicture, now: dict[str, Any]) -> GenerationCompleted:
    return GenerationCompleted(
        **now,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name or "",
        leader=group.leader or "",
        members=[each.member_id for each in group.members],
    )


def _propagated(group: GroupPicture, now: dict[str, Any]) -> AssignmentPropagated:
    given = [MemberAssigned(each.member_id, each.member_assignment) for each in group.members]
    return AssignmentPropagated(**now, protocol_type=group.protocol_type or "", assignments=given)


# -- what has changed ------------------------------------------------------------------------------------


class _Members(NamedTuple):
    """The members of a group before and after. `restarted`, `stayed`: each before and after."""

    gone: list[PicturedMember]
    restarted: list[tuple[PicturedMember, PicturedMember]]
    joined: list[PicturedMember]
    stayed: list[tuple[PicturedMember, PicturedMember]]

    @classmethod
    def of(cls, before: GroupPicture, after: GroupPicture) -> _Members:
        old = {each.member_id: each for each in before.members}
        new = {each.member_id: each for each in after.members}
        stayed = [(old.pop(each), new.pop(each)) for each in list(old) if each in new]
        instances = {each.group_instance_id: each for each in old.values() if each.group_instance_id}
        restarted, joined = [], []
        for member in new.values():
            former = instances.pop(member.group_instance_id or "", None)
            if former is None:
                joined.append(member)
            else:
                restarted.append((old.pop(former.member_id), member))
        return cls(list(old.values()), restarted, joined, stayed)


def _facts(before: GroupPicture, after: GroupPicture, members: _Members) -> Iterator[str]:
    """What has changed between two generations, as far as it is written down."""
    first, last = before.generation_id + 1, after.generation_id - 1
    if first <= last:
        yield f"generations not written down: {last - first + 1}"
    elif last < first - 1:
        yield f"generation {before.generation_id} was before: the group was made again, or records are lost"
    was_kept, is_kept = before.protocol_name == GUARD_TYPE, after.protocol_name == GUARD_TYPE
    if is_kept != was_kept:
        yield "the guard came: the group is at the coordinator" if is_kept else "the guard went"
    if members.gone:
        yield f"{_names(members.gone)} went"
    if members.restarted:
        yield f"{_names([new for _, new in members.restarted])} restarted"
    if members.joined:
        yield f"{_names(members.joined)} joined"
    if before.members and after.members:
        if before.protocol_name != after.protocol_name:
            yield f"the protocol is {after.protocol_name} and was {before.protocol_name}"
        if before.protocol_type == after.protocol_type == CONSUMER:
            yield from _facts_of_consumers(before, after, members)


def _facts_of_consumers(before: GroupPicture, after: GroupPicture, members: _Members) -> Iterator[str]:
    def topics(member: PicturedMember) -> set[str] | None:
        # The rest of a subscription, such as what a member owns, changes with each generation.
        return _read(topics_of, [member.member_metadata])

    others = [new for old, new in members.stayed if topics(old) != topics(new)]
    if others:
        yield f"{_names(others)} subscribed to other topics"
    was, now = _owned(before.members), _owned(after.members)
    if was is not None and now is not None:
        if now - was:
            yield f"partitions added: {len(now - was)}"
        if was - now:
            yield f"partitions gone: {len(was - now)}"


def names(every: Sequence[str]) -> str:
    """Some of these, and the number of the others."""
    return some_of(every, _NAMED)


def _names(members: Iterable[PicturedMember]) -> str:
    return names([each.member_id for each in members])


def _owned(members: Iterable[PicturedMember]) -> set[tuple[str, int]] | None:
    """The partitions that consumers own; None if it cannot be read."""
    return _read(partitions_of, [each.member_assignment for each in members])


def _read(read: Callable[[bytes], Iterable[T]], every: Iterable[bytes]) -> set[T] | None:
    try:
        return {each for data in every for each in read(data)}
    except struct.error:
        return None


def last_commit_ms(
    owned: Iterable[tuple[str, int]], offsets: CommittedOffsets, at_ms: int
) -> int | UnsetType:
    """Return how many ms before something was last committed for these partitions; unset if nothing was."""
    commits = [offsets.get(*each) for each in owned]
    newest_ms = max((each.commit_timestamp_ms for each in commits if each is not None), default=None)
    return UNSET if newest_ms is None else max(0, at_ms - newest_ms)
