"""The process that runs `step`: takes batches from the log, keeps the state, crashes and comes back.

As Spark does it: what a batch consists of (its records and its watermark) is fixed before it runs, so a
batch whose commit was lost runs again with just that, from the snapshot before it. The watermark of a batch
is the newest tick of the batches before it, less some slack, and ticks are written only while the process is
up. So nothing that is still to come is earlier than the watermark, but for clocks that are set back, and for
batches that have no room for all there is. Then time goes on by a gap.

When it comes back it notes the outage, in the ledger of a checkpoint that has the plans of batches as Spark
writes them. How far time may come, what does not count and how requests count is decided by the code that the
coordinator runs.

If nobody can read what is appended to the log, time goes on by a gap only. It begins again, and lets time
stand still: whatever is due, nothing is decided. When there is a record again, this was an outage, and it
begins again with that one. If the log has taken records again before that was noted, it begins again as well.
So it does if it has not read all there is for too long.

When it begins it reads all there is first, and what it has read of other groups meanwhile let time pass.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.checkpoints.known import Known
from group_coordinator.checkpoints.late import late_times, told_late
from group_coordinator.checkpoints.ledger import Ledger
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.outages import next_batch, note_begin
from group_coordinator.checkpoints.standing import note_standstills
from group_coordinator.coordinator_state.clocks import Leeway
from group_coordinator.coordinator_state.events import ClockCorrected
from group_coordinator.coordinator_state.layout import UNMEASURED
from group_coordinator.coordinator_state.standstills import PartitionOutages
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.timekeeper import Timekeeper
from tests.simulation.checkpoint import Checkpoint
from tests.simulation.checks import Violation
from tests.simulation.conditions import (
    CALM_BATCH_MS,
    DAY_MS,
    DIFFER_MS,
    GAP_MS,
    KEY,
    LONGEST_BEGIN_MS,
    LONGEST_BEHIND_MS,
    LOOK_BACK_MS,
    NOTICED_MS,
    PROBE_MS,
    SECRET,
    TICK_MS,
)
from tests.simulation.network import TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from group_coordinator.checkpoints.known import OfGroup
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.standstills import Standstill
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
    planned: Planned
    result: StepResult
    answers: list[Answer]


class Planned(NamedTuple):
    """A batch as it is planned, and when, by the clock of the machine that runs it."""

    number: int
    records: list[Record]
    watermark: int
    at_ms: int


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
        self.corrections = 0
        self._files = Checkpoint()
        self._ledger = Ledger.read(self._files)
        self._reached_ms: list[int] = []
        """When each standstill began for the group: a wrong clock may have taken it further."""
        self._ahead_ms = 0
        """How far log time is ahead of this machine's clock."""
        self._catches_up = False
        self._read = 0
        self._ends = [0] * self._conditions.partitions
        """The same in each partition."""
        self._begun_with = 0
        """How many records the log had when the newest query began."""
        self._up_since = world.now
        self._started = world.now
        self._newest_tick = 0
        self._all_read_ms = world.now
        self._keeper = self._resumed()
        self._ticks = 0
        """How many it has written since it has resumed."""
        self._leeway = Leeway(DIFFER_MS + self._conditions.clock_slack_ms, DIFFER_MS)
        self._decided: list[Batch] = []
        """All batches, each once."""
        self._crash_at: int | None = None
        self._committed: deque[Batch] = deque(maxlen=_SNAPSHOTS)
        self._to_run_again: deque[Batch] = deque()
        self._draw_crash()
        self._note_begin()
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
        self.watermark = self._next_watermark
        if not self._catches_up:
            self._newest_tick = max(self._newest_tick, self._tick())
        for record in records:
            self._ends[record.partition] = record.offset + 1
        at_ms = self._world.now - self._ahead_ms
        number = self._files.plan(at_ms, self.watermark, TOPIC, self._ends)
        planned = Planned(number, records, self.watermark, at_ms)
        is_due = self.deadline is not None and self.deadline <= self.watermark and not self._stands
        if records or is_due:
            self._run(planned)
        else:
            self._files.commit(number, self._next_watermark)
            self._world.after(self._pause(), self._next_batch)
        if self._catches_up:
            # Where that took several batches, it looks again at what has come meanwhile.
            self._catches_up = not self._world.is_calm and rng.random() < 0.3
            self._note_begin(GAP_MS if self._catches_up else 0)
            self._note_standstill()

    @property
    def _next_watermark(self) -> int:
        return max(self.watermark, self._newest_tick - self._conditions.clock_slack_ms)

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
    def standstills(self) -> Sequence[Standstill]:
        """All of them."""
        return self._ledger.standstills

    @property
    def _stands(self) -> bool:
        """Whether one lasts."""
        return bool(self._ledger.standing)

    def _is_in_doubt(self) -> bool:
        """Whether the log takes no records for too long, or did not until now."""
        log = self._world.log
        if self._stands or self._catches_up:
            return False
        return log.doubted_since is not None if log.stuck_since is None else self._is_silent()

    def _is_silent(self) -> bool:
        stuck_since = self._world.log.stuck_since
        return stuck_since is not None and self._world.now > stuck_since + NOTICED_MS

    def _begin_soon(self) -> None:
        self._world.after(self._world.rng.randrange(LONGEST_BEGIN_MS), self._begin)

    def _begin(self) -> None:
        """Begin again. Until then is an outage."""
        log, now = self._world.log, self._world.now
        if log.stuck_since is not None and not self._is_silent():
            # It is asked until it is known.
            self._world.after(100, self._begin)
            return
        self._ledger = Ledger.read(self._files)
        if self._stands and log.stuck_since is None:
            self._ledger.end_standstills([0], now, next_batch(newest_planned(self._files)))
            self._world.note("coordinator", "lets time go on")
        self._know()
        self._catches_up = True
        if self._world.rng.random() < 0.1 and not self._world.is_calm:
            self._note_begin()
            self._world.note("coordinator", "crashes before it has noted all")
            self._begin_soon()
            return
        self._world.after(self._pause(), self._next_batch)
        self._newest_tick = 0
        self._note_begin()
        self._note_standstill()

    def _note_standstill(self) -> None:
        log = self._world.log
        log.doubted_since = None
        if self._is_silent() and not self._stands:
            asked_ms = max((log.stuck_since or 0) + PROBE_MS, self._up_since)
            later_ms = self._leeway.later_ms
            note_standstills(
                self._ledger, TOPIC, {0: asked_ms}, self._times, later_ms=later_ms, look_back_ms=LOOK_BACK_MS
            )
            if not self._stands:
                # Nothing was planned before.
                return
            begin = self._ledger.standing[0].start_ms
            decided = self._decided[-1].result.state if self._decided else None
            reached_ms = decode_group(decided).now_ms if decided is not None else 0
            self._reached_ms.append(max(begin, reached_ms))
            self._know()
            self._world.note("coordinator", "lets time stand still since {}", begin)

    def _times(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
        """Offsets and append times, as `append_times` reads them."""
        return {
            partition: [
                (it.offset, it.timestamp_ms)
                for it in self._world.log.records
                if it.partition == partition and begins[partition] <= it.offset < end
            ]
            for partition, end in ends.items()
        }

    def _know(self) -> None:
        """Tell the oracles which outages there were."""
        for it, reached_ms in zip(self.standstills, self._reached_ms, strict=True):
            if it.end_ms is not None and reached_ms > it.start_ms:
                self._world.checks.entered(reached_ms, it.end_ms)
        stood = zip(self.standstills, self._reached_ms, strict=True)
        of_group = [it._replace(start_ms=reached_ms) for it, reached_ms in stood if it.end_ms != reached_ms]
        self._world.outages[:] = PartitionOutages(self._ledger.outages, of_group).of(KEY)

    def _run(self, planned: Planned) -> None:
        self.batches += 1
        known, records = self._known(planned), planned.records
        watermark = known.watermark_ms
        result = self._call_step(self.state, planned)
        self._world.note(
            "coordinator", "runs batch {}: {} records, watermark {}", self.batches, len(records), watermark
        )
        self.corrections += sum(isinstance(it, ClockCorrected) for it in result.events)
        if self.corrections and self._conditions.shows_right_clocks:
            raise Violation("a clock was corrected that is right")
        answers = self._world.checks.stepped(self.state, records, watermark, result, known.span)
        batch = Batch(self.state, planned, result, answers)
        self._decided.append(batch)
        self._finish_later(batch)

    def replay(self) -> None:
        """Decide all at once, as a replay does: nothing may be decided otherwise."""
        forgotten = (batch.before for batch in self._decided if batch.result.state is None)
        if any(decode_group(it).clocks for it in forgotten if it is not None):
            # Nobody knows of it any more that a clock was wrong, nor that it is right again.
            return
        if self._reached_ms != [it.start_ms for it in self.standstills]:
            return
        events = (event for batch in self._decided for event in batch.result.events)
        late = late_times(map(msgspec.to_builtins, events))
        records = list(told_late((it for batch in self._decided for it in batch.planned.records), late))
        watermark = max((self._known(batch.planned).watermark_ms for batch in self._decided), default=0)
        notes = self._ledger.notes
        outages = PartitionOutages(notes.outages, notes.standstills).of(KEY)
        replayed = self._step(KEY, None, records, watermark, self._conditions.config, SECRET, outages)
        for channel in Channel.RESPONSES, Channel.EVENTS, Channel.REJECTED:
            lived = [it for batch in self._decided for it in batch.result.outputs if it.channel is channel]
            again = [it for it in replayed.outputs if it.channel is channel]
            for number, (one, other) in enumerate(zip_longest(lived, again)):
                if one != other:
                    raise Violation(f"a replay decides otherwise, from {number} on: {other} and not {one}")

    def _run_again(self, batch: Batch) -> None:
        self.reruns += 1
        result = self._call_step(batch.before, batch.planned)
        self._world.note("coordinator", "runs a batch again: {} records", len(batch.planned.records))
        if result != batch.result:
            raise Violation(f"a batch that ran again decided otherwise: {result} and not {batch.result}")
        self._finish_later(batch)

    def _call_step(self, state: bytes | None, planned: Planned) -> StepResult:
        known = self._known(planned)
        # Spark gives a group's rows in any order.
        records = self._world.rng.sample(planned.records, len(planned.records))
        return self._step(
            KEY,
            state,
            records,
            known.watermark_ms,
            self._conditions.config,
            SECRET,
            known.outages,
            UNMEASURED,
            known.span,
        )

    def _known(self, planned: Planned) -> OfGroup:
        known = Known(self._ledger.notes, planned.number, 1, self._leeway)
        return known.of(KEY, planned.at_ms, planned.watermark)

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
        self._files.commit(batch.planned.number, self._next_watermark)

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
        self._up_since = self._world.now
        # On any machine.
        self._ahead_ms = self._world.rng.choice([0, self._world.rng.randint(-DAY_MS, DAY_MS)])
        self._draw_crash()
        self._world.note("coordinator", "is back")
        self._begin()

    def _note_begin(self, counts_ms: int = 0) -> None:
        """A query begins. Until now was an outage, if it is not the first one."""
        now = self._world.now
        note_begin(
            self._ledger,
            lambda: (now, self._ahead_ms),
            later_ms=self._leeway.later_ms,
            catches_up=self._catches_up,
            counts_ms=counts_ms,
        )
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
