"""A load on schedule, from one process that sends to another that reads the answers.

Neither may be what is measured: requests are encoded before, and each process has less than a core to do.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from benchmarks.load import producer, reader
from benchmarks.report import percentile

if TYPE_CHECKING:
    from benchmarks.load import Load
    from benchmarks.members import Beat

LEAD_S = 3
"""For a stream that was stopped, before it is measured."""
_TICK_S = 0.002
_PATIENCE_S = 120
_SPAWN = multiprocessing.get_context("spawn")


class Step(NamedTuple):
    """The first `beats` of the beats in turn, for `seconds`."""

    beats: int
    per_second: float
    seconds: float


class Measured(NamedTuple):
    """Of the requests of a step: round trips in ms from when each was due."""

    step: Step
    answered: int
    p50_ms: float
    p99_ms: float


class _Answer(msgspec.Struct):
    request_id: str
    error: str = "NONE"


def flow(load: Load, beats: list[Beat], step: Step) -> Measured:
    """Go through the step, and wait until all is answered."""
    schedule = _Schedule.of(step)
    told = _SPAWN.Queue()
    receiver = _SPAWN.Process(target=_receive, args=(load, schedule, told))
    sender = _SPAWN.Process(target=_send, args=(load, beats, step, schedule))
    receiver.start()
    try:
        schedule.listening.wait(_PATIENCE_S)
        sender.start()
        trips, error = told.get(timeout=step.seconds + _PATIENCE_S)
    except queue.Empty:
        answered, sent = schedule.answered.value, schedule.sent.value
        raise TimeoutError(f"{answered} of {sent} requests are answered") from None
    finally:
        schedule.stop.set()
        for process in (sender, receiver):
            process.join()
    if error:
        raise RuntimeError(f"answered with {error}")
    return Measured(step, len(trips), percentile(trips, 50), percentile(trips, 99))


class _Schedule(NamedTuple):
    """What both processes see."""

    due: Any
    """By number of the request, in s of the machine's monotonic clock."""
    sent: Any
    """How many were sent; -1 until the last is."""
    answered: Any
    listening: Any
    stop: Any

    @classmethod
    def of(cls, step: Step) -> _Schedule:
        most = math.ceil(step.per_second * step.seconds) + 1
        sent, answered = _SPAWN.RawValue("q", -1), _SPAWN.RawValue("q", 0)
        return cls(_SPAWN.RawArray("d", most), sent, answered, _SPAWN.Event(), _SPAWN.Event())


def _send(load: Load, beats: list[Beat], step: Step, schedule: _Schedule) -> None:
    number = 0
    with closing(producer(load)) as out:
        begin = time.perf_counter()
        while (now := time.perf_counter()) < begin + step.seconds and not schedule.stop.is_set():
            until = int((now - begin) * step.per_second)
            for each in range(number, until):
                beat = beats[each % step.beats]
                # The first is due after the first interval.
                schedule.due[each] = begin + (each + 1) / step.per_second
                out.send(load.request_topic, key=beat.key, value=beat.request(each).value)
            number = until
            time.sleep(_TICK_S)
    schedule.sent.value = number


def _receive(load: Load, schedule: _Schedule, told: Any) -> None:
    trips: list[float] = []
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
                trips.append((now - schedule.due[int(answer.request_id)]) * 1000)
            schedule.answered.value = len(trips)
            if len(trips) == schedule.sent.value:
                told.put((trips, None))
                return
