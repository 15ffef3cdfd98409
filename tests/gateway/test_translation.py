"""From Kafka's messages to the contract's and back.

The messages of the conformance tests go the other way: they make Kafka's requests of the contract's, and read
Kafka's responses as the contract's. What has gone both ways is what it was.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state import responses as answers
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.translation import Sender, refusal, to_contract, to_kafka
from tests.conformance.messages import frame, read

NAMED: dict[str, tuple[range, dict[str, Any]]] = {
    "join_group": (
        range(10),
        {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": "m",
            "group_instance_id": "i",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\1"}, {"name": "sticky", "metadata": b""}],
            "reason": "because",
        },
    ),
    "sync_group": (
        range(6),
        {
            "generation_id": 3,
            "member_id": "m",
            "group_instance_id": "i",
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": "m", "assignment": b"\2"}],
        },
    ),
    "heartbeat": (range(5), {"generation_id": 3, "member_id": "m", "group_instance_id": "i"}),
    "leave_group": (
        range(6),
        {"members": [{"member_id": "m", "group_instance_id": "i", "reason": "bored"}]},
    ),
    "offset_commit": (
        range(2, 10),
        {
            "generation_id": 3,
            "member_id": "m",
            "group_instance_id": "i",
            "retention_time_ms": 7,
            "topics": [
                {
                    "name": "orders",
                    "partitions": [
                        {
                            "partition_index": 1,
                            "committed_offset": 2**40,
                            "committed_leader_epoch": 5,
                            "committed_metadata": "why",
                        }
                    ],
                }
            ],
        },
    ),
    "offset_fetch": (
        range(1, 10),
        {"topics": [{"name": "orders", "partition_indexes": [0, 2]}], "require_stable": True},
    ),
    "offset_delete": (range(1), {"topics": [{"name": "orders", "partitions": [{"partition_index": 4}]}]}),
    "describe_group": (range(7), {}),
    "delete_group": (range(3), {}),
}
# What came with which version, and what is read before.
SINCE: dict[tuple[str, str], tuple[int, Any]] = {
    ("join_group", "rebalance_timeout_ms"): (1, None),
    ("join_group", "group_instance_id"): (5, None),
    ("join_group", "reason"): (8, None),
    ("sync_group", "group_instance_id"): (3, None),
    ("sync_group", "protocol_type"): (5, None),
    ("sync_group", "protocol_name"): (5, None),
    ("heartbeat", "group_instance_id"): (3, None),
    ("offset_commit", "group_instance_id"): (7, None),
    ("offset_fetch", "require_stable"): (7, False),
}
EVERY = [(api, version) for api, (versions, _) in NAMED.items() for version in versions]
requests = msgspec.json.Decoder(contract.AnyRequest)


def sender() -> Sender:
    numbers = count()
    return Sender("c1", "/10.0.0.7", 3, lambda: f"g-{next(numbers)}")


def asked(api: str, version: int, **fields: Any) -> Request:
    named = NAMED[api][1] | fields
    return codec.decode_request(
        frame({"api": api, "api_version": version, "client_id": "c1", "group_id": "g", **named})
    )


def expected(api: str, version: int) -> dict[str, Any]:
    fields = deepcopy(NAMED[api][1])
    for (of, name), (since, before) in SINCE.items():
        if of == api and version < since:
            fields[name] = before
    if api == "leave_group":
        (member,) = fields["members"]
        static = {"group_instance_id": "i"} if version >= 3 else {"group_instance_id": None}
        fields["members"] = [member | static | {"reason": "bored" if version >= 5 else None}]
    if api == "offset_commit":
        fields["retention_time_ms"] = 7 if version <= 4 else -1
        epoch = 5 if version >= 6 else -1
        fields["topics"][0]["partitions"][0]["committed_leader_epoch"] = epoch
    return fields


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_a_request_is_that_of_the_contract(api: str, version: int) -> None:
    (request,) = to_contract(asked(api, version), sender())
    about = {
        "api": api,
        "request_id": "g-0",
        "client_id": "c1",
        "client_host": "/10.0.0.7",
        "reply_partition": 3,
        "group_id": "g",
        "api_version": version,
    }
    wanted = requests.decode(msgspec.json.encode(about | expected(api, version)))
    assert requests.decode(msgspec.json.encode(request)) == wanted


@pytest.mark.parametrize("version", [8, 9])
def test_a_fetch_of_several_groups_is_a_request_for_each(version: int) -> None:
    request = asked("offset_fetch", version)
    request.message.groups = request.message.groups * 2
    request.message.groups[1].topics = None
    first, second = to_contract(request, sender())
    assert (first.request_id, second.request_id) == ("g-0", "g-1")
    assert isinstance(second, contract.OffsetFetchRequest)
    assert second.topics is None


def test_a_group_that_is_deleted_twice_is_asked_for_once() -> None:
    request = asked("delete_group", 2)
    request.message.groups_names = ["g", "h", "g"]
    assert [each.group_id for each in to_contract(request, sender())] == ["g", "h"]


MEMBER = answers.MemberResult(member_id="m", group_instance_id="i", error_code=25)
PARTITIONS = [answers.TopicResult("orders", [answers.PartitionResult(1, 12)])]
SAID: dict[str, dict[str, Any]] = {
    "join_group": {
        "generation_id": 3,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "m",
        "skip_assignment": True,
        "member_id": "m",
        "members": [answers.JoinGroupMember("m", "i", b"\1")],
    },
    "sync_group": {"protocol_type": "consumer", "protocol_name": "range", "assignment": b"\2"},
    "heartbeat": {},
    "leave_group": {"members": [MEMBER]},
    "offset_commit": {"topics": PARTITIONS},
    "offset_fetch": {
        "topics": [
            answers.FetchedOffsetsOfTopic(
                "orders",
                [
                    answers.FetchedOffset(
                        partition_index=1, committed_offset=5, committed_leader_epoch=6, metadata="x"
                    )
                ],
            )
        ]
    },
    "offset_delete": {"topics": PARTITIONS},
    "describe_group": {
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": [
            answers.DescribedMember(
                member_id="m",
                group_instance_id="i",
                client_id="c1",
                client_host="/10.0.0.7",
                member_metadata=b"\1",
                member_assignment=b"\2",
            )
        ],
    },
    "delete_group": {},
}
# What came with which version of a response, and what is read before.
TOLD_SINCE: dict[str, dict[str, tuple[int, Any]]] = {
    "join_group": {"protocol_type": (7, None), "skip_assignment": (9, False)},
    "sync_group": {"protocol_type": (5, None), "protocol_name": (5, None)},
    "leave_group": {"members": (3, [])},
}


@pytest.mark.parametrize(("api", "version"), EVERY)
@pytest.mark.parametrize("error", [Errors.NONE, Errors.GROUP_ID_NOT_FOUND])
def test_a_response_is_kafkas(api: str, version: int, error: Errors) -> None:
    request = asked(api, version)
    (mine,) = to_contract(request, sender())
    response = mine.RESPONSE.to(mine.reply_to, "g", error, **SAID[api])
    written = codec.encode_response(to_kafka(request, [response]), 1)
    told = read({"api": api, "api_version": version}, written)

    fields = msgspec.to_builtins(response, builtin_types=(bytes,))
    for name, (since, before) in TOLD_SINCE.get(api, {}).items():
        if version < since:
            fields[name] = before
    if api == "offset_commit":
        told.pop("error_code")  # it has none: the stream puts it to each partition
    if api == "offset_fetch" and version < 2:
        partition = told["topics"][0]["partitions"][0]
        assert partition["error_code"] == error or error is Errors.NONE
        return
    if "members" in told and version < 5:
        for member in [*told["members"], *fields["members"]]:
            member.pop("group_instance_id", None)
    for name, value in told.items():
        if name == "members":
            assert [
                {k: each[k] for k in member} for each, member in zip(fields[name], value, strict=True)
            ] == value
        elif name == "topics" and version < 5 and api == "offset_fetch":
            assert value[0]["partitions"][0]["committed_offset"] == 5
        else:
            assert fields[name] == value, name


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_what_the_gateway_refuses_can_be_written(api: str, version: int) -> None:
    request = asked(api, version)
    (mine,) = to_contract(request, sender())
    refused = refusal(mine, Errors.COORDINATOR_NOT_AVAILABLE)
    told = read({"api": api, "api_version": version}, codec.encode_response(to_kafka(request, [refused]), 1))
    if api == "offset_fetch" and version < 2:
        assert told["topics"][0]["partitions"][0]["error_code"] == 15
    else:
        assert told["error_code"] == 15


def test_a_leave_that_stands_in_the_log_is_granted() -> None:
    request = asked("leave_group", 5)
    (mine,) = to_contract(request, sender())
    granted = refusal(mine, Errors.NONE)
    assert granted.members == [answers.MemberResult(member_id="m", group_instance_id="i")]


def test_every_api_of_the_stream_is_translated_in_every_version_that_is_offered() -> None:
    keys = {"join_group": 11, "sync_group": 14, "heartbeat": 12, "leave_group": 13, "offset_commit": 8}
    keys |= {"offset_fetch": 9, "offset_delete": 47, "describe_group": 15, "delete_group": 42}
    # `test_consumer_translation.py` has those of the consumer protocol.
    of_consumers = {68, 69}
    assert {key for key, api in APIS.items() if api.way is Way.STREAM} == {*keys.values(), *of_consumers}
    assert {api: versions[-1] for api, (versions, _) in NAMED.items()} == {
        api: APIS[key].newest for api, key in keys.items()
    }
