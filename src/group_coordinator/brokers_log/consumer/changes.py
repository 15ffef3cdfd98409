"""The events that follow of a record of a group of the consumer protocol.

They are those that this coordinator tells of such a group. Kafka writes each step down when it takes it. So
times, states and causes are known: a new epoch stands right behind what has made it. Only why a member went
is not written down. Where compaction has taken epochs, the cause is unknown, and the reason counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.brokers_log.changes import NOTHING_CHANGED, names
from group_coordinator.brokers_log.consumer.members import hold, know, let_go, target
from group_coordinator.brokers_log.consumer.records import (
    AssignmentEpoch,
    GroupEpoch,
    MemberFacts,
    MemberRecord,
    MemberShare,
    MemberTarget,
    ResolvedPattern,
)
from group_coordinator.brokers_log.consumer.state import News, Rebalance
from group_coordinator.brokers_log.consumer.telling import AT_REST
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.states import GroupState
from group_coordinator.coordinator_state.events import (
    GroupCreated,
    MemberAssigned,
    RebalanceCause,
    StateChanged,
    TargetAssigned,
    TopicsChanged,
)
from group_coordinator.coordinator_state.responses import KnownPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.brokers_log.consumer.records import ConsumerRecord
    from group_coordinator.brokers_log.consumer.telling import Telling
    from group_coordinator.coordinator_state.events import Event

_FIRST_EPOCHS = 2
"""A group begins with epoch 1, or with 2 since Kafka 4.4 if its member names topics."""


def take(telling: Telling, record: ConsumerRecord) -> Iterator[Event]:
    """Take the next record, which is not the group's tombstone. Events lack their ids and the group's.

    Before it is known whether the group is new, none is told.
    """
    return (event for event in _events(telling, record) if telling.is_told)


def _events(telling: Telling, record: ConsumerRecord) -> Iterator[Event]:
    match record:
        case GroupEpoch(epoch=int(epoch)):
            yield from _begin_epoch(telling, epoch, record.metadata_hash)
        case MemberRecord(member_id=member_id, facts=None):
            let_go(telling, member_id)
        case MemberRecord(member_id=member_id, facts=MemberFacts() as facts):
            yield from know(telling, member_id, facts)
        case AssignmentEpoch(epoch=int(epoch)):
            yield from _assign(telling, epoch)
        case MemberTarget(member_id=member_id, partitions=dict(partitions)):
            target(telling, member_id, partitions)
        case MemberShare(epoch=int(epoch)):
            yield from hold(telling, record, epoch)
        case ResolvedPattern():
            yield from _resolve(telling, record)
        case _:
            # Tombstones of a member's partitions come before that of the member, which counts.
            pass


def _begin_epoch(telling: Telling, epoch: int, metadata_hash: int) -> Iterator[Event]:
    """Something has changed that needs another assignment; the records before say what."""
    group = telling.group
    telling.is_changed = True
    if not telling.is_told:
        yield from _first_seen(telling, epoch, metadata_hash)
    went = [each for each in group.members.values() if each.is_leaving]
    for member in went:
        del group.members[member.member_id]
        if member.facts is not None:
            yield telling.removed(member, member.facts)
    if went:
        telling.note(RebalanceCause.UNKNOWN, f"{names([each.member_id for each in went])} went")
    # Kafka writes an epoch together with its cause.
    news = [each for each in group.news if each.at_ms == telling.now_ms]
    if not news and metadata_hash != group.metadata_hash:
        news = [_other_hash(group.metadata_hash, telling.now_ms)]
    before, group.epoch, group.metadata_hash, group.news = group.epoch, epoch, metadata_hash, []
    missing = _missing(before, epoch)
    causes = {each.cause for each in news}
    cause = causes.pop() if len(causes) == 1 and not missing else RebalanceCause.UNKNOWN
    if missing:
        # The group may have been at rest in between.
        group.rebalance = group.rebalance and Rebalance(None, RebalanceCause.UNKNOWN)
    what = list(dict.fromkeys(each.what for each in news))
    reason = "; ".join([*missing, *([names(what)] if what else ())]) or NOTHING_CHANGED
    yield from telling.tell_state(reason, cause, is_whole=not missing)


def _other_hash(before: int, at_ms: int) -> News:
    if before:
        return News(RebalanceCause.TOPICS_CHANGED, "topics changed", at_ms)
    # Brokers that are upgraded from Kafka 4.0 write the first hash of each group.
    return News(RebalanceCause.UNKNOWN, "topics changed, or the brokers were upgraded", at_ms)


def _first_seen(telling: Telling, epoch: int, metadata_hash: int) -> Iterator[Event]:
    """The group is new, or its older records are not there."""
    group = telling.group
    group.members = {name: it for name, it in group.members.items() if not it.is_leaving}
    members = [(each, each.facts) for each in group.members.values() if each.facts is not None]
    group.told_state, group.state_timestamp_ms = GroupState.EMPTY, telling.now_ms
    # Kafka 4.4 writes a hash if there are those topics. Up to 4.0 there is none, and epoch 2 is a second one.
    is_first = epoch < _FIRST_EPOCHS or (epoch == _FIRST_EPOCHS and metadata_hash != 0)
    if is_first and len(members) <= 1:
        yield GroupCreated(**telling.now)
        for member, facts in members:
            yield from telling.added(member, facts)
        return
    group.epoch = epoch
    group.told_state = telling.state()
    reason = "older records of the group are not there"
    yield StateChanged(**telling.now, from_="", to=group.told_state, reason=reason)
    # Nobody knows since when they have been members.
    for member, facts in members:
        yield telling.reconciled(member, facts)
    if group.told_state not in AT_REST:
        group.rebalance = Rebalance(None, RebalanceCause.UNKNOWN)


def _assign(telling: Telling, epoch: int) -> Iterator[Event]:
    """The targets before this record are those of the epoch."""
    group = telling.group
    group.assignment_epoch = epoch
    telling.is_changed = True
    telling.recount()
    changed = [group.members[each] for each in dict.fromkeys(group.retargeted) if each in group.members]
    group.retargeted = []
    assignments = [
        MemberAssigned(each.member_id, group.assignment(unpack(each.target)))
        for each in changed
        if each.facts is not None
    ]
    if assignments:
        yield TargetAssigned(
            **telling.now,
            assignment_epoch=epoch,
            protocol_name=group.assignor or "",
            assignments=assignments,
        )
    group.forget_topics()
    yield from telling.tell_state("the work was divided again")


def _resolve(telling: Telling, record: ResolvedPattern) -> Iterator[Event]:
    """A broker has found out which topics match a pattern, or nobody reads it any more."""
    before = telling.group.patterns.pop(record.pattern, ())
    telling.is_changed = True
    if record.topics is None:
        return
    telling.group.patterns[record.pattern] = record.topics
    if set(before) != set(record.topics):
        telling.note(RebalanceCause.TOPICS_CHANGED, "topics changed")
        matched = KnownPattern(pattern=record.pattern, topics=sorted(record.topics))
        # The log does not say which topics there are.
        yield TopicsChanged(**telling.now, metadata_version=0, patterns=[matched])


def _missing(before: int, epoch: int) -> list[str]:
    """The epochs between these that were not read, in words; none if there are none."""
    first = _FIRST_EPOCHS if not before else before + 1
    if epoch > first:
        return [f"epochs not written down: {epoch - first}"]
    if epoch < before:
        return [f"epoch {before} was before: the group was made again, or records are lost"]
    return []
