"""What a member says to a coordinator: to ours by topics, or to the broker's by Kafka's protocol.

Both are made to cost the members little: heartbeats are encoded once for each generation, answers are
decoded as far as somebody looks at them.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import msgspec

from benchmarks.load import producer, reader

if TYPE_CHECKING:
    from benchmarks.load import Load

NONE, REBALANCE_IN_PROGRESS = "NONE", "REBALANCE_IN_PROGRESS"
SESSION_MS = 6_000
_REBALANCE_MS = 60_000
_TYPE, _PROTOCOL = "consumer", "range"
_METADATA = b"\0\1\0\0\0\1\0\6orders\0\0\0\0"
_ASSIGNMENT = b"\0\1\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\0\0\0\0"


class Joined(NamedTuple):
    """A generation as one member is told of it."""

    error: str
    generation_id: int = -1
    is_leader: bool = False
    member_ids: tuple[str, ...] = ()
    """Of the leader alone: all of the generation."""


class Line(Protocol):
    """From one member of one group to the coordinator, for one request at a time."""

    async def join(self) -> Joined:
        """Join, or join again."""

    async def sync(self, joined: Joined) -> str:
        """Bring everybody's assignment, as the leader, or ask for one's own; return the error."""

    async def beat(self, joined: Joined) -> str:
        """Say that one lives; return the error."""

    async def leave(self) -> str:
        """Say that one goes; return the error."""


class Coordinator(Protocol):
    """Whom members ask, while the context is open."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def line(self, group_id: str) -> Line:
        """For a new member."""


# -- ours ------------------------------------------------------------------------------------------------


class _Answer(msgspec.Struct):
    request_id: str
    error: str = NONE
    generation_id: int = -1
    member_id: str = ""
    leader: str = ""
    members: list[dict[str, Any]] = msgspec.field(default_factory=list)


class ByTopics:
    """Requests are sent by one producer, and a thread reads the answers."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[_Answer]] = {}
        self._stopping = threading.Event()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._producer = producer(self._load)
        listening = asyncio.Event()
        self._reader = threading.Thread(target=self._read, args=(listening,))
        self._reader.start()
        await listening.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        await asyncio.to_thread(self._reader.join)
        self._producer.close()

    def line(self, group_id: str) -> Line:
        return _TopicLine(self, group_id)

    async def ask(self, group_id: str, **fields: Any) -> _Answer:
        """Send a request and wait for the answer."""
        request_id = f"{group_id}-{next(self._numbers)}"
        envelope = {
            "request_id": request_id,
            "client_id": "bench",
            "group_id": group_id,
            "reply_partition": self._load.response_partition,
        }
        answer = self._waiting[request_id] = self._loop.create_future()
        value = msgspec.json.encode(fields | envelope)
        self._producer.send(self._load.request_topic, key=group_id.encode(), value=value)
        return await answer

    def _read(self, listening: asyncio.Event) -> None:
        with closing(reader(self._load)) as answers:
            self._loop.call_soon_threadsafe(listening.set)
            while not self._stopping.is_set():
                values = [
                    record.value for records in answers.poll(timeout_ms=200).values() for record in records
                ]
                if values:
                    self._loop.call_soon_threadsafe(self._tell, values)

    def _tell(self, values: list[bytes]) -> None:
        for value in values:
            answer = msgspec.json.decode(value, type=_Answer)
            waiting = self._waiting.pop(answer.request_id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)


class _TopicLine:
    def __init__(self, topics: ByTopics, group_id: str) -> None:
        self._topics = topics
        self._group_id = group_id
        self._member_id = ""

    async def join(self) -> Joined:
        answer = await self._ask(
            "join_group",
            3,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=_REBALANCE_MS,
            protocol_type=_TYPE,
            protocols=[{"name": _PROTOCOL, "metadata": _METADATA}],
        )
        self._member_id = answer.member_id
        members = tuple(each["member_id"] for each in answer.members)
        return Joined(answer.error, answer.generation_id, answer.leader == answer.member_id, members)

    async def sync(self, joined: Joined) -> str:
        assignments = [{"member_id": each, "assignment": _ASSIGNMENT} for each in joined.member_ids]
        generation_id = joined.generation_id
        return (await self._ask("sync_group", 2, generation_id=generation_id, assignments=assignments)).error

    async def beat(self, joined: Joined) -> str:
        return (await self._ask("heartbeat", 2, generation_id=joined.generation_id)).error

    async def leave(self) -> str:
        members = [{"member_id": self._member_id}]
        return (
            await self._topics.ask(self._group_id, api="leave_group", api_version=1, members=members)
        ).error

    async def _ask(self, api: str, version: int, **fields: Any) -> _Answer:
        return await self._topics.ask(
            self._group_id, api=api, api_version=version, member_id=self._member_id, **fields
        )


# -- the broker's ----------------------------------------------------------------------------------------

_JOIN, _HEARTBEAT, _LEAVE, _SYNC = 11, 12, 13, 14
_ERRORS = {0: NONE, 27: REBALANCE_IN_PROGRESS}


class _Connection(asyncio.Protocol):
    """Of one member: the broker takes a request when it has answered the one before."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    async def ask(self, request: bytes) -> bytes:
        """Return the answer, from the throttle time on."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= 4 and len(self._received) >= 4 + int.from_bytes(self._received[:4]):
            answer = bytes(self._received[8:])
            self._received.clear()
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(answer)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class ByProtocol:
    """Each member has a connection. Versions 3 (join), 2 (sync, heartbeat) and 1 (leave): as ours above."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._address = host, int(port)
        self._lines: list[_ProtocolLine] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for line in self._lines:
            line.close()

    def line(self, group_id: str) -> Line:
        self._lines.append(_ProtocolLine(self._address, group_id))
        return self._lines[-1]


