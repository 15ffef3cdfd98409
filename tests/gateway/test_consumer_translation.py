"""The consumer protocol's messages between Kafka and the contract."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state import responses as answers
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests.consumer import OwnedTopic
from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest
from group_coordinator.gateway.translation import Sender, refusal, to_contract, to_kafka
from tests.gateway.consumers import IDS, alive, full, owns, sent

requests = msgspec.json.Decoder(contract.AnyRequest)
UNIT = answers.AssignedTopic(None, "unit", [0])
MADE_UP = answers.AssignedTopic("no id of Kafka's", "made up", [0])
ASSIGNED = [UNIT, answers.AssignedTopic(str(IDS["a"]), "a", [0, 2]), MADE_UP]


def asked(message: Any) -> tuple[Any, list[Any]]:
    """The request as it is read, and what it becomes in the log."""
    request = codec.decode_request(sent(message))
    numbers = count()
    return request, to_contract(request, Sender("c1", "/10.0.0.7", 3, lambda: f"g-{next(numbers)}", "p-"))


def told(request: Any, responses: list[Any]) -> Any:
    """Kafka's response, as a client reads it."""
    frame = codec.encode_response(to_kafka(request, responses), 1)
    return codec.decode_response(request.head.api_key, request.head.api_version, frame)


def partitions(assignment: Any) -> list[tuple[Any, list[int]]]:
    return [(each.topic_id, list(each.partitions)) for each in assignment.topic_partitions]


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_is_that_of_the_contract(version: int) -> None:
    fields = {"rack_id": "r", "server_assignor": "range", "instance_id": "i"}
    pattern = {"subscribed_topic_regex": "a.*"} if version == 1 else {}
    _, (request,) = asked(full(5, version=version, topic_partitions=owns(a=[1, 3]), **fields, **pattern))
    decoded = requests.decode(msgspec.json.encode(request))
    assert decoded == contract.ConsumerGroupHeartbeatRequest(
        request_id="g-0",
        client_id="c1",
        client_host="/10.0.0.7",
        reply_partition=3,
        group_id="p-orders",
        api_version=version,
        member_id="m",
        member_epoch=5,
        group_instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=["a"],
        subscribed_topic_regex="a.*" if version == 1 else None,
        server_assignor="range",
        topic_partitions=[OwnedTopic([1, 3], str(IDS["a"]))],
    )


def test_what_a_member_does_not_say_is_not_said_for_it() -> None:
    _, (request,) = asked(alive(5))
    assert (request.subscribed_topic_names, request.topic_partitions, request.topics) == (None, None, [])
    assert request.members is msgspec.UNSET


@pytest.mark.parametrize("version", [0, 1])
def test_an_answer_has_all_that_brokers_know(version: int) -> None:
    request, (mine,) = asked(full(version=version))
    response = mine.RESPONSE.to(
        mine.reply_to, "g", member_id="m", member_epoch=7, heartbeat_interval_ms=5_000, assignment=ASSIGNED
    )
    answer = told(request, [response])
    assert (answer.error_code, answer.error_message, answer.member_id) == (0, None, "m")
    assert (answer.member_epoch, answer.heartbeat_interval_ms) == (7, 5_000)
    assert partitions(answer.assignment) == [(IDS["a"], [0, 2])], "units of work have no id"


def test_no_assignment_is_not_an_empty_one() -> None:
    request, (mine,) = asked(alive(5))
    for assignment, read in ((None, None), ([], []), ([UNIT], [])):
        answer = told(request, [mine.RESPONSE.to(mine.reply_to, "g", assignment=assignment)])
        assert (answer.assignment if read is None else partitions(answer.assignment)) == read


def test_an_error_has_its_message_and_no_member() -> None:
    request, (mine,) = asked(full())
    response = mine.RESPONSE.to(mine.reply_to, "g", Errors.INVALID_REGULAR_EXPRESSION, "because")
    answer = told(request, [response])
    assert (answer.error_code, answer.error_message, answer.member_id, answer.member_epoch) == (
        128,
        "because",
        None,
        0,
    )


@pytest.mark.parametrize("version", [0, 1])
def test_what_the_gateway_refuses_can_be_written(version: int) -> None:
    describes = ConsumerGroupDescribeRequest(
        version=version, group_ids=["g"], include_authorized_operations=False
    )
    for message in (alive(1, version=version), describes):
        request, (mine,) = asked(message)
        answer = told(request, [refusal(mine, Errors.COORDINATOR_NOT_AVAILABLE)])
        (found,) = [answer] if message is not describes else answer.groups
        assert (found.error_code, found.error_message) == (15, None)


@pytest.mark.parametrize("version", [0, 1])
def test_a_description_has_members_epochs_and_targets(version: int) -> None:
    message = ConsumerGroupDescribeRequest(
        version=version, group_ids=["g", "h"], include_authorized_operations=False
    )
    request, (first, second) = asked(message)
    assert (first.group_id, second.group_id, first.api_version) == ("p-g", "p-h", version)
    member = answers.DescribedConsumer(
        member_id="m",
        group_instance_id="i",
        rack_id=None,
        member_epoch=4,
        client_id="c1",
        client_host="/10.0.0.7",
        subscribed_topic_names=["a"],
        subscribed_topic_regex="",
        assignment=ASSIGNED,
        target_assignment=[UNIT],
    )
    described = first.RESPONSE.to(
        first.reply_to,
        "p-g",
        group_state="Reconciling",
        group_epoch=5,
        assignment_epoch=4,
        assignor_name="uniform",
        members=[member],
    )
    unknown = second.RESPONSE.to(second.reply_to, "p-h", Errors.GROUP_ID_NOT_FOUND, "there is none")
    one, other = told(request, [described, unknown]).groups
    assert (one.group_id, one.group_state, one.group_epoch, one.assignment_epoch) == (
        "g",
        "Reconciling",
        5,
        4,
    )
    (found,) = one.members
    assert (found.member_id, found.instance_id, found.member_epoch) == ("m", "i", 4)
    assert partitions(found.assignment) == [(IDS["a"], [0, 2])]
    assert [each.topic_name for each in found.assignment.topic_partitions] == ["a"]
    assert partitions(found.target_assignment) == []
    assert found.member_type == (1 if version == 1 else -1)
    assert (other.group_id, other.error_code, other.error_message) == ("h", 69, "there is none")
    assert one.authorized_operations == other.authorized_operations


def test_both_are_offered_in_the_versions_of_the_contract() -> None:
    assert {key: (APIS[key].oldest, APIS[key].newest) for key in (68, 69)} == {68: (0, 1), 69: (0, 1)}
    assert {GROUP_APIS[key].newest for key in (68, 69)} == {1}


def test_a_list_has_no_null_in_it() -> None:
    frame = bytearray(sent(full(subscribed_topic_names=["x"])))
    at = frame.index(b"\x02\x02x")
    frame[at : at + 3] = b"\x02\x00"
    frame[:4] = (len(frame) - 4).to_bytes(4)
    with pytest.raises(FrameError):
        codec.decode_request(bytes(frame))
