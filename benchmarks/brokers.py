"""The broker's own coordinator as a neighbour: its groups, and heartbeats to it by its protocol."""

from __future__ import annotations

import asyncio
import multiprocessing
import selectors
import socket
import time
from contextlib import ExitStack, closing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import psutil
from kafka import KafkaAdminClient

from tests.conformance.classic.client import ClassicClient
from tests.conformance.classic.sequence import PARTITIONS, TOPICS
from tests.conformance.messages import frame

if TYPE_CHECKING:
    from group_coordinator.deploy.broker import EmbeddedBroker

_SESSION_MS = 1_800_000
_CONNECTIONS = 10
_AT_ONCE = 2_000
"""Members that join at a time, each on a connection of its own."""
_AHEAD = 20_000
_BURST = 500
_TICK_S = 0.002
_ANSWER = 14
"""Bytes of an answer of version 3: length, correlation id, throttle time and error code."""
_numbers = count(1)
_SPAWN = multiprocessing.get_context("spawn")


async def until_ready(address: str) -> None:
    """Wait until the broker coordinates groups, which takes it a while after its start."""
    # What the client looks for before it says so.
    with closing(KafkaAdminClient(bootstrap_servers=address)) as admin:
        missing = set(TOPICS) - set(admin.list_topics())
        if missing:
            admin.create_topics({topic: {"num_partitions": PARTITIONS} for topic in missing})
    client = ClassicClient(address)
    try:
        await client.wait_until_ready()
    finally:
        client.close()


class BrokersGroups:
    """`groups` groups of `size` members in the broker's coordinator."""

    def __init__(self, broker: EmbeddedBroker, groups: int, size: int) -> None:
        self._address = broker.bootstrap_servers
        (self._process,) = (
            each for each in psutil.Process().children(recursive=True) if "kafka.Kafka" in each.cmdline()
        )
        self._beats = asyncio.run(self._form(groups, size))

    def cpu_seconds(self) -> float:
        """The broker's CPU time so far."""
        times = self._process.cpu_times()
        return times.user + times.system

    def flow(self, per_second: float | None, seconds: float) -> int:
        """Beat, without a rate as fast as beats are answered; return how many were."""
        told = _SPAWN.Queue()
        process = _SPAWN.Process(target=_beat, args=(self._address, self._beats, per_second, seconds, told))
        process.start()
        answered: int | None = told.get()
        process.join()
        if answered is None:
            raise RuntimeError("the broker has refused a heartbeat")
        return answered

    async def _form(self, groups: int, size: int) -> list[bytes]:
        await until_ready(self._address)
        client = ClassicClient(self._address)
        try:
            # Not those of a round before, whose members are there still.
            prefix = f"groups{next(_numbers)}"
            # Each group takes as long as the broker delays its first generation.
            by_group: list[list[bytes]] = []
            at_once = max(1, _AT_ONCE // size)
            for first in range(0, groups, at_once):
                names = [f"{prefix}-{number}" for number in range(first, min(first + at_once, groups))]
                by_group += await asyncio.gather(*(self._form_one(client, name, size) for name in names))
        finally:
            client.close()
        return [beats[number] for number in range(size) for beats in by_group]

    async def _form_one(self, client: ClassicClient, group_id: str, size: int) -> list[bytes]:
        async def ask_all(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
            common = {"group_id": group_id, "client_id": "bench", "group_instance_id": None}
            questions = [await client.ask(common | each) for each in requests]
            answers = [(await question.answer()).fields for question in questions]
            assert {answer["error_code"] for answer in answers} == {0}
            return answers

        join = {
            "api": "join_group",
            "api_version": 3,
            "member_id": "",
            "session_timeout_ms": _SESSION_MS,
            "rebalance_timeout_ms": _SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        joined = await ask_all([join] * size)
        places = [{name: it[name] for name in ("member_id", "generation_id")} for it in joined]
        sync = {"api": "sync_group", "api_version": 3, "assignments": []}
        await ask_all([sync | place for place in places])
        beat = {"api": "heartbeat", "api_version": 3, "client_id": "bench", "group_id": group_id}
        return [frame(beat | {"group_instance_id": None} | place) for place in places]


def _beat(address: str, beats: list[bytes], per_second: float | None, seconds: float, told: Any) -> None:
    host, _, port = address.rpartition(":")
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        pipes = [_Pipe(socket.create_connection((host, int(port)))) for _ in range(_CONNECTIONS)]
        for pipe in pipes:
            stack.enter_context(pipe.socket)
            selector.register(pipe.socket, selectors.EVENT_READ, pipe)
        answered = number = 0
        begin = time.perf_counter()
        end = begin + seconds
        while (now := time.perf_counter()) < end or answered < number:
            if now < end:
                due = answered + _AHEAD if per_second is None else int((now - begin) * per_second)
                until = max(number, min(number + _BURST, due))
                for each in range(number, until):
                    pipes[each % _CONNECTIONS].unsent += beats[each % len(beats)]
                number = until
            for pipe in pipes:
                pipe.send()
            try:
                answered += sum(key.data.answers() for key, _ in selector.select(_TICK_S))
            except ValueError:
                told.put(None)
                return
    told.put(answered)


class _Pipe:
    """A connection, with what is on its way in both directions."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.unsent = bytearray()
        self._unread = bytearray()

    def send(self) -> None:
        if self.unsent:
            with suppress(BlockingIOError):
                del self.unsent[: self.socket.send(self.unsent)]

    def answers(self) -> int:
        """How many have come; ValueError if one says that there was an error."""
        self._unread += self.socket.recv(1_000_000)
        whole = len(self._unread) // _ANSWER * _ANSWER
        if any(self._unread[12:whole:_ANSWER]) or any(self._unread[13:whole:_ANSWER]):
            raise ValueError
        del self._unread[:whole]
        return whole // _ANSWER
