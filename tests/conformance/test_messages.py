from __future__ import annotations

import uuid
from typing import Any

import pytest
from kafka.protocol.admin.groups import ListGroupsResponse
from kafka.protocol.consumer.group import OffsetCommitResponse, OffsetFetchResponse

from group_coordinator.gateway.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.conformance.messages import frame, offsets_by_partition, read, topic_id_of

WHO = {"group_id": "orders"}
ENVELOPE = {"client_id": "c", "request_id": "r"} | WHO
TOPIC = uuid.UUID("b9c45c88-6e29-4090-bcce-95361453371e")
TOPIC_ID = "ucRciG4pQJC8zpU2FFM3Hg"


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


def test_a_topic_id_is_written_as_kafka_does() -> None:
    assert topic_id_of(TOPIC) == TOPIC_ID


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_heartbeat_does_not_say_is_null(version: int) -> None:
    request = {"api": "consumer_group_heartbeat", "member_id": "0", "member_epoch": 3}

    sent = frame(request | ENVELOPE | {"api_version": version})

    heartbeat = decoded(sent, version)
    assert (heartbeat.group_id, heartbeat.member_id, heartbeat.member_epoch) == ("orders", "0", 3)
    assert heartbeat.rebalance_timeout_ms == -1
    names = ("instance_id", "rack_id", "subscribed_topic_names", "server_assignor", "topic_partitions")
    assert [getattr(heartbeat, name) for name in names] == [None] * 5


def test_all_that_a_heartbeat_says_is_sent_but_for_hints() -> None:
    said = {
        "rack_id": "r",
        "rebalance_timeout_ms": 7,
        "subscribed_topic_names": ["a"],
        "subscribed_topic_regex": "x",
        "server_assignor": "range",
    }
    request = {
        "api": "consumer_group_heartbeat",
        "member_id": "0",
        "member_epoch": 0,
        "group_instance_id": "i",
    }
    owned = [{"topic_id": TOPIC_ID, "partitions": [1, 2]}]
    hints = [{"name": "a", "topic_id": TOPIC_ID, "partitions": 3}]

    sent = frame(request | said | ENVELOPE | {"api_version": 1, "topic_partitions": owned, "topics": hints})

    heartbeat = decoded(sent, 1)
    assert {name: getattr(heartbeat, name) for name in said} == said
    assert heartbeat.instance_id == "i"
    assert [(each.topic_id, each.partitions) for each in heartbeat.topic_partitions] == [(TOPIC, [1, 2])]


@pytest.mark.parametrize("partitions", [None, [], [0, 2]])
def test_an_assignment_may_be_null_empty_or_there(partitions: list[int] | None) -> None:
    assignment = None
    if partitions is not None:
        kind = ConsumerGroupHeartbeatResponse.Assignment
        topics = [kind.TopicPartitions(topic_id=TOPIC, partitions=partitions)] if partitions else []
        assignment = kind(topic_partitions=topics)

    fields = told("consumer_group_heartbeat", 1, ConsumerGroupHeartbeatResponse(assignment=assignment))

    expected = {None: None, 0: [], 2: [{"topic_id": TOPIC_ID, "partitions": [0, 2]}]}
    assert fields["assignment"] == expected[None if partitions is None else len(partitions)]


def test_a_described_member_has_what_it_has_and_is_to_have() -> None:
    group = ConsumerGroupDescribeResponse.DescribedGroup
    member = group.Member
    entry = member.Assignment.TopicPartitions(topic_id=TOPIC, topic_name="a", partitions=[1])
    described = member(
        member_id="0",
        member_epoch=2,
        subscribed_topic_names=["a"],
        assignment=member.Assignment(topic_partitions=[]),
        target_assignment=member.Assignment(topic_partitions=[entry]),
        member_type=1,
    )
    groups = [
        group(group_id="g", group_state="Stable", group_epoch=2, assignment_epoch=2, members=[described])
    ]

    fields = told("consumer_group_describe", 1, ConsumerGroupDescribeResponse(groups=groups))

    assert (fields["group_state"], fields["group_epoch"], fields["assignment_epoch"]) == ("Stable", 2, 2)
    (only,) = fields["members"]
    assert (only["member_id"], only["member_epoch"], only["member_type"]) == ("0", 2, 1)
    assert (only["assignment"], only["target_assignment"]) == (
        [],
        [{"topic_id": TOPIC_ID, "partitions": [1]}],
    )


def decoded(sent: bytes, version: int) -> Any:
    return ConsumerGroupHeartbeatRequest.decode(sent, version=version, header=True, framed=True)
