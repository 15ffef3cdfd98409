"""Whether a sender may commit offsets of a consumer group, or see them.

Source: ConsumerGroup.validateOffsetCommit and validateOffsetFetch of Apache Kafka 4.4.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.consumer.partitions import held_runs
from group_coordinator.coordinator_state.errors import Errors

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.requests import OffsetCommitRequest

_EPOCHS_VERSION = 9
"""The first version of OffsetCommit in which a generation may be a member epoch."""


def may_commit(group: ConsumerGroup, request: OffsetCommitRequest) -> Errors:
    """Whether its sender may commit: with the member's epoch, or with an older one (KIP-1251).

    With an older one, it must have had each of the partitions since then, or before. Those of a topic that
    was made again are others than before.
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
    missing: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for named in request.topics:
        indexes = (each.partition_index for each in named.partitions)
        topic_id = "" if named.topic_id is msgspec.UNSET else named.topic_id
        missing[named.name, topic_id].update(indexes)
    for number, run, since in chain(held_runs(member.assigned), held_runs(member.pending)):
        topic = group.topics.named(number)
        if since > request.generation_id or group.topics.is_replaced(topic):
            continue
        for topic_id in {"", topic.topic_id}:
            wanted = missing.get((topic.name, topic_id), set())
            # A member may have very many partitions, of which few are named.
            is_short = len(run) < len(wanted)
            wanted.difference_update(run if is_short else [each for each in wanted if each in run])
    return not any(missing.values())


def may_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> Errors:
    """Whether this sender may see the offsets: anybody who does not claim to be a member, or a member."""
    if member_id is None:
        return Errors.NONE if member_epoch < 0 else Errors.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return Errors.UNKNOWN_MEMBER_ID
    return Errors.NONE if member_epoch == member.epoch else Errors.STALE_MEMBER_EPOCH
