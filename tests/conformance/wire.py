"""The broker's side: the contract's requests over Kafka's own protocol, to a real Apache Kafka broker.

A request is the dict that is also given to the core (field names of `docs/contract.md`, bytes as bytes), and
an answer comes back in the same terms, so that what both sides say can be held side by side. A field that
a version's schema lacks is not sent, and comes back as its default. Kafka 4.2 takes every version of the
contract's four APIs, so every version is compared.

Kafka handles one request at a time per connection: a parked request keeps its connection to itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, NamedTuple

from kafka.protocol.admin.groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

DESCRIBE_VERSION = 5
"""The last version that answers a group that is not there without an error, as a Dead one."""

_APIS = {
    "join_group": (JoinGroupRequest, JoinGroupResponse),
    "sync_group": (SyncGroupRequest, SyncGroupResponse),
    "heartbeat": (HeartbeatRequest, HeartbeatResponse),
    "leave_group": (LeaveGroupRequest, LeaveGroupResponse),
    "describe_group": (DescribeGroupsRequest, DescribeGroupsResponse),
}
_ENVELOPE = {"api", "api_version", "request_id", "client_id", "client_host", "group_id"}
_BATCH_LEAVE_VERSION = 3
_WATCH_S = 0.01
_NOTED_MS = 10
_READY_TIMEOUT_S = 30
_READY_POLL_S = 0.1


def now_ms() -> int:
    """Say the time of the harness: ms that never go back."""
    return time.monotonic_ns() // 1_000_000


class Answer(NamedTuple):
    """What the broker said, in the contract's terms, and when it was read."""

    at_ms: int
    fields: dict[str, Any]


