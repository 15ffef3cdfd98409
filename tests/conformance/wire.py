"""The broker's side: requests to a real Apache Kafka broker, and what it answers.

Kafka handles one request at a time per connection: a parked request keeps its connection to itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse

from tests.conformance.messages import frame, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DESCRIBE_VERSION = 5
"""The last version that answers a group that is not there without an error, as a Dead one."""

FETCH_VERSION = 9
_COMMIT_VERSION = 9
_DELETE_VERSION = 2
_GROUP_ID_NOT_FOUND = 69
_TIMES = ("session_timeout_ms", "rebalance_timeout_ms", "retention_time_ms")
_LONGEST_MS = 2**63 - 1
_WATCH_S = 0.01
_NOTED_MS = 10
_READY_TIMEOUT_S = 30
_READY_POLL_S = 0.1


class Clock:
    """The time of the harness: ms that never go back. Each takes as long as `slowness` of the machine's."""

    def __init__(self, slowness: int = 1) -> None:
        self.slowness = slowness

    def now_ms(self) -> int:
        """Say the time."""
        return time.monotonic_ns() // (1_000_000 * self.slowness)

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds * self.slowness)


class Answer(NamedTuple):
    """What the broker said, in the contract's terms, and when it was read."""

    at_ms: int
    fields: dict[str, Any]


class _Connection(asyncio.Protocol):
    """One connection, with at most one request on it."""

    def __init__(self, idle: list[_Connection], clock: Clock) -> None:
        self._idle, self._clock = idle, clock
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def ask(self, sent: bytes) -> asyncio.Future[tuple[int, bytes]]:
        assert self._answer is None
        assert self.transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(sent)
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
        received, self._received = self._received, b""
        if answer is not None:
            self._idle.append(self)
            answer.set_result((self._clock.now_ms(), received))

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
        at_ms, received = self.raw.result()
        return Answer(at_ms, read(self.request, received))


class BrokerClient:
    """Asks a broker, on as many connections as there are open questions."""

    topics: ClassVar[Iterable[str]] = ()
    """Topics that have to be there."""

    def __init__(self, bootstrap_servers: str, slowness: int = 1) -> None:
        """`slowness`: how much slower than a broker it is; all times of its groups are that much longer."""
        self.clock = Clock(slowness)
        host, _, port = bootstrap_servers.rpartition(":")
        self._address = (host, int(port))
        self._idle: list[_Connection] = []
        self._all: list[_Connection] = []
        self._open: dict[int, tuple[Question, _Connection]] = {}
        self._held_up: deque[tuple[int, int]] = deque(maxlen=1_000)
        self.requests = 0
        """How many requests have been sent, those that only look aside."""

    async def ask(self, request: dict[str, Any]) -> Question:
        """Send a request; the question that is returned may be waited for."""
        self.requests += 1
        return await self._ask(request)

    def drop(self, question: Question) -> None:
        """Wait no longer for the answer to `question`: its connection is closed if there is none."""
        _, connection = self._open.pop(id(question))
        if not question.is_answered:
            connection.close()
            self._all.remove(connection)

    async def delete(self, group_id: str) -> None:
        """Delete a group, if it is there. It must not have members."""
        answer = await self._told(group_id, "delete_group", _DELETE_VERSION)
        assert answer["error_code"] in (0, _GROUP_ID_NOT_FOUND), answer

    async def wait_until_ready(self) -> None:
        """Wait until the broker has topics and coordinates groups: at first it makes the topic that takes."""
        request = FindCoordinatorRequest[1](key="any", key_type=0)
        request.with_header(correlation_id=1, client_id="conformance")
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while True:
            _, received = await (await self._connection()).ask(request.encode(header=True, framed=True))
            found = FindCoordinatorResponse.decode(received, version=1, header=True, framed=True)
            if found.error_code == 0 and await self.write():
                return
            assert time.monotonic() < deadline, "the broker does not coordinate groups"
            await asyncio.sleep(_READY_POLL_S)

    async def write(self) -> bool:
        """Let the broker write something that is no group's in play; False if it does not yet."""
        partitions = [{"partition_index": 0, "committed_offset": 0}]
        topics = [{"name": name, "partitions": partitions} for name in self.topics]
        commit = {"generation_id": -1, "member_id": "", "topics": topics}
        answer = await self._told("conformance", "offset_commit", _COMMIT_VERSION, **commit)
        return all(each["error_code"] == 0 for topic in answer["topics"] for each in topic["partitions"])

    async def watch(self) -> None:
        """Ask for something small again and again, to know when the machine is held up. Never ends."""
        while True:
            # The pause, too: this process may be held up at any time.
            with self._timed(_WATCH_S * 1_000):
                await self._told("watched", "describe_group", DESCRIBE_VERSION)
                await self.clock.sleep(_WATCH_S)

    def held_up_ms(self, since_ms: int) -> int:
        """For how long at most the broker, or this process, was held up since then."""
        return max((took for asked, took in self._held_up if asked + took >= since_ms), default=0)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._idle.clear()

    @contextmanager
    def _timed(self, expected_ms: float = 0) -> Iterator[None]:
        """Note it if what is done in this context takes longer than it ought to."""
        asked_ms = self.clock.now_ms()
        yield
        took_ms = round(self.clock.now_ms() - asked_ms - expected_ms)
        if took_ms >= _NOTED_MS:
            self._held_up.append((asked_ms, took_ms))

    async def _told(self, group_id: str, api: str, version: int, **fields: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        request = {"api": api, "api_version": version, "client_id": "conformance", "group_id": group_id}
        question = await self._ask(request | fields)
        answer = await question.answer()
        self.drop(question)
        return answer.fields

    async def _ask(self, request: dict[str, Any]) -> Question:
        connection = await self._connection()
        sent = frame(request | self._slowed(request))
        question = Question(request, self.clock.now_ms(), connection.ask(sent))
        self._open[id(question)] = (question, connection)
        return question

    def _slowed(self, request: dict[str, Any]) -> dict[str, int]:
        """The times in a request, as long as they are for this broker."""
        times = {name: request[name] for name in _TIMES if request.get(name, -1) > 0}
        return {name: min(time_ms * self.clock.slowness, _LONGEST_MS) for name, time_ms in times.items()}

    async def _connection(self) -> _Connection:
        if self._idle:
            return self._idle.pop()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self._idle, self.clock), *self._address
        )
        self._all.append(connection)
        return connection
