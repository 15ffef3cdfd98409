"""Members by the thousand that speak Kafka's protocol, each on a connection of its own, from one process.

    with Crowd(address) as crowd:
        crowd.form(10, 1_000, CONSUMER)
        beating = crowd.beat(15.0)

The members must not be what is measured. So their requests are encoded before, and an answer is compared with
the one that is expected. The same members can be at a gateway and at a broker.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import uuid4

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from benchmarks.load import Load, reader
from benchmarks.produce import produce
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from kafka import KafkaConsumer

INTERVAL_S = 3.0
"""Between two heartbeats of a member, as clients have it by default."""
CLASSIC, CONSUMER = "classic", "consumer"
"""Kafka's protocols of groups."""
COMMIT, FETCH = "OffsetCommit", "OffsetFetch"
TOGETHER = 5
"""Heartbeats that are sent at once on one connection."""
_SESSION_MS = 1_800_000
"""The longest that a broker takes: these members say nothing while others are measured."""
_JOIN_VERSION, _SYNC_VERSION, _BEAT_VERSION, _OFFSETS_VERSION, _PRODUCE_VERSION = 3, 3, 4, 9, 8
"""Version 3 of a join makes a member at once, without a second request. New clients have the others."""
_CONSUMER_VERSION = 1
_CORRELATION_ID, _NAME = 1, "bench"
_METADATA = b"\0\1\0\0\0\1\0\6orders\0\0\0\0"
_ASSIGNMENT = b"\0\1\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\0\0\0\0"
_CONNECTING, _JOINING = 40, 5_000
"""At a time: a broker keeps no more than 50 connections waiting."""
_QUIET_ROUNDS, _ROUND_S = 4, 1.0
_TICK_S = 0.002
_PATIENCE_S = 120
_SPAWN = multiprocessing.get_context("spawn")


class Beaten(NamedTuple):
    """What has become of the heartbeats of a crowd."""

    trips: list[float]
    """From when each was due to its answer, in ms."""
    missed: int
    """Those that were not sent because the one before had no answer."""


class Pipelined(NamedTuple):
    """Heartbeats of one connection, and a Produce behind them. Times in ms, of each trial."""

    one: list[float]
    """A heartbeat by itself."""
    all: list[float]
    """From `TOGETHER` that were sent at once to the last answer."""
    behind: list[float]
    """Until the record of the Produce behind them can be read at the broker."""


