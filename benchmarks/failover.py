"""How long nobody is answered when a coordinator is killed or upgraded, taken apart.

A coordinator answers heartbeats that come steadily. It is killed (SIGKILL, with its JVM and its workers), or
asked to stop for an upgrade (SIGTERM). The pause ends with the first answer of the successor to a heartbeat
that was sent after that. The successor is a standby, or a coordinator that is started in the moment of the
kill. What it says on the way tells the phases apart.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from benchmarks.load import Load, producer, reader
from benchmarks.members import LONG_MS, Members
from benchmarks.report import show, tell, write
from benchmarks.stage import Stage
from group_coordinator.coordinator_state.topics import REQUESTS, RESPONSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from benchmarks.members import Beat

STANDBY, COLD, UPGRADE = "standby", "cold", "upgrade"
_RUNNING = "the coordinator is running"
_WARM = "standing by is warm"
_TAKES_OVER = "has ended: taking over"
_CALM_S = 5
"""For which both have been running when one is killed."""
_PATIENCE_S = 120
_LOOK_S = 0.02
_LAST = (
    ("checkpoint and clock", ("finishing the batch", "catching up")),
    ("the batch that was running", ("catching up",)),
    ("the first batch that reads on", ()),
)
_PHASES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    STANDBY: (("detection", (_TAKES_OVER,)), *_LAST),
    # Which the one before has finished.
    UPGRADE: (("until it has stopped", (_TAKES_OVER,)), _LAST[0], _LAST[2]),
    COLD: (
        ("Python", ("connecting to Kafka",)),
        ("topics", ("starting Spark",)),
        ("JVM and Spark session", ("is up",)),
        *_LAST,
    ),
}
"""Each phase ends when the successor says a line with some of these words, the last one with the answer."""


class Plan(NamedTuple):
    """How much of what."""

    rounds: int
    groups: int
    per_second: float
    ways: tuple[str, ...]
    settings: dict[str, str]


class _Beats:
    """Heartbeats at a steady pace from a thread, and the times at which answers to them come."""

    def __init__(self, load: Load, beats: list[Beat], per_second: float) -> None:
        self._load, self._beats, self._pause_s = load, beats, 1 / per_second
        self._sent: list[float] = []
        self._answered: list[tuple[float, int]] = []
        """When, and to the request of which number."""
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._send, self._receive)]

    def __enter__(self) -> Self:
        self._listening = threading.Event()
        for thread in self._threads[::-1]:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def first_answer(self, since: float) -> float:
        """Wait for the first answer to a request that was sent later than `since`; return when it came."""
        deadline = time.monotonic() + _PATIENCE_S
        seen = 0
        while time.monotonic() < deadline:
            for at, number in self._answered[seen:]:
                seen += 1
                if self._sent[number] > since:
                    return at
            time.sleep(_LOOK_S)
        raise TimeoutError("nothing was answered")

    def last_before(self, at: float) -> float:
        """When the last answer before that time came."""
        return max(it for it, _ in self._answered if it < at)

    def _send(self) -> None:
        self._listening.wait()
        with closing(producer(self._load)) as out:
            while not self._stopping.wait(self._pause_s):
                number = len(self._sent)
                beat = self._beats[number % len(self._beats)]
                self._sent.append(time.monotonic())
                out.send(self._load.request_topic, key=beat.key, value=beat.request(number).value)

    def _receive(self) -> None:
        with closing(reader(self._load)) as answers:
            self._listening.set()
            while not self._stopping.is_set():
                for record in (each for some in answers.poll(timeout_ms=100).values() for each in some):
                    number = int(msgspec.json.decode(record.value)["request_id"])
                    self._answered.append((time.monotonic(), number))


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, float]]:
    """Measure, print and write; return the medians of the phases in seconds by way."""
    rounds: dict[str, list[dict[str, float]]] = {way: [] for way in plan.ways}
    for way in plan.ways:
        for each in _rounds(way, plan):
            tell(way, {name: round(seconds, 2) for name, seconds in each.items()})
            rounds[way].append(each)
    medians = {}
    for way, all_of_them in rounds.items():
        medians[way] = {name: statistics.median(it[name] for it in all_of_them) for name in all_of_them[0]}
        show(
            f"Seconds without an answer, {way} ({plan.rounds} rounds)",
            ["", "median", "least", "most"],
            [
                [name, *(f"{of(it[name] for it in all_of_them):.2f}" for of in (statistics.median, min, max))]
                for name in all_of_them[0]
            ],
        )
    write(file, {"plan": plan._asdict(), "medians_s": medians, "rounds_s": rounds})
    return medians


def _rounds(way: str, plan: Plan) -> Iterator[dict[str, float]]:
    members = Members(plan.groups, 1)
    with Stage() as stage, ExitStack() as stack:
        make = _maker(stage, plan.settings)
        running = stack.enter_context(make())
        running.await_line(_RUNNING)
        members.form(stage.pool, running.load)
        beats = stack.enter_context(_Beats(running.load, members.beats(), plan.per_second))
        for _ in range(plan.rounds):
            successor = None if way == COLD else stack.enter_context(make("--standby"))
            if successor is not None:
                successor.await_line(_WARM)
            time.sleep(_CALM_S)
            if way == UPGRADE and successor is not None:
                running.terminate()
                # It still answers while it finishes its batch.
                answered = beats.first_answer(successor.await_line(_TAKES_OVER))
                begin = beats.last_before(answered)
            else:
                begin = time.monotonic()
                running.kill()
                if successor is None:
                    successor = stack.enter_context(make())
                answered = beats.first_answer(begin)
            successor.await_line(_RUNNING)
            yield _apart(way, successor.said, begin, answered)
            running = successor


def _apart(way: str, said: list[tuple[float, str]], begin: float, answered: float) -> dict[str, float]:
    """The seconds of each phase, and of all together."""
    phases, since = {}, begin
    for phase, words in _PHASES[way]:
        until = answered
        if words:
            until = next(at for at, line in said if at > begin and any(each in line for each in words))
        phases[phase] = until - since
        since = until
    return {**phases, "all": answered - begin}


def _maker(stage: Stage, settings: Mapping[str, str]) -> Callable[..., _Process]:
    """What starts coordinators of the same topics and checkpoint, with more options if given."""
    given = {
        "bootstrap.servers": stage.broker.bootstrap_servers,
        "create.topics": "true",
        "checkpoint": str(stage.directory / "checkpoint"),
        "metrics.port": "0",
        "log.level": "warning",
        "group.initial.rebalance.delay.ms": "0",
        "group.max.session.timeout.ms": str(LONG_MS),
        **settings,
    }
    load = Load(stage.broker.bootstrap_servers, REQUESTS, RESPONSES, 0)
    numbers = count(1)
    options = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]

    def make(*more: str) -> _Process:
        return _Process([*options, *more], stage.directory / f"coordinator{next(numbers)}.log", load)

    return make


class _Process:
    """A coordinator, in a session of its own, until the context ends."""

    def __init__(self, options: list[str], log: Path, load: Load) -> None:
        self.load = load
        self.said: list[tuple[float, str]] = []
        """Its lines, each with its time."""
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", "group_coordinator", "run", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._log.open("w") as log:
            for line in self._process.stdout:
                self.said.append((time.monotonic(), line))
                log.write(line)
                log.flush()

    def kill(self) -> None:
        """Kill all its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to stop, as a supervisor does."""
        self._process.terminate()

    def await_line(self, words: str) -> float:
        """Wait until it has said a line with these words; return when it said the first."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            if (said := [at for at, line in self.said if words in line]) != []:
                return said[0]
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it does not say {words!r}:\n{self._log.read_text()}")
            time.sleep(_LOOK_S)
