"""How long offsets and groups without members are kept, and how they go.

An offset goes when it was not in use for `offsets.retention.minutes`, or when the time is over that its
commit set. In use it is while the group has members, with one exception: of Kafka's consumers it is known
which topics they read (KIP-211). A group that rebalances loses nothing (KAFKA-13636).

Kafka looks through all groups at every `offsets.retention.check.interval.ms`. Here each group has a deadline
of its own, at most that much later than there is something to be done, and none while there is nothing.

Source: OffsetMetadataManager.cleanupExpiredOffsets and ClassicGroup.offsetExpirationCondition of Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.classic.subscriptions import CONSUMER, is_subscribed
from group_coordinator.coordinator_state.events import (
    GroupDeleted,
    OffsetsDeleted,
    OffsetsExpired,
    PartitionsOfTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.offsets.committed import CommittedOffset
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["await_expiry", "clean_up", "delete_offsets", "end_group"]


# -- offsets expire ------------------------------------------------------------------------------


def await_expiry(turn: Turn, topic: str, offset: CommittedOffset) -> None:
    """Look at `offset`, which was just committed, when its time is over."""
    due_ms = _due_ms(turn, topic, offset)
    if due_ms is not None:
        _look_by(turn, due_ms)


def clean_up(turn: Turn) -> None:
    """Let go what nobody uses: the offsets whose time is over, and the group if nothing is left of it."""
    group, offsets = turn.group, turn.offsets
    expired, awaited = [], []
    for topic, partition, offset in offsets:
        due_ms = _due_ms(turn, topic, offset)
        if due_ms is not None and due_ms <= turn.now_ms:
            expired.append((topic, partition))
        elif due_ms is not None:
            awaited.append(due_ms)
    _delete(turn, OffsetsExpired, expired)
    if group.state is GroupState.EMPTY and not offsets and not group.pending_members:
        end_group(turn, "unused")
        return
    if group.state is GroupState.EMPTY and group.pending_members:
        awaited.append(turn.now_ms)
    if awaited:
        _look_by(turn, min(awaited))


def _due_ms(turn: Turn, topic: str, offset: CommittedOffset) -> int | None:
    """When the time of `offset` is over, as things are; None if it is in use."""
    group, retention_ms = turn.group, turn.config.offsets_retention_ms
    is_empty = group.state is GroupState.EMPTY
    is_known = group.state is GroupState.STABLE and group.protocol_type == CONSUMER
    if is_subscribed(group, topic) or not (is_empty or is_known):
        return None
    if offset.expire_timestamp_ms is not None:
        return offset.expire_timestamp_ms
    if is_empty and group.protocol_type is not None:
        return group.state_timestamp_ms + retention_ms
    return offset.commit_timestamp_ms + retention_ms


def _look_by(turn: Turn, due_ms: int) -> None:
    """Look at `due_ms`, but not before the check interval is over, nor later than awaited so far."""
    at_ms = max(due_ms, turn.now_ms + turn.config.offsets_retention_check_interval_ms)
    awaited_ms = turn.group.cleanup_deadline_ms
    turn.deadlines.set_cleanup(at_ms if awaited_ms is None else min(awaited_ms, at_ms))


# -- offsets and groups are deleted --------------------------------------------------------------


def delete_offsets(turn: Turn, partitions: Iterable[tuple[str, int]]) -> None:
    """Delete what is committed for `partitions`, as far as anything is."""
    _delete(turn, OffsetsDeleted, partitions)
    if turn.group.state is GroupState.EMPTY and not turn.offsets:
        _look_by(turn, turn.now_ms)


def end_group(turn: Turn, reason: str) -> None:
    """The Empty group is no more, nor are its offsets."""
    _delete(turn, OffsetsDeleted, [(topic, partition) for topic, partition, _ in turn.offsets])
    turn.transition(GroupState.DEAD, reason)
    turn.emit(GroupDeleted)
    turn.forget_group()


def _delete(turn: Turn, event_type: type[Event], partitions: Iterable[tuple[str, int]]) -> None:
    deleted: dict[str, list[int]] = {}
    for topic, partition in partitions:
        if turn.offsets.delete(topic, partition):
            deleted.setdefault(topic, []).append(partition)
    if deleted:
        turn.emit(event_type, topics=[PartitionsOfTopic(*each) for each in deleted.items()])
