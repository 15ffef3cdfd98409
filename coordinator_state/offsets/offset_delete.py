"""OffsetDelete: delete offsets of topics that no member of the group uses (KIP-496).

Source: OffsetMetadataManager.deleteOffsets and ClassicGroup.validateOffsetDelete of Apache Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.errors import Errors, not_found
from group_coordinator.coordinator_state.offsets.retention import delete_offsets
from group_coordinator.coordinator_state.responses import PartitionResult, TopicResult

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.group import Group
    from group_coordinator.coordinator_state.requests import OffsetDeleteRequest
    from group_coordinator.coordinator_state.turn import Turn


def handle_offset_delete(turn: Turn[Group], request: OffsetDeleteRequest) -> None:
    """Handle one OffsetDelete. It is no error if there is nothing to delete."""
    error, message = turn.group.may_delete_offsets() if turn.exists else not_found(turn.group_id)
    if error is not Errors.NONE:
        turn.answer(request, error, message)
        return
    topics, deletable = [], []
    for topic in request.topics:
        in_use = turn.group.is_subscribed(topic.name)
        result = Errors.GROUP_SUBSCRIBED_TO_TOPIC if in_use else Errors.NONE
        partitions = [each.partition_index for each in topic.partitions]
        topics.append(TopicResult(topic.name, [PartitionResult(each, result) for each in partitions]))
        if not in_use:
            deletable += [(topic.name, each) for each in partitions]
    delete_offsets(turn, deletable, request.reason)
    turn.answer(request, topics=topics)