class _Connection(asyncio.Protocol):
    """One connection, with at most one request on it."""

    def __init__(self, idle: list[_Connection]) -> None:
        self._idle = idle
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def ask(self, frame: bytes) -> asyncio.Future[tuple[int, bytes]]:
        assert self._answer is None
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(frame)
        return self._answer

    def close(self) -> None:
        """Close it; the answer that is still to come is not waited for."""
        self._answer = None
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < 4 or len(self._received) < 4 + int.from_bytes(self._received[:4]):
            return
        answer, self._answer = self._answer, None
        frame, self._received = self._received, b""
        if answer is not None:
            self._idle.append(self)
            answer.set_result((now_ms(), frame))

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._idle:
            self._idle.remove(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the broker closed the connection"))


class Question:
    """A request that was sent. It may stay unanswered."""

    def __init__(self, request: dict[str, Any], at_ms: int, raw: asyncio.Future[tuple[int, bytes]]) -> None:
        self.request = request
        self.at_ms = at_ms
        """When it was sent."""
        self.raw = raw
        """Done when the answer has been read."""

    @property
    def is_answered(self) -> bool:
        """Whether an answer has been read."""
        return self.raw.done()

    async def answer(self) -> Answer:
        """Wait for the answer."""
        await asyncio.wait([self.raw])
        return self.result()

    def result(self) -> Answer:
        """The answer, which is there."""
        at_ms, frame = self.raw.result()
        api, version = self.request["api"], self.request["api_version"]
        response = _APIS[api][1].decode(frame, version=version, header=True, framed=True)
        return Answer(at_ms, _from_wire(api, response))


class BrokerClient:
    """Asks a broker, on as many connections as there are open questions."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._address = (host, int(port))
        self._idle: list[_Connection] = []
        self._all: list[_Connection] = []
        self._open: dict[int, tuple[Question, _Connection]] = {}
        self._held_up: deque[tuple[int, int]] = deque(maxlen=1_000)
        self.requests = 0
        """How many requests have been sent, descriptions aside."""

    async def ask(self, request: dict[str, Any]) -> Question:
        """Send a request; the question that is returned may be waited for."""
        frame = _frame(request)
        connection = await self._connection()
        question = Question(request, now_ms(), connection.ask(frame))
        self._open[id(question)] = (question, connection)
        self.requests += request["api"] != "describe_group"
        return question

    def drop(self, question: Question) -> None:
        """Wait no longer for the answer to `question`: its connection is closed if there is none."""
        _, connection = self._open.pop(id(question))
        if not question.is_answered:
            connection.close()
            self._all.remove(connection)

    async def describe(self, group_id: str) -> Answer:
        """Describe a group."""
        question = await self.ask(
            {
                "api": "describe_group",
                "api_version": DESCRIBE_VERSION,
                "client_id": "describe",
                "group_id": group_id,
            }
        )
        answer = await question.answer()
        self.drop(question)
        return answer

    async def wait_until_ready(self) -> None:
        """Wait until the broker coordinates groups: at first it makes the topic that takes."""
        request = FindCoordinatorRequest[1](key="any", key_type=0)
        request.with_header(correlation_id=1, client_id="conformance")
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while True:
            _, frame = await (await self._connection()).ask(request.encode(header=True, framed=True))
            found = FindCoordinatorResponse.decode(frame, version=1, header=True, framed=True)
            if found.error_code == 0 and (await self.describe("any")).fields["error_code"] == 0:
                return
            assert time.monotonic() < deadline, "the broker does not coordinate groups"
            await asyncio.sleep(_READY_POLL_S)

    async def watch(self) -> None:
        """Ask for something small again and again, to know when the machine is held up. Never ends."""
        while True:
            asked_ms = now_ms()
            await self.describe("watched")
            took_ms = now_ms() - asked_ms
            if took_ms >= _NOTED_MS:
                self._held_up.append((asked_ms, took_ms))
            await asyncio.sleep(_WATCH_S)

    def held_up_ms(self, since_ms: int) -> int:
        """For how long at most the broker, or this process, was held up since then."""
        return max((took for asked, took in self._held_up if asked + took >= since_ms), default=0)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._idle.clear()

    async def _connection(self) -> _Connection:
        if self._idle:
            return self._idle.pop()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: _Connection(self._idle), *self._address)
        self._all.append(connection)
        return connection


def _frame(request: dict[str, Any]) -> bytes:
    kind = _APIS[request["api"]][0]
    version = request["api_version"]
    fields = {name: value for name, value in request.items() if name not in _ENVELOPE}
    match request["api"]:
        case "describe_group":
            fields = {"groups": [request["group_id"]], "include_authorized_operations": False}
        case "leave_group" if version < _BATCH_LEAVE_VERSION:
            (member,) = request["members"]
            fields = {"group_id": request["group_id"], "member_id": member["member_id"]}
        case "leave_group":
            entry = LeaveGroupRequest.MemberIdentity
            fields = {
                "group_id": request["group_id"],
                "members": [entry(**member) for member in request["members"]],
            }
        case "join_group":
            entry = JoinGroupRequest.JoinGroupRequestProtocol
            fields |= {
                "group_id": request["group_id"],
                "protocols": [entry(**protocol) for protocol in request["protocols"]],
            }
        case "sync_group":
            entry = SyncGroupRequest.SyncGroupRequestAssignment
            fields |= {
                "group_id": request["group_id"],
                "assignments": [entry(**assignment) for assignment in request["assignments"]],
            }
        case _:
            fields["group_id"] = request["group_id"]
    message = kind[version](**fields)
    message.with_header(correlation_id=1, client_id=request["client_id"])
    return bytes(message.encode(header=True, framed=True))


def _from_wire(api: str, response: Any) -> dict[str, Any]:
    """The fields of the contract's response to `api`."""
    if api == "describe_group":
        (group,) = response.groups
        return {
            "error_code": group.error_code,
            "group_state": group.group_state,
            "protocol_type": group.protocol_type,
            "protocol_data": group.protocol_data,
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "member_metadata": bytes(member.member_metadata),
                    "member_assignment": bytes(member.member_assignment),
                }
                for member in group.members
            ],
        }
    fields: dict[str, Any] = {"error_code": response.error_code}
    match api:
        case "join_group":
            for name in ("generation_id", "protocol_type", "protocol_name", "leader", "member_id"):
                fields[name] = getattr(response, name)
            fields["skip_assignment"] = response.skip_assignment
            fields["members"] = [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "metadata": bytes(member.metadata),
                }
                for member in response.members
            ]
        case "sync_group":
            fields["protocol_type"] = response.protocol_type
            fields["protocol_name"] = response.protocol_name
            fields["assignment"] = bytes(response.assignment)
        case "leave_group":
            fields["members"] = [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.group_instance_id,
                    "error_code": member.error_code,
                }
                for member in response.members or []
            ]
    return fields
