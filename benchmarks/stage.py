"""What the comparisons of streams have in common: a broker, the load's process, and streams that take turns.

What a machine does in one minute it may not do in the next, above all if it is one of several on the same
hardware. So the streams that are compared are all up, and are measured one right after the other, again and
again, each while the others are stopped.

A clock that stood still for longer than `clock.max.gap.ms` does not tick any more, and a coordinator begins
its query anew: it would be measured cold, and a no-op without a clock. So here no gap is too long; and as
time goes on for those who are stopped, members have sessions that do not end.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

import psutil

from benchmarks.load import Answers, write_requests
from benchmarks.members import LONG_MS
from benchmarks.streams import COORDINATOR, Stream
from group_coordinator.deploy.broker import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.load import Request
    from benchmarks.members import Members

ONE_CORE = {"spark.master": "local[1]", "requests.partitions": 1}
"""For a stream on a core of its own."""
_STOPPABLE = {"clock.max.gap.ms": LONG_MS, "group.max.session.timeout.ms": LONG_MS}

_BROKER = (
    "-server",
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""As Kafka's own kafka-server-start.sh has it, for a broker that is measured must not be a slow one."""


class Stage:
    """`apart`: the stream has the last core for itself, and everything else the others.

    `broker`: properties of the broker. `jars`: its section of jars.lock.
    """

    def __init__(
        self,
        *,
        apart: bool = False,
        broker: Mapping[str, str] = MappingProxyType({}),
        jars: str = "broker",
    ) -> None:
        self._overrides = broker
        self._jars = jars
        self._apart = apart
        self._numbers = count(1)
        self._streams: list[Stream] = []
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            cores = sorted(os.sched_getaffinity(0))
            self._cores = cores[-1:] if self._apart else []
            if self._apart:
                others = psutil.Process()
                stack.callback(others.cpu_affinity, cores)
                others.cpu_affinity(cores[:-1])
            directory = tempfile.TemporaryDirectory(prefix="group-coordinator-")
            self.directory = Path(stack.enter_context(directory))
            self.broker = stack.enter_context(
                EmbeddedBroker(
                    self.directory / "kafka",
                    heap_mb=1024,
                    jvm_flags=_BROKER,
                    overrides=self._overrides,
                    jars=self._jars,
                )
            )
            # Not forked: a fork would share the broker's pipes.
            pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
            self.pool: Executor = stack.enter_context(pool)
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @contextmanager
    def stream(
        self,
        kind: str,
        members: Members | None = None,
        settings: Mapping[str, object] = MappingProxyType({}),
    ) -> Iterator[Stream]:
        """Start a stream, in its turn, on topics of its own; a coordinator with groups of `members`."""
        directory = self.directory / f"stream{next(self._numbers)}"
        given = _STOPPABLE | (ONE_CORE if self._apart else {}) | dict(settings)
        with ExitStack() as stack:
            with self.turn(None):
                stream = Stream(kind, self.broker.bootstrap_servers, directory, given, self._cores)
                stack.callback(stream.close)
                if members is not None and kind == COORDINATOR:
                    members.form(self.pool, stream.load)
            self._streams.append(stream)
            stack.callback(self._streams.remove, stream)
            yield stream

    def drain(self, stream: Stream, requests: list[Request]) -> float:
        """Give a stream whose turn it is a backlog; return the CPU seconds in which it has answered it."""
        with closing(Answers(stream.load)) as answers:
            with stream.paused():
                self.pool.submit(write_requests, stream.load, requests).result()
                begin_s = stream.cpu_seconds()
            answers.wait_for(len(requests))
            end_s = stream.cpu_seconds()
            answers.read({request.request_id for request in requests})
        return end_s - begin_s

    @contextmanager
    def turn(self, stream: Stream | None) -> Iterator[None]:
        """Stop all streams meanwhile, but for this one."""
        with ExitStack() as stack:
            for other in self._streams:
                if other is not stream:
                    stack.enter_context(other.paused())
            try:
                yield
            except Exception as error:
                if stream is not None:
                    error.add_note(f"{stream.kind}: {stream.log()}")
                raise
            if stream is not None:
                stream.check()
