"""Whether a sender may commit offsets of a consumer group, or see them.

Source: ConsumerGroup.validateOffsetCommit and validateOffsetFetch of Apache Kafka 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.consumer.reconcile import both
from group_coordinator.coordinator_state.errors import Errors

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.requests import OffsetCommitRequest

__all__ = ["may_commit", "may_fetch"]

_EPOCHS_VERSION = 9
"""The first version of OffsetCommit in which a generation may be a member epoch."""


def may_commit(group: ConsumerGroup, request: OffsetCommitRequest) -> Errors:
    """Whether its sender may commit: with the member's epoch, or with an older one (KIP-1251).

    With an older one, it must have had each of the partitions since then, or before.
    """
    epoch = request.generation_id
    if epoch < 0 and group.is_empty:
        return Errors.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return Errors.UNKNOWN_MEMBER_ID
    if request.version < _EPOCHS_VERSION:
        return Errors.UNSUPPORTED_VERSION
    is_in_time = epoch == member.epoch or (epoch < member.epoch and _has_since(group, member, request))
    return Errors.NONE if is_in_time else Errors.STALE_MEMBER_EPOCH


def _has_since(group: ConsumerGroup, member: ConsumerMember, request: OffsetCommitRequest) -> bool:
    held: dict[str, dict[int, int]] = {}
    for number, partitions in sorted(both(member.share).items()):
        held.setdefault(group.topics.named(number).name, {}).update(partitions)
    for topic in request.topics:
        since = held.get(topic.name, {})
        for each in topic.partitions:
            if since.get(each.partition_index, INT32_MAX) > request.generation_id:
                return False
    return True


def may_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> Errors:
    """Whether this sender may see the offsets: anybody who does not claim to be a member, or a member."""
    if member_id is None:
        return Errors.NONE if member_epoch < 0 else Errors.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return Errors.UNKNOWN_MEMBER_ID
    return Errors.NONE if member_epoch == member.epoch else Errors.STALE_MEMBER_EPOCH
