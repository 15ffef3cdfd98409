"""Heartbeats that cannot be (`GroupCoordinatorServiceTest`), and ConsumerGroupDescribe."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

JOIN: dict[str, Any] = {
    "member_id": "m0",
    "member_epoch": 0,
    "rebalance_timeout_ms": 1_000,
    "subscribed_topic_names": ["a"],
    "topic_partitions": [],
}
TIMEOUT = "RebalanceTimeoutMs must be provided in first request."
OWNED = "TopicPartitions must be empty when (re-)joining."
TOPICS = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
SOME = [{"topic_id": "A", "partitions": [0]}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 1, "api_version": 0}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1, "api_version": 0}, "MemberId can't be empty."),
        ({"group_instance_id": " "}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": ...}, TIMEOUT),
        ({"rebalance_timeout_ms": -1}, TIMEOUT),
        ({"topic_partitions": None}, OWNED),
        ({"topic_partitions": SOME}, OWNED),
        ({"subscribed_topic_names": None}, TOPICS),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": "", "api_version": 0}, TOPICS),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
    ],
)
def test_heartbeat_that_cannot_be(group, fields, message):
    """testConsumerHeartbeatRequestValidation, ...FailureIfMemberIdMissingForVersionsAbove0"""
    s = group()
    reply = s.send("consumer_group_heartbeat", **(JOIN | fields))
    assert (reply.error, reply.error_message) == ("INVALID_REQUEST", message)
    assert (reply.member_id, reply.member_epoch, s.state) == (None, 0, None)


def test_order_of_what_cannot_be(group):
    s = group()
    wrong = {"rack_id": " ", "rebalance_timeout_ms": -1, "topic_partitions": None}
    asked = {"subscribed_topic_names": None, "group_instance_id": " "} | wrong
    for fixed, message in [
        ({"group_instance_id": None}, "InstanceId can't be empty."),
        ({"rack_id": None}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": 1}, TIMEOUT),
        ({"topic_partitions": []}, OWNED),
        ({"subscribed_topic_names": []}, TOPICS),
    ]:
        assert s.send("consumer_group_heartbeat", **(JOIN | asked)).error_message == message
        asked |= fixed
    assert s.send("consumer_group_heartbeat", **(JOIN | asked)).error == "NONE"


@pytest.mark.parametrize("group_id", ["", " "])
def test_group_without_a_name(group_id, group):
    """testEmptyConsumerGroupId"""
    s = group()
    alive = {"members": [{"member_id": "m", "member_epoch": 1}]}
    for fields in (JOIN, alive):
        request = s.request("consumer_group_heartbeat", **fields) | {"group_id": group_id}
        (reply,) = s.put(msgspec.json.encode(request), group_id.encode())
        assert (reply.error, reply.error_message) == ("INVALID_REQUEST", "GroupId can't be empty.")


def test_static_member_without_an_id_of_an_old_client(group):
    """Of -2 the id is not asked for in version 0; then the instance id is unknown."""
    s = group()
    s.join("m0", "a")
    fields = {"member_id": "", "member_epoch": -2, "group_instance_id": "i", "api_version": 0}
    assert s.send("consumer_group_heartbeat", **fields).error == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "needs one of the fields `member_epoch` and `members`"),
        ({"member_epoch": 0, "members": []}, "needs one of the fields `member_epoch` and `members`"),
        ({"member_epoch": 1, "topic_partitions": [{"partitions": []}]}, "missing required field `topic_id`"),
        ({"member_epoch": 1, "topics": [{"name": "a", "partitions": 0}]}, "`$.topics[0].partitions`"),
        ({"member_epoch": 1, "topics": [{"name": "", "partitions": 1}]}, "`$.topics[0].name`"),
        ({"members": [{"member_id": "m", "member_epoch": 0}]}, "`$.members[0].member_epoch`"),
        ({"members": [{"member_id": "m", "member_epoch": 1, "group_instance_id": "i" * 300}]}, "longer than"),
        ({"member_epoch": 1, "subscribed_topic_names": ["a", "a" * 300]}, "`$.subscribed_topic_names[1]`"),
        ({"member_epoch": 1, "topics": [{"name": "a" * 300, "partitions": 1}]}, "`$.topics[0].name`"),
        ({"member_epoch": 1, "rack_id": "a" * 300}, "`$.rack_id`"),
        ({"member_epoch": 1, "topic_partitions": [{"name": "a", "partitions": [-1]}]}, "partitions[0]"),
    ],
)
def test_what_is_no_heartbeat(group, fields, reason):
    s = group()
    reply = s.send("consumer_group_heartbeat", **fields)
    assert reply.error == "INVALID_REQUEST"
    assert reason in reply.error_message
    assert len(s.rejected()) == 1


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "based_on"),
        ({"based_on": 0, "topics": [{"name": "a", "partitions": 0}]}, "`$.topics[0].partitions`"),
        ({"based_on": 0, "topics": [{"name": "a" * 300, "partitions": 1}]}, "`$.topics[0].name`"),
        ({"based_on": 0, "gone": ["a" * 300]}, "`$.gone[0]`"),
    ],
)
def test_what_is_no_topic_metadata(group, fields, reason):
    s = group()
    s.join("m0", "a")
    s.send("topic_metadata", "stranger", **fields)
    assert reason in s.rejected()[0]


# -- describe --------------------------------------------------------------------------------------


def test_describe(group):
    """testConsumerGroupDescribe, testConsumerGroupDescribeNoErrors, testAsDescribedGroup,
    testConsumerGroupDescribeWithNewGroupCoordinator, testAsConsumerGroupDescribeMember"""
    s = group()
    s.join("m0", "a", rack_id="r", client_host="h", group_instance_id="i0", server_assignor="range")
    s.join("m1", "a", "b")
    s.beat("m0")
    told = s.describe()
    assert (told.error, told.group_state) == ("NONE", "Reconciling")
    assert (told.group_epoch, told.assignment_epoch, told.assignor_name) == (3, 3, "range")
    first, second = told.members
    assert (first.member_id, first.group_instance_id, first.rack_id) == ("m0", "i0", "r")
    assert (first.member_epoch, first.client_id, first.client_host) == (2, "client of m0", "h")
    assert (first.subscribed_topic_names, first.subscribed_topic_regex, first.member_type) == (["a"], "", 1)
    # It may still have both; so one answer says who has what another waits for.
    assert [(it.topic_id, it.name, it.partitions) for it in first.assignment] == [("A", "a", [0, 1])]
    assert [(it.topic_id, it.name, it.partitions) for it in first.target_assignment] == [("A", "a", [0])]
    assert (second.member_epoch, second.subscribed_topic_names) == (3, ["a", "b"])
    assert [(it.name, it.partitions) for it in second.assignment] == [("b", [0, 1])]
    assert [(it.name, it.partitions) for it in second.target_assignment] == [("a", [1]), ("b", [0, 1])]


def test_describe_what_is_not_there(group):
    """testConsumerGroupDescribeWithErrors, testConsumerGroupDescribeInvalidGroupId"""
    s = group()
    reply = s.describe()
    assert (reply.error, reply.error_message) == ("GROUP_ID_NOT_FOUND", "Group orders not found.")
    request = s.request("consumer_group_describe") | {"group_id": ""}
    (reply,) = s.put(msgspec.json.encode(request), b"")
    assert reply.error == "INVALID_GROUP_ID"


def test_describe_an_empty_group(group):
    """testConsumerGroupDescribeBeforeAndAfterCommittingOffset, testNewMember"""
    s = group()
    s.join("m0", "a")
    s.leave("m0")
    told = s.describe()
    assert (told.group_state, told.group_epoch, told.assignment_epoch, told.members) == ("Empty", 3, 3, [])
    s.commit("", -1, {"a": [0]})
    assert s.describe().group_state == "Empty"


def test_topic_that_is_gone_is_described_while_a_member_has_it(group):
    """testAsConsumerGroupDescribeWithTopicNameNotFound: Kafka, which knows no name, leaves it out."""
    s = group()
    s.join("m0", "a")
    s.metadata(gone=("a",))
    s.beat("m0")
    (member,) = s.describe().members
    assert [(it.topic_id, it.partitions) for it in member.assignment] == [("A", [0, 1])]
    assert member.target_assignment == []
