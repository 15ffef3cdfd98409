"""The events that follow of a record about one member: it joins, restarts, comes further, or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.brokers_log.consumer.state import AWAY_EPOCH, WatchedMember
from group_coordinator.coordinator_state.events import MemberAway, MemberFenced, RebalanceCause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.brokers_log.consumer.records import ById, MemberFacts, MemberShare
    from group_coordinator.brokers_log.consumer.telling import Telling
    from group_coordinator.coordinator_state.events import Event


def let_go(telling: Telling, member_id: str) -> None:
    """The record of a member is gone. The next records say why (`WatchedMember.is_leaving`)."""
    member = telling.group.members.get(member_id)
    if member is None:
        return
    if member.facts is None:
        del telling.group.members[member_id]
    member.is_leaving = True
    telling.settle(member)


def know(telling: Telling, member_id: str, facts: MemberFacts) -> Iterator[Event]:
    """A member joins, comes back, or says something new of itself."""
    group = telling.group
    telling.is_changed = True
    before = _predecessor(telling, facts)
    if before is not None and before.facts is not None:
        yield from _restart(telling, before, before.facts, member_id, facts)
        return
    member = group.members.setdefault(member_id, WatchedMember(member_id))
    old, member.facts, member.is_leaving = member.facts, facts, False
    telling.settle(member)
    if old is None:
        telling.note(RebalanceCause.MEMBER_JOINED, f"{member_id} joined")
        yield from telling.added(member, facts)
    elif _subscription(old) != _subscription(facts):
        telling.note(RebalanceCause.SUBSCRIPTION_CHANGED, f"{member_id} changed its subscription")
        yield telling.subscribed(member_id, facts)


def _predecessor(telling: Telling, facts: MemberFacts) -> WatchedMember | None:
    """The member that has made way for one of its instance id."""
    if facts.group_instance_id is None:
        return None
    for member in telling.group.members.values():
        known = member.facts
        if member.is_leaving and known is not None and known.group_instance_id == facts.group_instance_id:
            return member
    return None


def _restart(
    telling: Telling, before: WatchedMember, old: MemberFacts, member_id: str, facts: MemberFacts
) -> Iterator[Event]:
    """A static member goes on under the id that it has now, and has what it had."""
    group = telling.group
    del group.members[before.member_id]
    other = group.members.pop(member_id, None)
    if other is not None and other.facts is not None:
        # A dynamic member takes the place of a static one.
        yield telling.removed(other, other.facts)
    member = WatchedMember(member_id, facts, 0, before.state, before.target, before.assigned)
    group.members[member_id] = member
    telling.settle(member)
    yield MemberFenced(
        **telling.now,
        member_id=before.member_id,
        group_instance_id=facts.group_instance_id or "",
        replaced_by=member_id,
        client_id=facts.client_id,
        client_host=facts.client_host,
        client_reason=None,
    )
    if _subscription(old) != _subscription(facts):
        telling.note(RebalanceCause.MEMBER_REPLACED, f"{member_id} changed its subscription")
        yield telling.subscribed(member_id, facts)


def target(telling: Telling, member_id: str, partitions: ById) -> None:
    """A member is to have this, as the next assignment epoch says."""
    member = telling.group.members.setdefault(member_id, WatchedMember(member_id))
    target = telling.group.packed(partitions, telling.names)
    if target != member.target:
        member.target, telling.is_changed = target, True
        telling.group.retargeted.append(member_id)


def hold(telling: Telling, share: MemberShare, epoch: int) -> Iterator[Event]:
    """A member has come further on its way to its target."""
    group, member_id = telling.group, share.member_id
    member = group.members.setdefault(member_id, WatchedMember(member_id))
    before = member.assigned, member.pending
    member.assigned = group.packed(share.assigned, telling.names)
    member.pending = group.packed(share.pending, telling.names)
    goes_away = epoch == AWAY_EPOCH != member.epoch
    member.epoch, member.state = epoch, share.state
    telling.settle(member)
    if member.facts is None:
        return
    if goes_away:
        yield MemberAway(
            **telling.now,
            member_id=member_id,
            group_instance_id=member.facts.group_instance_id or "",
            client_id=member.facts.client_id,
        )
        yield from telling.tell_state(f"{member_id} left for a while", RebalanceCause.MEMBER_LEFT)
        return
    # While a whole log is read, most of it may not be told yet, and making assignments takes long.
    if telling.is_told and before != (member.assigned, member.pending):
        yield telling.reconciled(member, member.facts)
    yield from telling.tell_state(f"{member_id} is at epoch {member.epoch}")


def _subscription(facts: MemberFacts) -> tuple[set[str], str, str | None]:
    return set(facts.topics), facts.pattern, facts.server_assignor