class _ProtocolLine:
    def __init__(self, address: tuple[str, int], group_id: str) -> None:
        self._address = address
        self._group_id = _string(group_id)
        self._member_id = _string("")
        self._connection: _Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def join(self) -> Joined:
        times = struct.pack(">ii", SESSION_MS, _REBALANCE_MS)
        protocols = struct.pack(">i", 1) + _string(_PROTOCOL) + _bytes(_METADATA)
        answer = await self._ask(_JOIN, 3, times + self._member_id + _string(_TYPE) + protocols)
        error, generation_id, _ = answer.error(), answer.int32(), answer.string()
        leader, member_id = answer.string(), answer.string()
        self._member_id = _string(member_id)
        is_leader = leader == member_id
        members = tuple(answer.member() for _ in range(answer.int32())) if is_leader else ()
        return Joined(error, generation_id, is_leader, members)

    async def sync(self, joined: Joined) -> str:
        assignments = [_string(each) + _bytes(_ASSIGNMENT) for each in joined.member_ids]
        brought = struct.pack(">i", len(assignments)) + b"".join(assignments)
        return (await self._ask(_SYNC, 2, self._place(joined) + brought)).error()

    async def beat(self, joined: Joined) -> str:
        return (await self._ask(_HEARTBEAT, 2, self._place(joined))).error()

    async def leave(self) -> str:
        return (await self._ask(_LEAVE, 1, self._member_id)).error()

    def _place(self, joined: Joined) -> bytes:
        return struct.pack(">i", joined.generation_id) + self._member_id

    async def _ask(self, api: int, version: int, body: bytes) -> _Fields:
        if self._connection is None:
            loop = asyncio.get_running_loop()
            _, self._connection = await loop.create_connection(_Connection, *self._address)
        request = struct.pack(">hhi", api, version, 1) + _string("bench") + self._group_id + body
        return _Fields(await self._connection.ask(_bytes(request)))


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


class _Fields:
    """Reads an answer's fields in order."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._position = 4

    def error(self) -> str:
        code = self._int(2)
        return _ERRORS.get(code, f"error {code}")

    def int32(self) -> int:
        return self._int(4)

    def string(self) -> str:
        return self._take(self._int(2)).decode()

    def member(self) -> str:
        member_id = self.string()
        self._take(self._int(4))
        return member_id

    def _int(self, size: int) -> int:
        return int.from_bytes(self._take(size), signed=True)

    def _take(self, size: int) -> bytes:
        taken = self._answer[self._position : self._position + size]
        self._position += size
        return taken
