from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import NoError, UnknownMemberIdError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.offset_lists import committed, errors_of, to_commit, to_delete, to_fetch
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.requests import OffsetCommitRequest
from group_coordinator.coordinator_state.responses import (
    FetchedOffset,
    FetchedOffsetsOfTopic,
    OffsetCommitResponse,
    OffsetFetchResponse,
    PartitionResult,
    TopicResult,
)

WHO = {"request_id": "r", "client_id": "c", "group_id": "g"}
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "ü" * 255]), st.integers(0, 99))
OFFSETS = st.builds(
    OffsetAndMetadata,
    st.integers(0, 2**63 - 1),
    st.one_of(st.none(), st.just(""), st.just("ü" * 4096)),
    st.one_of(st.none(), st.integers(-1, 9)),
)


@pytest.mark.drawn
@given(st.dictionaries(PARTITIONS, OFFSETS))
def test_every_offset_is_committed_once_and_no_request_is_too_large(offsets):
    lists = to_commit(offsets)

    entries = {
        TopicPartition(topic.name, each.partition_index): each
        for topics in lists
        for topic in topics
        for each in topic.partitions
    }
    assert offsets.keys() == entries.keys()
    assert len(offsets) == sum(len(topic.partitions) for topics in lists for topic in topics)
    for partition, offset in offsets.items():
        entry = entries[partition]
        epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
        assert (offset.offset, offset.metadata, epoch) == (
            entry.committed_offset,
            entry.committed_metadata,
            entry.committed_leader_epoch,
        )
    for topics in lists:
        request = OffsetCommitRequest(topics=topics, **WHO)
        assert len(msgspec.json.encode(request)) < GroupConfig().max_request_bytes / 2


@pytest.mark.drawn
@given(st.sets(PARTITIONS))
def test_every_partition_is_fetched_and_deleted_once(partitions):
    fetched = [
        (t.name, number) for topics in to_fetch(partitions) for t in topics for number in t.partition_indexes
    ]
    deleted = [
        (topic.name, each.partition_index)
        for topics in to_delete(partitions)
        for topic in topics
        for each in topic.partitions
    ]

    assert sorted(partitions) == sorted(fetched) == sorted(deleted)


def test_nothing_is_no_request():
    assert [] == to_commit({}) == to_fetch([]) == to_delete([])


def test_answers_are_read_by_partition():
    fetched = FetchedOffset(partition_index=1, committed_offset=5, committed_leader_epoch=2, metadata="m")
    # A client may commit a negative offset, and for others it is none.
    nothing = FetchedOffset(partition_index=2, committed_offset=-1, committed_leader_epoch=2, metadata="m")
    fetch = OffsetFetchResponse(topics=[FetchedOffsetsOfTopic("t", [fetched, nothing])], **WHO)
    commit = OffsetCommitResponse(
        topics=[TopicResult("t", [PartitionResult(0), PartitionResult(1, 25)])], **WHO
    )

    assert {TopicPartition("t", 1): OffsetAndMetadata(5, "m", 2)} == committed(fetch)
    assert {
        TopicPartition("t", 0): NoError,
        TopicPartition("t", 1): UnknownMemberIdError,
    } == errors_of(commit)
