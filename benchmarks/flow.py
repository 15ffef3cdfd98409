"""A load on schedule, from one process that sends to another that reads the answers.

Neither may be what is measured: requests are encoded before, and each process has less than a core to do.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from bisect import bisect_right
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchmarks.load import producer, reader
from benchmarks.report import percentile

if TYPE_CHECKING:
    from benchmarks.load import Load
    from benchmarks.members import Beat

_TICK_S = 0.002
_PATIENCE_S = 120
_SPAWN = multiprocessing.get_context("spawn")


class Step(NamedTuple):
    """The first `beats` of the beats in turn, for `seconds`."""

    beats: int
    per_second: float
    seconds: float


class Measured(NamedTuple):
    """Of the requests of one step: round trips in ms from when each was due."""

    step: Step
    answered: int
    p50_ms: float
    p99_ms: float


class _Answer(msgspec.Struct):
    request_id: str
    error: str = "NONE"


def flow(load: Load, beats: list[Beat], steps: list[Step], *, limit_ms: float = math.inf) -> list[Measured]:
    """Go through the steps, and end after two in a row whose p99 is above the limit.

    One alone may be so because the machine was busy with something else.
    """
    schedule = _Schedule.of(steps)
    told = _SPAWN.Queue()
    receiver = _SPAWN.Process(target=_receive, args=(load, steps, limit_ms, schedule, told))
    sender = _SPAWN.Process(target=_send, args=(load, beats, steps, schedule))
    receiver.start()
    try:
        schedule.listening.wait(_PATIENCE_S)
        sender.start()
        found, error = told.get(timeout=sum(step.seconds for step in steps) + _PATIENCE_S)
    finally:
        schedule.stop.set()
        for process in (sender, receiver):
            process.join()
    if error:
        raise RuntimeError(f"answered with {error}")
    return [Measured(step, *each) for step, each in zip(steps, found, strict=False)]


class _Schedule(NamedTuple):
    """What both processes see."""

    due: Any
    """By number of the request, in s of the machine's monotonic clock."""
    first: Any
    """By number of the step, its first request; and one more. -1 if it has not begun."""
    listening: Any
    stop: Any

    @classmethod
    def of(cls, steps: list[Step]) -> _Schedule:
        most = sum(math.ceil(step.per_second * step.seconds) + 1 for step in steps)
        return cls(
            _SPAWN.RawArray("d", most),
            _SPAWN.RawArray("q", [-1] * (len(steps) + 1)),
            _SPAWN.Event(),
            _SPAWN.Event(),
        )


def _send(load: Load, beats: list[Beat], steps: list[Step], schedule: _Schedule) -> None:
    number = 0
    with closing(producer(load)) as out:
        end = time.perf_counter()
        for index, step in enumerate(steps):
            begin = end
            end = begin + step.seconds
            schedule.first[index] = first = number
            while (now := time.perf_counter()) < end and not schedule.stop.is_set():
                until = first + int((now - begin) * step.per_second)
                for each in range(number, until):
                    beat = beats[(each - first) % step.beats]
                    schedule.due[each] = begin + (each - first) / step.per_second
                    out.send(load.request_topic, key=beat.key, value=beat.request(each).value)
                number = until
                time.sleep(_TICK_S)
        schedule.first[len(steps)] = number


def _receive(load: Load, steps: list[Step], limit_ms: float, schedule: _Schedule, told: Any) -> None:
    trips: list[list[float]] = [[] for _ in steps]
    found: list[tuple[int, float, float]] = []
    with closing(reader(load)) as answers:
        schedule.listening.set()
        while not schedule.stop.is_set():
            records = [each for some in answers.poll(timeout_ms=100).values() for each in some]
            now = time.perf_counter()
            for record in records:
                answer = msgspec.json.decode(record.value, type=_Answer)
                if answer.error != "NONE":
                    told.put(([], answer.error))
                    return
                number = int(answer.request_id)
                step = bisect_right(schedule.first, number, key=_or_never) - 1
                trips[step].append((now - schedule.due[number]) * 1000)
            for index in range(len(found), len(steps)):
                first, end = schedule.first[index], schedule.first[index + 1]
                if end < 0:
                    break
                missing = end - first - len(trips[index])
                is_late = missing > 0 and (now - schedule.due[end - 1]) * 1000 > limit_ms
                if missing and not is_late:
                    break
                values = trips[index] + [math.inf] * missing
                found.append((len(trips[index]), percentile(values, 50), percentile(values, 99)))
                too_late = [p99 > limit_ms for _, _, p99 in found[-2:]]
                if too_late == [True, True] or len(found) == len(steps):
                    told.put((found, None))
                    return


def _or_never(first: int) -> float:
    return math.inf if first < 0 else first
