from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin.groups import ListGroupsResponse
from kafka.protocol.consumer.group import OffsetCommitResponse, OffsetFetchResponse

from tests.conformance.messages import offsets_by_partition, read

WHO = {"group_id": "orders"}


def told(api: str, version: int, response: Any) -> dict[str, Any]:
    response.API_VERSION = version
    response.with_header(correlation_id=1)
    received = bytes(response.encode(header=True, framed=True))
    return read({"api": api, "api_version": version, **WHO}, received)


@pytest.mark.parametrize(
    ("errors", "of_all"),
    [([0, 0], 0), ([25, 25], 25), ([22], 22), ([12], 0), ([12, 0], 0), ([3], 0), ([], 0)],
)
def test_the_error_of_a_whole_commit_is_each_partitions(errors: list[int], of_all: int) -> None:
    kind = OffsetCommitResponse.OffsetCommitResponseTopic
    entry = kind.OffsetCommitResponsePartition
    partitions = [entry(partition_index=place, error_code=error) for place, error in enumerate(errors)]

    fields = told("offset_commit", 9, OffsetCommitResponse(topics=[kind(name="t", partitions=partitions)]))

    assert fields["error_code"] == of_all
    assert [each["error_code"] for each in fields["topics"][0]["partitions"]] == errors


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_a_fetch_is_told_alike_in_all_versions(version: int) -> None:
    group = OffsetFetchResponse.OffsetFetchResponseGroup
    kind = group.OffsetFetchResponseTopics if version >= 8 else OffsetFetchResponse.OffsetFetchResponseTopic
    entry = kind.OffsetFetchResponsePartitions if version >= 8 else kind.OffsetFetchResponsePartition
    partition = entry(
        partition_index=1, committed_offset=7, committed_leader_epoch=-1, metadata="m", error_code=0
    )
    topics = [kind(name="t", partitions=[partition])]
    told_of = {"groups": [group(topics=topics, error_code=0, **WHO)]} if version >= 8 else {"topics": topics}

    fields = told("offset_fetch", version, OffsetFetchResponse(error_code=0, **told_of))

    assert fields["error_code"] == 0
    assert offsets_by_partition(fields["topics"]) == {"t-1": [7, -1, "m"]}


def test_of_a_list_only_the_group_matters() -> None:
    entry = ListGroupsResponse.ListedGroup
    groups = [
        entry(group_id=name, protocol_type="", group_state=state, group_type="classic")
        for name, state in (("payments", "Empty"), ("orders", "Stable"))
    ]

    fields = told("list_groups", 5, ListGroupsResponse(error_code=0, groups=groups))

    assert [group["group_state"] for group in fields["groups"]] == ["Stable"]
