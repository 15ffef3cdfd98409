"""OffsetCommit: a member commits offsets. While a group has no members, anybody may.

Source: OffsetMetadataManager.commitOffset and ClassicGroup.validateOffsetCommit of Apache Kafka 4. The
coordinator does not check whether a topic exists, because a unit of work need not be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.committed import CommittedOffset
from group_coordinator.coordinator_state.deadlines import later
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import CommittedPartition, OffsetsCommitted, OffsetsOfTopic
from group_coordinator.coordinator_state.near_expiry import tell_if_nearly_expired
from group_coordinator.coordinator_state.offsets.retention import await_expiry
from group_coordinator.coordinator_state.responses import PartitionResult, TopicResult

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.group import Group
    from group_coordinator.coordinator_state.requests import (
        OffsetCommitPartition,
        OffsetCommitRequest,
        OffsetCommitTopic,
    )
    from group_coordinator.coordinator_state.turn import Turn


def handle_offset_commit(turn: Turn[Group], request: OffsetCommitRequest) -> None:
    """Handle one OffsetCommit. One without partitions is granted without a check, as KafkaApis does."""
    if not request.partitions_named:
        _answer(turn, request, Errors.NONE)
    elif (error := _validate(turn, request)) is not Errors.NONE:
        _answer(turn, request, error)
    else:
        _grant(turn, request)


def _grant(turn: Turn[Group], request: OffsetCommitRequest) -> None:
    """Commit what is not too large."""
    if not turn.exists:
        # A group that has never had members is a classic one, as in Kafka.
        turn.create_group(ClassicGroup.new(turn.group_id, turn.now_ms))
    if (member := turn.group.heard_from(request.member_id)) is not None:
        tell_if_nearly_expired(turn, member, member.session_timeout_ms)
        turn.restart_session(member.member_id, member.session_timeout_ms)
    results, committed = [], []
    for topic in request.topics:
        result, of_topic = _commit(turn, request, topic)
        results.append(TopicResult(topic.name, result))
        if of_topic:
            committed.append(OffsetsOfTopic(topic.name, of_topic, topic.topic_id))
    turn.answer(request, topics=results)
    if committed:
        turn.emit(
            OffsetsCommitted(
                member_id=request.member_id,
                client_id=request.client_id,
                topics=committed,
                client_reason=request.reason or UNSET,
            )
        )


def _answer(turn: Turn[Group], request: OffsetCommitRequest, error: Errors) -> None:
    """Answer the whole request, and each partition, with `error`."""
    topics = [
        TopicResult(topic.name, [PartitionResult(each.partition_index, error) for each in topic.partitions])
        for topic in request.topics
    ]
    turn.answer(request, error, topics=topics)


def _validate(turn: Turn[Group], request: OffsetCommitRequest) -> Errors:
    """Whether the sender may commit. Without a generation that is anybody, if the group has no members."""
    if not turn.exists:
        if request.generation_id < 0:
            # With as many groups as there may be, one more is refused.
            return Errors.COORDINATOR_NOT_AVAILABLE if turn.is_closed else Errors.NONE
        is_new = request.version >= request.GROUP_ID_NOT_FOUND_VERSION
        return Errors.GROUP_ID_NOT_FOUND if is_new else Errors.ILLEGAL_GENERATION
    return turn.group.may_commit(request)


def _commit(
    turn: Turn[Group], request: OffsetCommitRequest, topic: OffsetCommitTopic
) -> tuple[list[PartitionResult], list[CommittedPartition]]:
    """Commit for one topic; what to answer, and what was committed."""
    results, committed = [], []
    for each in topic.partitions:
        offset = _offset(turn, request, topic, each)
        error = _check_size(turn, topic.name, each.partition_index, offset)
        results.append(PartitionResult(each.partition_index, error))
        if error is Errors.NONE:
            turn.offsets.put(topic.name, each.partition_index, offset, turn.place)
            await_expiry(turn, topic.name, offset)
            committed.append(
                CommittedPartition(
                    partition_index=each.partition_index,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                )
            )
    return results, committed


def _offset(
    turn: Turn[Group],
    request: OffsetCommitRequest,
    topic: OffsetCommitTopic,
    partition: OffsetCommitPartition,
) -> CommittedOffset:
    has_epoch = request.version >= request.LEADER_EPOCH_VERSION
    has_retention = request.version <= request.LAST_RETENTION_VERSION and request.retention_time_ms != -1
    # A negative time is over at once.
    expire_at = later(turn.now_ms, max(request.retention_time_ms, 0))
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch if has_epoch else -1,
        metadata=partition.committed_metadata or "",
        commit_timestamp_ms=turn.now_ms,
        expire_timestamp_ms=expire_at if has_retention else None,
        topic_id="" if topic.topic_id is UNSET else topic.topic_id,
    )


def _check_size(turn: Turn[Group], topic: str, partition: int, offset: CommittedOffset) -> Errors:
    config, offsets = turn.config, turn.offsets
    # Kafka's limit is in bytes by its name, and in Java's characters by what is counted.
    if len(offset.metadata.encode("utf-16-le")) // 2 > config.offset_metadata_max_bytes:
        return Errors.OFFSET_METADATA_TOO_LARGE
    count, size = offsets.growth(topic, partition, offset)
    if count and len(offsets) + count > config.max_group_offsets:
        return Errors.INVALID_COMMIT_OFFSET_SIZE
    if size > 0 and offsets.bytes_held + size > config.max_group_bytes:
        return Errors.INVALID_COMMIT_OFFSET_SIZE
    return Errors.NONE