class Crowd:
    """A process with members, while the context is open. Each method but `beat` waits for its end.

    `address`: host and port of a gateway, or of the broker.
    """

    def __init__(self, address: str) -> None:
        self._pool = ProcessPoolExecutor(1, _SPAWN, _begin, (address,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def form(self, groups: int, size: int, protocol: str = CLASSIC, topic: str = "orders") -> None:
        """Join `groups` groups of `size` members, until all of them are Stable.

        `topic`: members of the consumer protocol share it, so it has to be there.
        """
        self._pool.submit(_do, "form", groups, size, protocol, topic).result()

    def beat(self, seconds: float) -> Future[Beaten]:
        """Have each member beat every `INTERVAL_S`, spread evenly; done when all are answered."""
        return self._pool.submit(_do, "beat", seconds)

    def pipeline(self, trials: int, topic: str, broker: str) -> Pipelined:
        """Send heartbeats one at a time and together, with a Produce to `topic` behind them."""
        found: Pipelined = self._pool.submit(_do, "pipeline", trials, topic, broker).result()
        return found

    def ask(self, what: str, topic: str, connections: int, at_once: int, seconds: float) -> int:
        """Ask again and again, `at_once` on each connection, of a group each; returns how often."""
        asked: int = self._pool.submit(_do, "ask", what, topic, connections, at_once, seconds).result()
        return asked


# -- in the process --------------------------------------------------------------------------------------

_crowd: _Crowd


def _begin(address: str) -> None:
    global _crowd  # noqa: PLW0603 - what one process has
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _crowd = _Crowd(address)


def _do(name: str, *arguments: Any) -> Any:
    return _crowd.loop.run_until_complete(getattr(_crowd, name)(*arguments))


class Connection(asyncio.Protocol):
    """`take` is given each answer, with its length."""

    def __init__(self) -> None:
        self.take: Callable[[bytes], Any]
        self._kept = b""

    def connection_made(self, transport: Any) -> None:
        self.send: Callable[[bytes], None] = transport.write
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data, begin = self._kept + data, 0
        while len(data) >= begin + 4 and len(data) >= (
            end := begin + 4 + int.from_bytes(data[begin : begin + 4])
        ):
            self.take(data[begin:end])
            begin = end
        self._kept = data[begin:]

    async def ask(self, message: Any) -> Any:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.take = answer.set_result
        self.send(_frame(message))
        async with asyncio.timeout(_PATIENCE_S):
            return codec.decode_response(message.API_KEY, message.version, await answer)

    def close(self) -> None:
        self._transport.close()


class _Member:
    """One member, whose heartbeats are of the generation that it has joined."""

    def __init__(self, group_id: str, connection: Connection) -> None:
        self._group_id, self.connection = group_id, connection
        self._member_id, self.generation_id = "", -1
        self._others: list[str] = []
        self.due_s = 0.0
        """When the heartbeat was due that has no answer yet; 0 if there is none."""

    async def join(self) -> None:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=_METADATA)
        joined = await self.connection.ask(
            JoinGroupRequest(
                version=_JOIN_VERSION,
                group_id=self._group_id,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_SESSION_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
        )
        _expect(joined.error_code, Errors.NONE)
        self._member_id, self.generation_id = joined.member_id, joined.generation_id
        self._others = [each.member_id for each in joined.members]

    async def sync(self) -> bool:
        """Whether the generation is still the newest."""
        kind = SyncGroupRequest.SyncGroupRequestAssignment
        synced = await self.connection.ask(
            SyncGroupRequest(
                version=_SYNC_VERSION,
                group_id=self._group_id,
                generation_id=self.generation_id,
                member_id=self._member_id,
                assignments=[kind(member_id=each, assignment=_ASSIGNMENT) for each in self._others],
            )
        )
        _expect(synced.error_code, Errors.NONE, Errors.REBALANCE_IN_PROGRESS)
        return bool(synced.error_code == Errors.NONE.value)

    @property
    def expected(self) -> bytes:
        """The answer to a heartbeat that has no error."""
        return _BEATEN

    def beat(self) -> bytes:
        return _frame(
            HeartbeatRequest(
                version=_BEAT_VERSION,
                group_id=self._group_id,
                generation_id=self.generation_id,
                member_id=self._member_id,
            )
        )


class Consumer:
    """One member of the consumer protocol, whose heartbeats are of the epoch that it has come to."""

    def __init__(self, group_id: str, topic: str, connection: Connection) -> None:
        self._group_id, self._topic, self.connection = group_id, topic, connection
        self._member_id, self.epoch = str(uuid4()), 0
        self._owned: list[Any] = []
        self.has_news, self.says_all = True, True
        """Whether the coordinator has not heard what it owns; and whether it may know nothing of it."""
        self.expected = b""
        self.due_s = self.heard_s = 0.0
        """When the heartbeat was due that has no answer yet, and when one was answered last."""

    def _request(self, **fields: Any) -> Any:
        return ConsumerGroupHeartbeatRequest(
            version=_CONSUMER_VERSION,
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self.epoch,
            **fields,
        )

    async def come_further(self) -> bool:
        """Join, or beat once; whether the coordinator had nothing new to say."""
        fields: dict[str, Any] = {}
        if self.has_news:
            kind = ConsumerGroupHeartbeatRequest.TopicPartitions
            fields["topic_partitions"] = [
                kind(topic_id=each.topic_id, partitions=each.partitions) for each in self._owned
            ]
        if self.says_all:
            fields |= {"rebalance_timeout_ms": _SESSION_MS, "subscribed_topic_names": [self._topic]}
        answer = await self.connection.ask(self._request(**fields))
        _expect(answer.error_code, Errors.NONE, Errors.COORDINATOR_NOT_AVAILABLE)
        self.has_news = self.says_all = answer.error_code != 0
        if self.says_all:
            return False
        is_news, self.epoch = answer.member_epoch != self.epoch, answer.member_epoch
        if answer.assignment is not None:
            self.has_news |= answer.assignment.topic_partitions != self._owned
            self._owned = answer.assignment.topic_partitions
        answer.assignment, answer.throttle_time_ms = None, 0
        self.expected = codec.encode_response(answer, _CORRELATION_ID)
        return not (is_news or self.has_news)

    @property
    def owned(self) -> frozenset[int]:
        """The partitions of its topic that it has."""
        return frozenset(partition for each in self._owned for partition in each.partitions)

    def beat(self) -> bytes:
        return _frame(self._request())


async def connect(address: tuple[str, int], number: int) -> list[Connection]:
    """Make so many connections to a host and port."""
    loop, may_connect = asyncio.get_running_loop(), asyncio.Semaphore(_CONNECTING)

    async def one() -> Connection:
        async with may_connect:
            return (await loop.create_connection(Connection, *address))[1]

    return await asyncio.gather(*(one() for _ in range(number)))


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


class _Crowd:
    def __init__(self, address: str) -> None:
        self._address = host_and_port(address)
        self.loop = asyncio.new_event_loop()
        self._members: list[_Member] | list[Consumer] = []
        self._groups = count(1)

    async def form(self, groups: int, size: int, protocol: str, topic: str) -> None:
        connections = await connect(self._address, groups * size)
        names = [f"crowd-{os.getpid()}-{next(self._groups)}" for _ in range(groups)]
        places = [
            [(name, connections[size * number + each]) for each in range(size)]
            for number, name in enumerate(names)
        ]
        at_once = max(1, _JOINING // size)
        if protocol == CLASSIC:
            members = [[_Member(*each) for each in group] for group in places]
            for first in range(0, groups, at_once):
                await asyncio.gather(*(_join_all(each) for each in members[first : first + at_once]))
            self._members = [each for group in members for each in group]
        else:
            consumers = [[Consumer(name, topic, it) for name, it in group] for group in places]
            for first in range(0, groups, at_once):
                await asyncio.gather(*(_settle(each) for each in consumers[first : first + at_once]))
            self._members = [each for group in consumers for each in group]

    async def beat(self, seconds: float) -> Beaten:
        trips: list[float] = []
        missed = number = 0
        begin_s = time.perf_counter()
        per_second = len(self._members) / INTERVAL_S
        order = [(each, each.beat()) for each in self._members]
        Random(1).shuffle(order)
        for member, _ in order:
            member.connection.take = _beaten(member, trips)
        while (now_s := time.perf_counter()) < begin_s + seconds:
            until = int((now_s - begin_s) * per_second)
            for each in range(number, until):
                member, frame = order[each % len(order)]
                if member.due_s:
                    missed += 1
                else:
                    member.due_s = begin_s + each / per_second
                    member.connection.send(frame)
            number = until
            await asyncio.sleep(_TICK_S)
        async with asyncio.timeout(_PATIENCE_S):
            while len(trips) + missed < number:  # noqa: ASYNC110 - what comes is not slowed down by an event
                await asyncio.sleep(_TICK_S)
        return Beaten(trips, missed)

    async def pipeline(self, trials: int, topic: str, broker: str) -> Pipelined:
        found = Pipelined([], [], [])
        beats = [each.beat() for each in self._members]
        assert len(beats) == TOGETHER
        (connection,) = await connect(self._address, 1)
        answers: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        connection.take = lambda answer: answers.put_nowait((time.perf_counter(), answer))
        random = Random(1)

        async def answered(number: int) -> float:
            async with asyncio.timeout(_PATIENCE_S):
                for _ in range(number):
                    at_s, answer = await answers.get()
                    assert answer == _BEATEN, answer
            return at_s

        with closing(reader(Load(broker, "", topic, 0))) as records:
            for trial in range(trials):
                # The gateway sends at fixed instants: clients do not know them.
                await asyncio.sleep(random.random() / 2)
                sent_s = time.perf_counter()
                connection.send(beats[trial % TOGETHER])
                found.one.append(1000 * (await answered(1) - sent_s))
                await asyncio.sleep(random.random() / 2)
                arrived = self.loop.run_in_executor(None, _arrival, records)
                sent_s = time.perf_counter()
                connection.send(b"".join(beats) + _frame(produce(_PRODUCE_VERSION, topic)))
                found.all.append(1000 * (await answered(TOGETHER) - sent_s))
                await answers.get()
                found.behind.append(1000 * (await arrived - sent_s))
        connection.close()
        return found

    async def ask(self, what: str, topic: str, connections: int, at_once: int, seconds: float) -> int:
        asking = await connect(self._address, connections)
        groups = [f"asks-{os.getpid()}-{next(self._groups)}" for _ in asking]
        for group_id, connection in zip(groups, asking, strict=True):
            await connection.ask(_offsets(COMMIT, group_id, topic))
        asked = left = 0
        end_s = time.perf_counter() + seconds
        is_done = asyncio.Event()

        def again(connection: Connection, frame: bytes, expected: bytes) -> Callable[[bytes], None]:
            def take(answer: bytes) -> None:
                nonlocal asked, left
                assert answer == expected, answer
                asked += 1
                if time.perf_counter() < end_s:
                    connection.send(frame)
                else:
                    left -= 1
                    if not left:
                        is_done.set()

            return take

        for group_id, connection in zip(groups, asking, strict=True):
            message = _offsets(what, group_id, topic)
            frame = _frame(message)
            expected = codec.encode_response(await connection.ask(message), _CORRELATION_ID)
            connection.take = again(connection, frame, expected)
            left += at_once
            connection.send(at_once * frame)
        async with asyncio.timeout(seconds + _PATIENCE_S):
            await is_done.wait()
        for connection in asking:
            connection.close()
        return asked


async def _join_all(members: list[_Member]) -> None:
    """Join, and again until all are in one generation: some may come after others have been answered."""
    while True:
        await asyncio.gather(*(each.join() for each in members))
        synced = await asyncio.gather(*(each.sync() for each in members))
        if all(synced) and len({each.generation_id for each in members}) == 1:
            return


async def _settle(members: list[Consumer]) -> None:
    """Join, and beat until all are in one epoch, and hear nothing new for some assignment intervals."""
    quiet = 0
    while quiet < _QUIET_ROUNDS:
        are_quiet = await asyncio.gather(*(each.come_further() for each in members))
        is_quiet = all(are_quiet) and len({each.epoch for each in members}) == 1
        quiet = quiet + 1 if is_quiet else 0
        await asyncio.sleep(_ROUND_S)


def _beaten(member: _Member | Consumer, trips: list[float]) -> Callable[[bytes], None]:
    expected = member.expected

    def take(answer: bytes) -> None:
        assert answer == expected, answer
        trips.append(1000 * (time.perf_counter() - member.due_s))
        member.due_s = 0

    return take


def _arrival(records: KafkaConsumer) -> float:
    """When the next record can be read, in s of the machine's monotonic clock."""
    deadline_s = time.perf_counter() + _PATIENCE_S
    while not records.poll(timeout_ms=1_000):
        if time.perf_counter() > deadline_s:
            raise TimeoutError("the record of the Produce does not come")
    return time.perf_counter()


def _expect(error_code: int, *expected: Errors) -> None:
    if error_code not in {each.value for each in expected}:
        raise RuntimeError(f"answered with {error_code}")


def _frame(message: Any) -> bytes:
    return codec.encode_request(message, _CORRELATION_ID, _NAME)


def _offsets(what: str, group_id: str, topic: str) -> Any:
    """A commit of a group without members, or a fetch of what it has committed."""
    if what == COMMIT:
        named = OffsetCommitRequest.OffsetCommitRequestTopic
        partition = named.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_leader_epoch=-1, committed_metadata=""
        )
        return OffsetCommitRequest(
            version=_OFFSETS_VERSION,
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[named(name=topic, partitions=[partition])],
        )
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [group.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    return OffsetFetchRequest(
        version=_OFFSETS_VERSION, groups=[group(group_id=group_id, topics=topics)], require_stable=False
    )


_BEATEN = codec.encode_response(
    HeartbeatResponse(version=_BEAT_VERSION, throttle_time_ms=0, error_code=Errors.NONE.value),
    _CORRELATION_ID,
)
"""The answer to a heartbeat that has no error."""
