"""The process that runs `step`: takes batches from the log, keeps the state, crashes and comes back.

As Spark does it: what a batch consists of (its records and its watermark) is fixed before it runs, so a
batch whose commit was lost runs again with just that, from the snapshot before it. The watermark of a batch
is the newest tick of the batches before it, less some slack, and ticks are written only while the process is
up: so nothing that is still to come is earlier than the watermark, clocks that are set back aside.

When it comes back it notes the outage: since the newest record that a batch was planned with, a tick or a
request.

If nobody can read what is appended to the log, time goes on by a gap only, and then stands still: whatever is
due, nothing is decided. When there is a record again, this was an outage, and it begins again with that one.

It refuses a batch with a record whose time cannot be right, notes shifts, and begins again with that batch.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from group_coordinator.checkpoints.shifts import Guard, Shift, Shifts, fitted
from group_coordinator.coordinator_state.outages import Outage, Outages
from tests.simulation.checks import Violation
from tests.simulation.conditions import (
    CALM_BATCH_MS,
    GAP_MS,
    KEY,
    LONGEST_BEGIN_MS,
    NOTICED_MS,
    SECRET,
    TICK_MS,
)

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.step import StepResult
    from tests.coordinator_state.model import Answer
    from tests.coordinator_state.observer import Step
    from tests.simulation.world import World

# How many batches may be lost at once: more than Spark ever loses.
_SNAPSHOTS = 3


@dataclass(frozen=True)
class Batch:
    """A batch that has been run, and what is needed to run it again."""

    before: bytes | None
    records: list[Record]
    watermark: int
    result: StepResult
    answers: list[Answer]


class Coordinator:
    """Runs batches at random moments. `step` is what it runs: the real one, unless a fault is wanted."""

    def __init__(self, world: World, step: Step) -> None:
        self._world = world
        self._step = step
        self._conditions = world.conditions
        self.state: bytes | None = None
        self.deadline: int | None = None
        self.watermark = 0
        self.batches = 0
        self.restarts = 0
        self.reruns = 0
        self.refusals = 0
        self.standstills = 0
        self._stands_since: int | None = None
        self._read = 0
        self._newest_read = 0
        self._started = world.now
        self._newest_tick = 0
        self._shifts: list[Shift] = []
        self._crash_at: int | None = None
        self._committed: deque[Batch] = deque(maxlen=_SNAPSHOTS)
        self._to_run_again: deque[Batch] = deque()
        self._draw_crash()
        world.after(self._pause(), self._next_batch)

    # -- batches -----------------------------------------------------------------------------------

    def _next_batch(self) -> None:
        if self._to_run_again:
            self._run_again(self._to_run_again.popleft())
            return
        records = self._world.log.records[self._read :]
        if self._stands_since is not None and not records and self._world.log.stuck_since is not None:
            self._newest_tick = max(self._newest_tick, self._tick())
            self.watermark = max(self.watermark, self._newest_tick - self._conditions.clock_slack_ms)
            self._world.after(self._pause(), self._next_batch)
            return
        self._read += len(records)
        if self._stands_since is not None:
            self._end_standstill()
        watermark = self.watermark = max(self.watermark, self._newest_tick - self._conditions.clock_slack_ms)
        self._newest_tick = max(self._newest_tick, self._tick())
        if self._refuses(records, watermark):
            self._world.after(
                self._world.rng.randrange(LONGEST_BEGIN_MS), self._run_refused, records, watermark
            )
            return
        if self._is_stuck():
            self._world.after(
                self._world.rng.randrange(LONGEST_BEGIN_MS), self._begin_standstill, records, watermark
            )
            return
        self._newest_read = max([self._newest_read, *self._times(records)])
        if records or (self.deadline is not None and self.deadline < watermark):
            self._run(records, watermark)
        else:
            self._world.after(self._pause(), self._next_batch)

    def _tick(self) -> int:
        """The time up to which the newest tick lets time come."""
        now, stuck_since = self._world.now, self._world.log.stuck_since
        tick = now - (now - self._started) % TICK_MS
        # When time stands still, it does so for this group alone.
        return tick if stuck_since is None or self._stands_since else min(tick, stuck_since + GAP_MS)

    def _is_stuck(self) -> bool:
        stuck_since = self._world.log.stuck_since
        return stuck_since is not None and self._world.now > stuck_since + NOTICED_MS

    def _begin_standstill(self, records: list[Record], watermark: int) -> None:
        """Begin again: with all that can be read, after which time stands still."""
        self.standstills += 1
        self._newest_read = max([self._newest_read, *self._times(records)])
        self._run(records, watermark)
        self._note_outage()
        self._stands_since = max([self._world.now, *(it.end_ms for it in self._world.outages)])
        self._world.note("coordinator", "lets time stand still")

    def _end_standstill(self) -> None:
        assert self._stands_since is not None
        end = max(self._world.now, self._stands_since + 1)
        self._world.outages.append(Outage(self._stands_since, end))
        self._stands_since = None
        self._world.note("coordinator", "lets time go on")

    def _times(self, records: list[Record]) -> list[int]:
        """As they count."""
        return [record.timestamp_ms for record in self._shifted(records)]

    def _shifted(self, records: list[Record]) -> list[Record]:
        at = Shifts(self._shifts).at
        return [it._replace(timestamp_ms=it.timestamp_ms + at(it.partition, it.offset)) for it in records]

    def _refuses(self, records: list[Record], watermark: int) -> bool:
        """Whether a record's time cannot be right; then shifts are noted with which all are."""
        outages = self._world.outages
        guard = Guard(0, GAP_MS + self._conditions.clock_slack_ms, GAP_MS, outages[-1] if outages else None)
        span = guard.span(self._world.now, watermark)
        before = self._shifts
        for number in range(self._conditions.partitions):
            times = [(it.offset, it.timestamp_ms) for it in records if it.partition == number]
            end = max(times)[0] + 1 if times else 0
            after = fitted(self._shifts, number, times, end, span, GAP_MS)
            self._shifts = self._shifts if after is None else after
        if self._shifts is before:
            return False
        self.refusals += 1
        self._world.note("coordinator", "refuses a batch, and notes shifts: {}", self._shifts)
        if not all(map(span.has, self._times(records))):
            raise Violation(f"with {self._shifts} there are still wrong times in {records}")
        return True

    def _run_refused(self, records: list[Record], watermark: int) -> None:
        """Begin again: with the batch that was refused, and the time that it took as an outage."""
        self._newest_read = max([self._newest_read, *self._times(records)])
        self._run(records, watermark)
        self._note_outage()

    def _run(self, records: list[Record], watermark: int) -> None:
        self.batches += 1
        result = self._call_step(self.state, records, watermark)
        self._world.note(
            "coordinator", "runs batch {}: {} records, watermark {}", self.batches, len(records), watermark
        )
        answers = self._world.checks.stepped(self.state, self._shifted(records), watermark, result)
        self._finish_later(Batch(self.state, records, watermark, result, answers))

    def _run_again(self, batch: Batch) -> None:
        self.reruns += 1
        result = self._call_step(batch.before, batch.records, batch.watermark)
        self._world.note("coordinator", "runs a batch again: {} records", len(batch.records))
        if result != batch.result:
            raise Violation(f"a batch that ran again decided otherwise: {result} and not {batch.result}")
        self._finish_later(batch)

    def _call_step(self, state: bytes | None, records: list[Record], watermark: int) -> StepResult:
        # Spark gives a group's rows in any order.
        records = self._shifted(self._world.rng.sample(records, len(records)))
        return self._step(
            KEY, state, records, watermark, self._conditions.config, SECRET, Outages(self._world.outages)
        )

    def _finish_later(self, batch: Batch) -> None:
        self._world.after(self._duration(), self._finish, batch)

    def _finish(self, batch: Batch) -> None:
        world = self._world
        if self._crash_at is not None and world.now >= self._crash_at and not world.is_calm:
            self._crash(batch)
            return
        self._write(batch.answers)
        self._commit(batch)
        world.after(self._pause(), self._next_batch)

    def _commit(self, batch: Batch) -> None:
        self.state, self.deadline = batch.result.state, batch.result.deadline_ms
        self._committed.append(batch)

    def _write(self, answers: list[Answer]) -> None:
        for answer in answers:
            self._world.answer(answer)

    # -- crashes -----------------------------------------------------------------------------------

    def _crash(self, batch: Batch) -> None:
        """Die before, in the midst of or after writing, and forget up to a few commits."""
        world = self._world
        written = world.rng.choice([0, world.rng.randint(0, len(batch.answers)), len(batch.answers)])
        self._write(batch.answers[:written])
        self._to_run_again.appendleft(batch)
        for _ in range(min(world.rng.choice([0, 0, 0, 1, _SNAPSHOTS]), len(self._committed))):
            self._to_run_again.appendleft(self._committed.pop())
        first = self._to_run_again[0]
        self.state, self.deadline = first.before, None
        longest = self._conditions.longest_outage_ms
        outage = world.rng.randint(100, max(200, world.rng.choice([longest // 10, longest])))
        again_at = min(world.now + outage, max(world.storm_ends, world.now + 1))
        world.note(
            "coordinator",
            "crashes after {} of {} answers, is back in {} ms, to run {} batches again",
            written,
            len(batch.answers),
            again_at - world.now,
            len(self._to_run_again),
        )
        world.at(again_at, self._restart)

    def _restart(self) -> None:
        self.restarts += 1
        self._note_outage()
        self._draw_crash()
        self._world.note("coordinator", "is back")
        self._next_batch()

    def _note_outage(self) -> None:
        # It may crash again before it has read anything new.
        begin = max([self._newest_read, self.watermark, *(outage.end_ms for outage in self._world.outages)])
        now = self._world.now
        # What lies in a standstill is part of that.
        if begin < now and self._stands_since is None:
            self._world.outages.append(Outage(begin, now))
        self._started = self._newest_tick = now

    def _draw_crash(self) -> None:
        pause = self._conditions.outage_pause_ms
        if pause is not None:
            self._crash_at = self._world.now + self._world.rng.randint(0, 2 * pause)

    # -- how long things take ----------------------------------------------------------------------

    def _pause(self) -> int:
        return 10 + int(self._world.rng.random() * (CALM_BATCH_MS - 10))

    def _duration(self) -> int:
        rng = self._world.rng
        longest = CALM_BATCH_MS
        if not self._world.is_calm and rng.random() < self._conditions.slow_batch:
            longest = rng.choice([1_000, 5_000, 20_000])
        return 5 + int(rng.random() * (longest - 5))
