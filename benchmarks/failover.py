"""How long nobody is answered when a coordinator is killed or upgraded, taken apart.

A coordinator answers heartbeats that come steadily. It is killed (SIGKILL, with its JVM and its workers), or
asked to stop for an upgrade (SIGTERM). The pause ends with the first answer of the successor to a heartbeat
that was sent after that. The successor is a standby, or a coordinator that is started in the moment of the
kill. What it says on the way tells the phases apart.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from benchmarks.coordinators import RUNNING, TAKES_OVER, WARM, coordinators
from benchmarks.load import producer, reader
from benchmarks.members import Members
from benchmarks.report import show, tell, write
from benchmarks.stage import Stage
from group_coordinator.jobs.session import archive_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.load import Load
    from benchmarks.members import Beat

STANDBY, COLD, UPGRADE = "standby", "cold", "upgrade"
_CALM_S = 5
"""For which both have been running when one is killed."""
_PATIENCE_S = 120
_LOOK_S = 0.02
_LAST = (
    ("checkpoint and clock", ("catching up",)),
    ("the batch that was running, and the first that reads on", ()),
)
_PHASES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    STANDBY: (("detection", (TAKES_OVER,)), *_LAST),
    UPGRADE: (("until it has stopped", (TAKES_OVER,)), *_LAST),
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

    def longest_pause(self, since: float, until: float) -> tuple[float, float]:
        """Between which two answers of that time the pause was longest."""
        times = [at for at, _ in self._answered if since <= at <= until]
        return max(pairwise([since, *times]), key=lambda pause: pause[1] - pause[0])

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
    # A cold start takes a third longer without it.
    without = "" if archive_options() else ", without the archive of Java's classes"
    for way, all_of_them in rounds.items():
        medians[way] = {name: statistics.median(it[name] for it in all_of_them) for name in all_of_them[0]}
        show(
            f"Seconds without an answer, {way} ({plan.rounds} rounds{without})",
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
        make = coordinators(stage, plan.settings)
        running = stack.enter_context(make())
        running.await_line(RUNNING)
        members.form(stage.pool, running.load)
        beats = stack.enter_context(_Beats(running.load, members.beats(), plan.per_second))
        for _ in range(plan.rounds):
            successor = None if way == COLD else stack.enter_context(make("--standby"))
            if successor is not None:
                successor.await_line(WARM)
            time.sleep(_CALM_S)
            asked = time.monotonic()
            if way == UPGRADE and successor is not None:
                running.terminate()
                # It still answers while it finishes its batch, and leaves some requests to its successor.
                until = beats.first_answer(successor.await_line(TAKES_OVER))
                begin, answered = beats.longest_pause(asked, until)
            else:
                begin = asked
                running.kill()
                if successor is None:
                    successor = stack.enter_context(make())
                answered = beats.first_answer(begin)
            successor.await_line(RUNNING)
            said = [(at, line) for at, line in successor.said if at > asked]
            yield _apart(way, said, begin, answered)
            running = successor


def _apart(way: str, said: list[tuple[float, str]], begin: float, answered: float) -> dict[str, float]:
    """The seconds of each phase, and of all together."""
    phases, since = {}, begin
    for phase, words in _PHASES[way]:
        until = answered
        if words:
            # An answer may come to the client later than the line that its coordinator has stopped.
            until = max(since, next(at for at, line in said if any(each in line for each in words)))
        phases[phase] = until - since
        since = until
    return {**phases, "all": answered - begin}
