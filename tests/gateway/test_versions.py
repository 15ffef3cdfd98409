"""Each version of each API that is not passed on is answered over a socket as a live broker answers it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from tests.gateway.conftest import Running
from tests.patience import PATIENCE_S, eventually

pytestmark = pytest.mark.spark

TOPIC = "versions"
_COMMITTED = OffsetCommitRequest.OffsetCommitRequestTopic
_DELETED = OffsetDeleteRequest.OffsetDeleteRequestTopic
_FETCHED = OffsetFetchRequest.OffsetFetchRequestTopic
_GROUP = OffsetFetchRequest.OffsetFetchRequestGroup


def _commit(version: int, group_id: str) -> Any:
    partition = _COMMITTED.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=3, committed_metadata="text"
    )
    return OffsetCommitRequest(
        version=version, group_id=group_id, topics=[_COMMITTED(name=TOPIC, partitions=[partition])]
    )


def _join(version: int, group_id: str) -> Any:
    return JoinGroupRequest(
        version=version,
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01")],
        reason="tried",
    )


def _sync(version: int, group_id: str) -> Any:
    return SyncGroupRequest(
        version=version,
        group_id=group_id,
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    )


def _leave(version: int, group_id: str) -> Any:
    members = [LeaveGroupRequest.MemberIdentity(member_id=each, reason="tried") for each in ("m", "n")]
    alone = {"member_id": "m"} if version < 3 else {"members": members}
    return LeaveGroupRequest(version=version, group_id=group_id, **alone)


def _fetch(version: int, group_id: str) -> Any:
    topic = {"name": TOPIC, "partition_indexes": [0, 1]}
    if version < 8:
        return OffsetFetchRequest(version=version, group_id=group_id, topics=[_FETCHED(**topic)])
    groups = [
        # A group that is named twice is answered once here, and twice by a broker.
        _GROUP(group_id=group_id, topics=[_GROUP.OffsetFetchRequestTopics(**topic)]),
        _GROUP(group_id="never", topics=None),
    ]
    return OffsetFetchRequest(version=version, groups=groups)


def _delete_offsets(version: int, group_id: str) -> Any:
    partitions = [_DELETED.OffsetDeleteRequestPartition(partition_index=each) for each in (0, 1)]
    return OffsetDeleteRequest(
        version=version, group_id=group_id, topics=[_DELETED(name=TOPIC, partitions=partitions)]
    )


REQUESTS: dict[int, Any] = {
    8: _commit,
    9: _fetch,
    10: lambda version, group_id: FindCoordinatorRequest(
        version=version, **({"key": group_id} if version < 4 else {"coordinator_keys": [group_id, "another"]})
    ),
    11: _join,
    12: lambda version, group_id: HeartbeatRequest(
        version=version, group_id=group_id, generation_id=1, member_id="m"
    ),
    13: _leave,
    14: _sync,
    15: lambda version, group_id: DescribeGroupsRequest(
        version=version, groups=[group_id, "never"], include_authorized_operations=True
    ),
    16: lambda version, _group_id: ListGroupsRequest(version=version, states_filter=["empty"]),
    42: lambda version, group_id: DeleteGroupsRequest(
        version=version, groups_names=[group_id, "never", group_id]
    ),
    47: _delete_offsets,
    68: lambda version, group_id: ConsumerGroupHeartbeatRequest(
        version=version, group_id=group_id, member_id="m", member_epoch=3
    ),
    69: lambda version, group_id: ConsumerGroupDescribeRequest(
        version=version, group_ids=[group_id, "never"], include_authorized_operations=True
    ),
}


def _api_versions(version: int) -> Any:
    return ApiVersionsRequest(version=version, client_software_name="raw", client_software_version="1")


PREPARED = {9, 15, 16, 42, 47}
"""APIs that are asked about a group with an offset."""
BEATING = {12, 68}
"""APIs that tell a member that all is as before while the coordinator's answer is not there in time."""


