from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.conformance.consumer.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    topic_id_of,
)
from tests.conformance.messages import frame, read

TOPIC = uuid.UUID("b9c45c88-6e29-4090-bcce-95361453371e")
TOPIC_ID = "ucRciG4pQJC8zpU2FFM3Hg"
ENVELOPE = {"client_id": "c", "group_id": "g", "request_id": "r"}


def told(api: str, version: int, response: Any) -> dict[str, Any]:
    response.API_VERSION = version
    response.with_header(correlation_id=1)
    received = bytes(response.encode(header=True, framed=True))
    return read({"api": api, "api_version": version, **ENVELOPE}, received)


def test_a_topic_id_is_written_as_kafka_does() -> None:
    assert topic_id_of(TOPIC) == TOPIC_ID


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_heartbeat_does_not_say_is_null(version: int) -> None:
    request = {"api": "consumer_group_heartbeat", "member_id": "0", "member_epoch": 3}

    sent = frame(request | ENVELOPE | {"api_version": version})

    heartbeat = decoded(sent, version)
    assert (heartbeat.group_id, heartbeat.member_id, heartbeat.member_epoch) == ("g", "0", 3)
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
