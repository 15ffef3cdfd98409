"""OffsetFetch: the committed offsets. Anybody may ask, in any state, whether the group exists or not.

Source: OffsetMetadataManager.fetchOffsets and fetchAllOffsets of Apache Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import FetchedOffset, FetchedOffsetsOfTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.committed import CommittedOffset
    from group_coordinator.coordinator_state.group import Group
    from group_coordinator.coordinator_state.requests import OffsetFetchRequest
    from group_coordinator.coordinator_state.turn import Turn


def handle_offset_fetch(turn: Turn[Group], request: OffsetFetchRequest) -> None:
    """Handle one OffsetFetch. A partition that is asked for twice is answered once."""
    if turn.exists:
        error = turn.group.may_fetch(*request.asker)
        if error is not Errors.NONE:
            turn.answer(request, error)
            return
    offsets = turn.offsets
    asked: Iterable[tuple[str, Iterable[tuple[int, CommittedOffset | None]]]]
    if request.topics is None:
        asked = ((topic, offsets.of_topic(topic)) for topic in offsets.topics())
    else:
        wanted: dict[str, dict[int, None]] = {}
        for named in request.topics:
            wanted.setdefault(named.name, {}).update(dict.fromkeys(named.partition_indexes))
        asked = (
            (topic, ((partition, offsets.get(topic, partition)) for partition in partitions))
            for topic, partitions in wanted.items()
        )
    with_epochs = request.version >= request.LEADER_EPOCH_VERSION
    topics = [
        FetchedOffsetsOfTopic(
            topic, [_fetched(partition, offset, with_epochs=with_epochs) for partition, offset in partitions]
        )
        for topic, partitions in asked
    ]
    turn.answer(request, topics=topics)


def _fetched(partition: int, offset: CommittedOffset | None, *, with_epochs: bool) -> FetchedOffset:
    if offset is None:
        return FetchedOffset(partition_index=partition)
    return FetchedOffset(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch if with_epochs else -1,
        metadata=offset.metadata,
        topic_id=offset.topic_id or UNSET,
    )
