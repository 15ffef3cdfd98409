"""Retention of offsets and of groups without members.

An offset expires after `offsets.retention.minutes` without use, or when the time that its commit set is over.
It is in use while the group has members. One exception is a group of Kafka's consumers, whose topics are
known: their other topics are not in use (KIP-211). A group that rebalances loses nothing (KAFKA-13636).

Kafka checks all groups every `offsets.retention.check.interval.ms`. Here each group has a deadline of its
own, at most that much later than something expires. A group in which nothing can expire has no deadline.

Source: OffsetMetadataManager.cleanupExpiredOffsets and ClassicGroup.offsetExpirationCondition of Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from group_coordinator.coordinator_state.events import (
    GroupDeleted,
    OffsetsDeleted,
    OffsetsExpired,
    PartitionsOfTopic,
    StateChanged,
)
from group_coordinator.coordinator_state.group import DeadlineKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.committed import CommittedOffset
    from group_coordinator.coordinator_state.group import Group
    from group_coordinator.coordinator_state.turn import Turn

# -- offsets expire ------------------------------------------------------------------------------


def await_expiry(turn: Turn[Group], topic: str, offset: CommittedOffset) -> None:
    """Check `offset`, which was just committed, when its time is over."""
    due_ms = _due_ms(turn, topic, offset)
    if due_ms is not None:
        _look_by(turn, due_ms)


def clean_up(turn: Turn[Group]) -> None:
    """Delete the offsets that have expired, and the group if nothing is left of it."""
    group, offsets = turn.group, turn.offsets
    if group.is_dead:
        turn.forget_group()
        return
    expired, awaited = [], []
    for topic, partition, offset in offsets:
        due_ms = _due_ms(turn, topic, offset)
        if due_ms is not None and due_ms <= turn.now_ms:
            expired.append((topic, partition))
        elif due_ms is not None:
            awaited.append(due_ms)
    if gone := _delete(turn, expired):
        turn.emit(OffsetsExpired(topics=gone))
    if group.is_unused and not offsets:
        end_group(turn, "unused")
        return
    if group.is_empty and not group.is_unused:
        awaited.append(turn.now_ms)
    if awaited:
        _look_by(turn, min(awaited))


def _due_ms(turn: Turn[Group], topic: str, offset: CommittedOffset) -> int | None:
    """When the time of `offset` is over, as things are; None if it is in use."""
    since_ms = turn.group.unused_since_ms(topic, offset.commit_timestamp_ms)
    if since_ms is None:
        return None
    if offset.expire_timestamp_ms is not None:
        return offset.expire_timestamp_ms
    return since_ms + turn.config.offsets_retention_ms


def look_soon(turn: Turn[Group]) -> None:
    """Look for offsets to expire as soon as the check interval allows, or as awaited if that is earlier."""
    _look_by(turn, turn.now_ms)


def _look_by(turn: Turn[Group], due_ms: int) -> None:
    """Look at `due_ms`, but not before the check interval is over, nor later than awaited so far."""
    at_ms = max(due_ms, turn.now_ms + turn.config.offsets_retention_check_interval_ms)
    awaited_ms = turn.group.cleanup_deadline_ms
    turn.deadlines.set(DeadlineKind.CLEANUP, at_ms if awaited_ms is None else min(awaited_ms, at_ms))


# -- offsets and groups are deleted --------------------------------------------------------------


def delete_offsets(
    turn: Turn[Group], partitions: Iterable[tuple[str, int]], client_reason: str | None
) -> None:
    """Delete the committed offsets of `partitions`, if there are any. `client_reason`: why, or None."""
    if gone := _delete(turn, partitions):
        turn.emit(OffsetsDeleted(topics=gone, client_reason=client_reason or UNSET))
    if turn.group.is_empty and not turn.offsets:
        look_soon(turn)


def end_group(turn: Turn[Group], reason: str, client_reason: str | None = None) -> None:
    """Delete the Empty group and its offsets. `client_reason`: why, in the words of a client, if one did."""
    if gone := _delete(turn, [(topic, partition) for topic, partition, _ in turn.offsets]):
        turn.emit(OffsetsDeleted(topics=gone, client_reason=client_reason or UNSET))
    before = turn.group.state
    turn.group.die()
    if client_reason:
        reason = f"{reason}: {client_reason}"
    turn.emit(StateChanged(from_=str(before), to=str(turn.group.state), reason=reason))
    turn.emit(GroupDeleted())
    turn.await_oblivion()


def _delete(turn: Turn[Group], partitions: Iterable[tuple[str, int]]) -> list[PartitionsOfTopic]:
    """Delete offsets, and return the partitions that had one."""
    deleted: dict[str, list[int]] = {}
    for topic, partition in partitions:
        if turn.offsets.delete(topic, partition, turn.place):
            deleted.setdefault(topic, []).append(partition)
    return [PartitionsOfTopic(*each) for each in deleted.items()]
