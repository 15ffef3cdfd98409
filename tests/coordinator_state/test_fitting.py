"""Answers that can be those to a request, and such as have its id only."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state import requests, responses
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits

HEAD: dict[str, Any] = {"request_id": "r", "client_id": "c", "group_id": "g"}
BOTH = ["a", "b"]
BEATING = [requests.BeatingMember(generation_id=1, member_id=each) for each in BOTH]
LEAVING = [requests.LeavingMember(member_id=each) for each in BOTH]
REQUESTS: list[Any] = [
    requests.JoinGroupRequest(**HEAD, session_timeout_ms=1, protocol_type="", protocols=[]),
    requests.SyncGroupRequest(**HEAD, generation_id=1, member_id="a"),
    requests.HeartbeatRequest(**HEAD, generation_id=1, member_id="a"),
    requests.HeartbeatRequest(**HEAD, members=BEATING),
    requests.LeaveGroupRequest(**HEAD, members=LEAVING),
    requests.LeaveGroupRequest(**HEAD, members=LEAVING[:1], api_version=2),
    requests.OffsetCommitRequest(
        **HEAD,
        topics=[
            requests.OffsetCommitTopic(
                "t", [requests.OffsetCommitPartition(partition_index=it, committed_offset=1) for it in (0, 1)]
            )
        ],
    ),
    requests.OffsetFetchRequest(**HEAD, topics=[requests.OffsetFetchTopic("t", [1, 0, 1])]),
    requests.OffsetFetchRequest(**HEAD),
    requests.OffsetDeleteRequest(
        **HEAD,
        topics=[requests.OffsetDeleteTopic("t", [requests.OffsetDeletePartition(it) for it in (0, 1)])],
    ),
    requests.DescribeGroupRequest(**HEAD),
    requests.DeleteGroupRequest(**HEAD),
    requests.FindCoordinatorRequest(**HEAD),
]


def answer(request: Any, members: list[str], partitions: list[int], topic: str = "t") -> Any:
    """What a coordinator says that has found so much."""
    found = request.refused(Errors.NONE, None)
    match found:
        case responses.HeartbeatResponse() if request.members:
            found.members = [responses.MemberResult(member_id=each) for each in members]
        case responses.LeaveGroupResponse() if request.version > 2:
            found.members = [responses.MemberResult(member_id=each) for each in members]
        case responses.OffsetFetchResponse():
            offsets = [responses.FetchedOffset(partition_index=each) for each in partitions]
            found.topics = [responses.FetchedOffsetsOfTopic(topic, offsets)]
        case responses.OffsetCommitResponse() | responses.OffsetDeleteResponse():
            results = [responses.PartitionResult(each) for each in partitions]
            found.topics = [responses.TopicResult(topic, results)]
    return found


@pytest.mark.parametrize("request_", REQUESTS)
def test_the_coordinators_own_answers_fit(request_: Any) -> None:
    assert fits(request_, answer(request_, BOTH, [0, 1]))
    # Refused unseen, it names nothing.
    assert fits(request_, request_.refused(Errors.INVALID_GROUP_ID, None))


@pytest.mark.parametrize("request_", REQUESTS)
def test_answers_to_other_groups_and_apis_do_not(request_: Any) -> None:
    found = answer(request_, BOTH, [0, 1])
    assert not fits(request_, msgspec.structs.replace(found, group_id="h"))
    others = [each for each in REQUESTS if each.RESPONSE is not request_.RESPONSE]
    assert not any(fits(request_, answer(each, BOTH, [0, 1])) for each in others)


@pytest.mark.parametrize(
    "request_", [each for each in REQUESTS if len(getattr(each, "members", None) or ()) > 1]
)
def test_answers_with_other_members_do_not(request_: Any) -> None:
    for members in ([], ["a"], ["b", "a"], ["a", "b", "c"], ["a", "x"]):
        assert not fits(request_, answer(request_, members, []))


@pytest.mark.parametrize("request_", [each for each in REQUESTS if getattr(each, "topics", None)])
def test_answers_with_other_partitions_do_not(request_: Any) -> None:
    for partitions in ([], [0], [0, 1, 2]):
        assert not fits(request_, answer(request_, [], partitions))
    assert not fits(request_, answer(request_, [], [0, 1], "other"))


def test_one_that_says_that_a_request_cannot_be_read_is_of_its_group_as_far_as_it_says() -> None:
    (join, *_) = REQUESTS
    refused = responses.InvalidRequestResponse(api="join_group", request_id="r", client_id="c", group_id="g")
    for changed, is_fitting in (
        ({}, True),
        ({"api": None, "group_id": None}, True),
        ({"api": "sync_group"}, False),
        ({"group_id": "h"}, False),
        ({"error_code": 0}, False),
    ):
        assert fits(join, msgspec.structs.replace(refused, **changed)) is is_fitting


ALIVE = [requests.AliveMember(member_id=each, member_epoch=3) for each in BOTH]


@pytest.mark.parametrize(
    ("told", "does_fit"), [([], True), (["a"], True), (["b", "a"], True), (["c"], False)]
)
def test_heartbeat_of_consumers_names_no_others_than_those_with_news(told: list[str], does_fit: bool) -> None:
    asked = requests.ConsumerGroupHeartbeatRequest(**HEAD, members=ALIVE)
    members = [responses.ConsumerMemberResult(member_id=each) for each in told]
    assert fits(asked, responses.ConsumerGroupHeartbeatResponse(**HEAD, members=members)) is does_fit


@pytest.mark.parametrize(
    ("member_id", "told", "error_code", "does_fit"),
    [
        ("a", "a", 0, True),
        ("a", "b", 0, False),
        ("a", None, 0, False),
        ("a", None, 110, True),
        ("a", "a", 110, False),
        # The coordinator makes the id.
        ("", "b", 0, True),
    ],
)
def test_heartbeat_of_a_consumer_names_it_unless_with_an_error(
    member_id: str, told: str | None, error_code: int, does_fit: bool
) -> None:
    asked = requests.ConsumerGroupHeartbeatRequest(**HEAD, member_id=member_id, member_epoch=0)
    answered = responses.ConsumerGroupHeartbeatResponse(**HEAD, member_id=told, error_code=error_code)
    assert fits(asked, answered) is does_fit
