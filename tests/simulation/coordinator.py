"""The process that runs `step`: takes batches from the log, keeps the state, crashes and comes back.

As Spark does it: what a batch consists of (its records and its watermark) is fixed before it runs, so a
batch whose commit was lost runs again with just that, from the snapshot before it. The watermark of a batch
is the newest tick of the batches before it, less some slack, and ticks are written only while the process is
up. So nothing that is still to come is earlier than the watermark, but for clocks that are set back, and for
batches that have no room for all there is. Then time goes on by a gap.

When it comes back it notes the outage: since the newest record that a batch was planned with, a tick or a
request.

If nobody can read what is appended to the log, time goes on by a gap only. It begins again, and lets time
stand still: whatever is due, nothing is decided. When there is a record again, this was an outage, and it
begins again with that one. If the log has taken records again before that was noted, it begins again as well.
So it does if it has not read all there is for too long.

It refuses a batch with a record whose time cannot be right, notes shifts, and begins again with that batch.
It begins again as well if a probe shows that a clock is wrong.

When it begins it reads all there is first, and what it has read of other groups meanwhile let time pass.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.checkpoints.late import late_times, told_late
from group_coordinator.checkpoints.shifts import Guard, Shift, Shifts, fitted, is_off, put_right
from group_coordinator.checkpoints.standing import undecided_from
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import PartitionOutages, Standstill
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.timekeeper import Timekeeper
from tests.simulation.checks import Violation
from tests.simulation.conditions import (
    CALM_BATCH_MS,
    DIFFER_MS,
    GAP_MS,
    KEY,
    LONGEST_BEGIN_MS,
    LONGEST_BEHIND_MS,
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

_PACE = Pace(interval_ms=TICK_MS, max_gap_ms=GAP_MS, ahead_ms=DIFFER_MS)
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


class Planned(NamedTuple):
    """A batch as it is planned, and when."""

    records: list[Record]
    watermark: int
    at_ms: int
    had_room: bool


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
        self.standstills: list[Standstill] = []
        self._outages: list[Outage] = []
        self._catches_up = False
        self._read = 0
        self._begun_with = 0
        """How many records the log had when the newest query began."""
        self._newest_read = 0
        self._others_read = 0
        """The newest request of other groups."""
        self._started = world.now
        self._newest_tick = 0
        self._all_read_ms = world.now
        self._keeper = self._resumed()
        self._ticks = 0
        """How many it has written since it has resumed."""
        self._shifts: list[Shift] = []
        self._planned_ms = world.now
        """When the newest batch was planned."""
        self._refused_ms: dict[int, int] = {}
        """The partitions of which a batch was refused, and when that was planned, until a query begins."""
        self._decided: list[Batch] = []
        """All batches, each once."""
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
        log, rng = self._world.log, self._world.rng
        behind_ms = 0 if self._catches_up else self._world.now - self._all_read_ms
        if (
            self._is_in_doubt()
            or (self._stands and log.stuck_since is None and rng.random() < 0.5)
            or (behind_ms > LONGEST_BEHIND_MS and log.stuck_since is None)
            or self._finds_clock_off()
        ):
            self._begin_soon()
            return
        # A query that catches up reads what the log had when it began, however long other batches took.
        there = log.records[: self._begun_with] if self._catches_up else log.records
        records = there[self._read :][: self._room]
        self._read += len(records)
        had_room = self._read >= len(there)
        if had_room:
            self._all_read_ms = self._world.now
        # Spark takes the same part of what there is of each partition.
        if rng.random() < 0.5 and had_room:
            self._others_read = self._started if self._catches_up else self._world.now
        self.watermark = max(self.watermark, self._newest_tick - self._conditions.clock_slack_ms)
        if not self._catches_up:
            self._newest_tick = max(self._newest_tick, self._tick())
        planned = Planned(records, self.watermark, self._world.now, had_room)
        self._planned_ms = planned.at_ms
        if self._refuses(planned) or self._stands_no_more(planned):
            self._begin_soon(planned)
            return
        self._newest_read = max([self._newest_read, *self._times(records)])
        is_due = self.deadline is not None and self.deadline <= self.watermark and not self._stands
        if records or is_due:
            self._run(records, self.watermark)
        else:
            self._world.after(self._pause(), self._next_batch)
        if self._catches_up:
            # Where that took several batches, it looks again at what has come meanwhile.
            self._catches_up = not self._world.is_calm and rng.random() < 0.3
            self._put_right(self._started)
            self._note_outage(GAP_MS if self._catches_up else 0)
            self._note_standstill()

    @property
    def _room(self) -> int | None:
        # What came before it was up is read in full, and in the calm nobody sends as much.
        return None if self._catches_up or self._world.is_calm else self._conditions.room

    def _resumed(self) -> Timekeeper:
        """A new keeper of time, which counts from now on."""
        keeper = Timekeeper(_PACE)
        keeper.ticked(self._started, 0, 0)
        keeper.resume(self._started)
        return keeper

    def _tick(self) -> int:
        """Write the ticks that were due since the last look; the time up to which they let time come."""
        # When time stands still, it does so for this group alone.
        away_since = None if self._stands else self._world.log.away_since
        come_ms = 0
        read = (self._all_read_ms - self._started) // TICK_MS + 1
        for number in range(self._ticks + 1, (self._world.now - self._started) // TICK_MS + 1):
            at_ms = self._started + number * TICK_MS
            unwritten_ms = 0 if away_since is None else max(0, at_ms - away_since)
            come_ms = max(come_ms, self._keeper.coming_ms(at_ms, read, unwritten_ms, is_quiet=False))
            self._keeper.ticked(at_ms, number, 0)
            self._ticks = number
        return come_ms

    # -- standstills -------------------------------------------------------------------------------

    @property
    def _stands(self) -> Standstill | None:
        """The standstill that lasts."""
        newest = self.standstills[-1] if self.standstills else None
        return newest if newest is not None and newest.end_ms is None else None

    def _is_in_doubt(self) -> bool:
        """Whether the log takes no records for too long, or did not until now."""
        log = self._world.log
        if self._stands or self._catches_up:
            return False
        return log.doubted_since is not None if log.stuck_since is None else self._is_silent()

    def _is_silent(self) -> bool:
        stuck_since = self._world.log.stuck_since
        return stuck_since is not None and self._world.now > stuck_since + NOTICED_MS

    def _stands_no_more(self, planned: Planned) -> bool:
        """Whether its records show that the standstill is over."""
        stands = self._stands
        return stands is not None and max(self._times(planned.records), default=0) > stands.start_ms

    def _begin_soon(self, planned: Planned | None = None) -> None:
        self._world.after(self._world.rng.randrange(LONGEST_BEGIN_MS), self._begin, planned)

    def _begin(self, planned: Planned | None = None) -> None:
        """Begin again, with the batch that was planned. Until then is an outage."""
        log, now = self._world.log, self._world.now
        if log.stuck_since is not None and not self._is_silent():
            # It is asked until it is known.
            self._world.after(100, self._begin, planned)
            return
        is_over = log.stuck_since is None or (planned is not None and self._stands_no_more(planned))
        if (stands := self._stands) and is_over:
            self.standstills[-1] = stands._replace(end_ms=max(now, stands.start_ms + 1))
            self._world.note("coordinator", "lets time go on")
        self._know()
        self._catches_up = True
        if planned is None and self._world.rng.random() < 0.1 and not self._world.is_calm:
            self._note_outage()
            self._world.note("coordinator", "crashes before it has noted all")
            self._begin_soon()
            return
        if planned is None:
            self._put_right()
            self._world.after(self._pause(), self._next_batch)
        elif self._refuses(planned) or self._stands_no_more(planned):
            self._begin_soon(planned)
            return
        else:
            self._newest_read = max([self._newest_read, *self._times(planned.records)])
            self._put_right()
        self._newest_tick = 0
        self._note_outage()
        if planned is not None:
            # It is of before the outage. What takes no requests can wait for what is planned next.
            self._run(planned.records, planned.watermark)
        self._note_standstill()

    def _note_standstill(self) -> None:
        log = self._world.log
        log.doubted_since = None
        if self._is_silent() and not self._stands:
            spans = [(it.start_ms, it.end_ms) for it in [*self._outages, *self.standstills] if it.end_ms]
            unread_ms = min(max(self._times(log.records), default=0), self._world.now)
            begin = self._undecided_from(max(self._newest_read, unread_ms, self.watermark), spans)
            self.standstills.append(Standstill(0, begin))
            self._know()
            self._world.note("coordinator", "lets time stand still since {}", begin)

    _undecided_from = staticmethod(undecided_from)

    @property
    def _known(self) -> PartitionOutages:
        return PartitionOutages(self._outages, self.standstills)

    def _know(self) -> None:
        """Tell the oracles which outages there were."""
        self._world.outages[:] = [it for it in self._known.of(KEY) if it.end_ms < LATEST_MS]

    def _times(self, records: list[Record]) -> list[int]:
        """As they count."""
        return [record.timestamp_ms for record in self._shifted(records)]

    def _shifted(self, records: list[Record]) -> list[Record]:
        at = Shifts(self._shifts).at
        return [it._replace(timestamp_ms=it.timestamp_ms + at(it.partition, it.offset)) for it in records]

    def _earlier_ms(self) -> int:
        return 2 * GAP_MS if self._catches_up else DIFFER_MS

    def _refuses(self, planned: Planned) -> bool:
        """Whether a record's time cannot be right; then shifts are noted with which all are."""
        records, watermark, planned_ms, had_room = planned
        outage = self._outages[-1] if self._outages else None
        earlier_ms = self._earlier_ms()
        later_ms = DIFFER_MS + self._conditions.clock_slack_ms
        guard = Guard(0, later_ms, earlier_ms, outage, tuple(self.standstills[-1:]))
        span = guard.span(planned_ms, watermark, 0, had_room=had_room)
        before = self._shifts
        for number in range(self._conditions.partitions):
            times = [(it.offset, it.timestamp_ms) for it in records if it.partition == number]
            end = max(times)[0] + 1 if times else 0
            measured = self._world.log.measured(number)
            right_ms = None if measured is None else measured.shift_ms
            after = fitted(self._shifts, number, times, end, span, DIFFER_MS, right_ms)
            if after is not None:
                self._shifts = after
                self._refused_ms[number] = planned_ms
        if self._shifts is before:
            return False
        self.refusals += 1
        self._world.note("coordinator", "refuses a batch, and notes shifts: {}", self._shifts)
        if not all(map(span.has, self._times(records))):
            raise Violation(f"with {self._shifts} there are still wrong times in {records}")
        return True

    def _finds_clock_off(self) -> bool:
        """Whether a probe shows that requests count as of a wrong time."""
        if self._catches_up or self._stands:
            return False
        shifts = Shifts(self._shifts)
        measured = ((it, self._world.log.measured(it)) for it in range(self._conditions.partitions))
        return any(
            each is not None
            and each.at_ms > self._started
            and is_off(shifts.newest_ms(it), each.shift_ms, DIFFER_MS)
            for it, each in measured
        )

    def _put_right(self, since_ms: int = 0) -> None:
        """Note the shifts of clocks that were measured to be wrong since then."""
        read = self._world.log.records[: self._read]
        for number in range(self._conditions.partitions):
            measured = self._world.log.measured(number)
            # Or else its clock may have jumped since then.
            if (
                measured is not None
                and measured.at_ms > since_ms
                and measured.at_ms >= self._refused_ms.get(number, 0)
                and is_off(Shifts(self._shifts).newest_ms(number), measured.shift_ms, DIFFER_MS)
            ):
                end = max((it.offset + 1 for it in read if it.partition == number), default=0)
                unread = [
                    (it.offset, it.timestamp_ms)
                    for it in self._world.log.records[self._read :]
                    if it.partition == number and it.offset < measured.offset
                ]
                begin = max(end, measured.first_offset(unread, self._planned_ms, DIFFER_MS))
                self._shifts = put_right(self._shifts, number, begin, measured.shift_ms, DIFFER_MS)
        self._refused_ms.clear()

    def _run(self, records: list[Record], watermark: int) -> None:
        self.batches += 1
        if stands := self._stands:
            watermark = min(watermark, stands.start_ms)
        result = self._call_step(self.state, records, watermark)
        self._world.note(
            "coordinator", "runs batch {}: {} records, watermark {}", self.batches, len(records), watermark
        )
        answers = self._world.checks.stepped(self.state, self._shifted(records), watermark, result)
        batch = Batch(self.state, records, watermark, result, answers)
        self._decided.append(batch)
        self._finish_later(batch)

    def replay(self) -> None:
        """Decide all at once, as a replay does: nothing may be decided otherwise."""
        events = (event for batch in self._decided for event in batch.result.events)
        late = late_times(map(msgspec.to_builtins, events))
        records = list(told_late((it for batch in self._decided for it in batch.records), late))
        watermark = max((batch.watermark for batch in self._decided), default=0)
        replayed = self._call_step(None, records, watermark)
        for channel in Channel.RESPONSES, Channel.EVENTS, Channel.REJECTED:
            lived = [it for batch in self._decided for it in batch.result.outputs if it.channel is channel]
            again = [it for it in replayed.outputs if it.channel is channel]
            for number, (one, other) in enumerate(zip_longest(lived, again)):
                if one != other:
                    raise Violation(f"a replay decides otherwise, from {number} on: {other} and not {one}")

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
        outages = self._known.of(KEY)
        return self._step(KEY, state, records, watermark, self._conditions.config, SECRET, outages)

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
        self._draw_crash()
        self._world.note("coordinator", "is back")
        self._begin()

    def _note_outage(self, counts_ms: int = 0) -> None:
        # It may crash again before it has read anything new.
        ends = [it.end_ms or it.start_ms for it in [*self._outages, *self.standstills]]
        begin = max([self._newest_read, self._others_read, self.watermark, *ends]) + counts_ms
        now = self._world.now
        if begin < now:
            self._outages.append(Outage(begin, now))
        if self._catches_up:
            # Time stands still there until all is read that came before.
            self._newest_tick = max(self._newest_tick, self._started if counts_ms else 0)
        else:
            self._newest_tick = now
        self._started = self._all_read_ms = now
        self._begun_with = len(self._world.log.records)
        self._keeper, self._ticks = self._resumed(), 0
        self._know()

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