async def ask(address: str, message: Any) -> Any:
    """The response; None if the connection is closed."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(codec.encode_request(message, 7, "raw"))
        async with asyncio.timeout(PATIENCE_S):
            length = await reader.readexactly(4)
            frame = length + await reader.readexactly(int.from_bytes(length))
        return codec.decode_response(message.API_KEY, message.version, frame)
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    finally:
        writer.close()


async def prepare(address: str, group_id: str) -> None:
    # The broker makes its topic for offsets when somebody asks for a coordinator first.
    await until(address, FindCoordinatorRequest(version=3, key=group_id), lambda it: it.error_code == 0)
    await until(address, _commit(8, group_id), lambda it: it.topics[0].partitions[0].error_code == 0)
    await until(address, ListGroupsRequest(version=4), lambda it: group_id in str(it))


async def until(address: str, message: Any, is_so: Callable[[Any], bool]) -> Any:
    """Ask until the response is so, and return it."""
    response: Any = None

    async def told() -> bool:
        nonlocal response
        response = await ask(address, message)
        return is_so(response)

    await eventually(told)
    return response


def shown(message: Any, group_id: str, address: str) -> str:
    """All of a response but what each side makes up for itself."""
    if message is not None and message.API_KEY == ListGroupsRequest.API_KEY:
        message.groups = [each for each in message.groups if each.group_id == group_id]
    for name in ("groups", "results"):  # in which order a broker tells of several is chance
        if getattr(message, name, None):
            setattr(message, name, sorted(getattr(message, name), key=lambda each: str(each.group_id)))
    text = re.sub(r"raw-[\w-]+", "<id>", str(message))
    host, _, port = address.rpartition(":")
    return re.sub(rf"node_id=\d+, host='(localhost|{host})', port={port}", "<node>", text)


async def answered(address: str, key: int, version: int, node: str) -> str:
    group_id = f"versions-{key}-{version}"
    if key in PREPARED:
        await prepare(address, group_id)
    request = REQUESTS[key](version, group_id)

    def is_verdict(response: Any) -> bool:
        """Nobody knows the members that heartbeats are of."""
        return key not in BEATING or response.error_code != 0

    return shown(await until(address, request, is_verdict), group_id, node)


def test_each_version_that_is_offered_is_answered_as_by_a_broker(running: Running) -> None:
    admin = KafkaAdminClient(bootstrap_servers=running.broker)
    admin.create_topics({TOPIC: {"num_partitions": 2}})
    admin.close()

    async def all_of(address: str, node: str) -> dict[tuple[int, int], str]:
        await prepare(address, "versions")
        told = await ask(address, ApiVersionsRequest(version=2))
        offered = [
            (each.api_key, version)
            for each in told.api_keys
            if each.api_key in REQUESTS
            for version in range(each.min_version, APIS[each.api_key].newest + 1)
        ]
        answers = await asyncio.gather(*(answered(address, *each, node) for each in offered))
        return dict(zip(offered, answers, strict=True))

    async def both() -> tuple[dict[tuple[int, int], str], ...]:
        host = running.gateway.rpartition(":")[0]
        node = f"{host}:{await _port_of_node(running.gateway)}"
        return await all_of(running.gateway, node), await all_of(running.broker, running.broker)

    ours, theirs = asyncio.run(both())
    assert ours.keys() == theirs.keys()
    different = [f"{ours[each]}\n{theirs[each]}" for each in ours if ours[each] != theirs[each]]
    assert not different, "\n".join(different)
    assert "None" not in ours.values()


async def _port_of_node(address: str) -> int:
    told = await ask(address, FindCoordinatorRequest(version=4, coordinator_keys=["g"]))
    return int(told.coordinators[0].port)


def test_there_is_a_request_for_each_api_that_is_not_passed_on() -> None:
    own = {key for key, api in APIS.items() if api.way in (Way.STREAM, Way.GATEWAY)}
    assert own == REQUESTS.keys()


def test_offered_is_what_is_answered(running: Running) -> None:
    """ApiVersions tells the same in all its versions; the version after the newest closes the connection."""

    async def story() -> None:
        told = [await ask(running.gateway, _api_versions(each)) for each in range(5)]
        ranges = [{each.api_key: each.max_version for each in of.api_keys} for of in told]
        assert all(each == ranges[0] for each in ranges)
        for key in REQUESTS:
            assert ranges[0][key] == APIS[key].newest
            beyond = (
                (10).to_bytes(4) + key.to_bytes(2) + (ranges[0][key] + 1).to_bytes(2) + bytes(4) + b"\xff\xff"
            )
            host, _, port = running.gateway.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(beyond)
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
            writer.close()

    asyncio.run(story())
