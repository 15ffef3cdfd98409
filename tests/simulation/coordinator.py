"""The process that runs `step`: takes batches from the log, keeps the state, crashes and comes back.

As Spark does it: what a batch consists of (its records and its watermark) is fixed before it runs, so a
batch whose commit was lost runs again with just that, from the snapshot before it. The watermark of a batch
is the newest tick of the batches before it, less some slack, and ticks are written only while the process is
up. So nothing that is still to come is earlier than the watermark, but for clocks that are set back, and for
batches that have no room for all there is. Then time goes on by a gap.

When it comes back it notes the outage, in the ledger of a checkpoint that has the plans of batches as Spark
writes them. How far time may come, what does not count and how requests count is decided by the code that the
coordinator runs.

It writes a probe to the log beside each tick. If nobody can read what is appended, the log does not take it.
When the coordinator's own `WriteTimes` say so it begins again, and lets time stand still: whatever is due,
nothing is decided. It begins again when probes are taken again, if it has not read all there is for too long
(`Restarts`), and when its `Timekeeper` says that time comes no more.

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
from group_coordinator.streaming.restarts import Restarts
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.timekeeper import Timekeeper
from group_coordinator.streaming.write_times import WriteTimes
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
    PATIENCE_MS,
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
    from tests.coordinator_state.model_time import Answer
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
        self._is_over = False
        """Whether the query has ended that caught up, and the next one has not begun."""
        self._read = 0
        self._ends = [0] * self._conditions.partitions
        """The same in each partition."""
        self._begun_with = 0
        """How many records the log had when the newest query began."""
        self._resumed_ms = world.now
        self._newest_tick = 0
        """The time of the newest tick that was read."""
        self._all_read_ms = world.now
        """When a batch was planned last that had room for all there was."""
        self._read_ticks = 0
        """How many ticks of the newest clock its query had read then."""
        self._pulse = 0
        """The number of the newest clock."""
        self._ticks = 0
        """How many ticks the newest clock has written."""
        self._come_ms = 0
        """The time that the newest tick lets come."""
        self._leeway = Leeway(DIFFER_MS + self._conditions.clock_slack_ms, DIFFER_MS)
        self._decided: list[Batch] = []
        """All batches, each once."""
        self._crash_at: int | None = None
        self._begin_process()
        self._committed: deque[Batch] = deque(maxlen=_SNAPSHOTS)
        self._to_run_again: deque[Batch] = deque()
        self._begin_clock()
        self._note_begin()
        world.after(self._pause(), self._next_batch)

    # -- batches -----------------------------------------------------------------------------------

    def _next_batch(self) -> None:
        if self._to_run_again:
            self._run_again(self._to_run_again.popleft())
            return
        if self._has_to_begin_again():
            self._begin_soon()
            return
        if self._is_over:
            self._begin_next()
            if self._is_over:
                self._world.after(50, self._next_batch)
                return
        log, rng = self._world.log, self._world.rng
        # A query that catches up reads what the log had when it began, however long other batches took.
        there = log.records[: self._begun_with] if self._catches_up else log.records
        records = there[self._read :][: self._room]
        self._read += len(records)
        had_room = self._read >= len(there)
        if had_room:
            self._all_read_ms = self._world.now
            # What is planned is read before any batch after it.
            self._read_ticks = self._ticks
        self.watermark = self._next_watermark
        self._newest_tick = max(self._newest_tick, self._come_ms)
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
            self._is_over = True
            self._begin_next()

    def _begin_next(self) -> None:
        """Begin the query after one that caught up, if each partition takes requests or stands still."""
        if not self._times.unknown():
            self._is_over = False
            self._note_begin(GAP_MS if self._catches_up else 0)
            self._note_standstill()

    @property
    def _next_watermark(self) -> int:
        return max(self.watermark, self._newest_tick - self._conditions.clock_slack_ms)

    @property
    def _room(self) -> int | None:
        # What came before it was up is read in full, and in the calm nobody sends as much.
        return None if self._catches_up or self._world.is_calm else self._conditions.room

    def _has_to_begin_again(self) -> bool:
        if self._keeper.late is not None:
            return True
        if self._restarts.stalled(0, self._world.now - self._all_read_ms) is not None:
            return True
        # Not each look comes before the next batch.
        is_seen = self._world.rng.random() < 0.5
        return is_seen and None is not self._restarts.changed(
            self._times.silent(), self._times.healed(), self._ahead_ms
        )

    # -- time --------------------------------------------------------------------------------------

    def _begin_process(self) -> None:
        """It knows of no probe yet."""
        self._draw_crash()
        self._times = WriteTimes([0], PATIENCE_MS, self._world.now)
        self._restarts = Restarts(LONGEST_BEHIND_MS, GAP_MS)
        self._is_asked = False

    def _begin_clock(self) -> None:
        self._keeper = Timekeeper(_PACE)
        self._ticks = 0
        self._come_ms = 0
        self._tick(self._pulse)

    def _stop_clock(self) -> None:
        self._pulse += 1

    def _tick(self, pulse: int) -> None:
        """Write a tick, and a probe beside it."""
        if pulse != self._pulse or self._keeper.late is not None:
            return
        now = self._world.now
        if self._ticks:
            unwritten_ms = round(self._times.unwritten_ms(now))
            self._come_ms = self._keeper.coming_ms(now, self._read_ticks, unwritten_ms, is_quiet=False)
        for partition in self._times.due(ticks=True):
            self._times.sent(partition, now)
            self._is_asked = True
        if self._world.log.stuck_since is None:
            self.probe_taken()
        self._keeper.ticked(now, self._ticks, 0)
        self._times.ticked(now)
        self._ticks += 1
        self._world.after(TICK_MS, self._tick, pulse)

    def probe_taken(self) -> None:
        """The log takes the probe that is on its way, if there is one."""
        if self._is_asked:
            self._times.taken(0, self._world.now)
            self._is_asked = False

    # -- standstills -------------------------------------------------------------------------------

    @property
    def standstills(self) -> Sequence[Standstill]:
        """All of them."""
        return self._ledger.notes.standstills

    @property
    def _stands(self) -> bool:
        """Whether one lasts."""
        return bool(self._ledger.standing)

    def _begin_soon(self) -> None:
        self._stop_clock()
        self._world.after(self._world.rng.randrange(LONGEST_BEGIN_MS), self._begin)

    def _begin(self) -> None:
        """Begin again. Until then is an outage."""
        self._ledger = Ledger.read(self._files)
        self._begin_clock()
        self._note_all()

    def _note_all(self) -> None:
        world = self._world
        if self._times.unknown():
            world.after(50, self._note_all)
            return
        if healed := self._times.healed():
            self._ledger.end_standstills(healed, world.now, next_batch(newest_planned(self._files)))
            world.note("coordinator", "lets time go on")
        self._know()
        self._catches_up, self._is_over = True, False
        self._newest_tick = 0
        self._note_begin()
        if world.rng.random() < 0.1 and not world.is_calm:
            world.note("coordinator", "crashes before it has noted all")
            self._begin_process()
            self._begin_soon()
            return
        self._note_standstill()
        world.after(self._pause(), self._next_batch)

    def _note_standstill(self) -> None:
        asked_ms = {partition: round(at_ms) for partition, at_ms in self._times.silent().items()}
        begun = note_standstills(
            self._ledger,
            newest_planned(self._files),
            TOPIC,
            asked_ms,
            self._append_times,
            later_ms=self._leeway.later_ms,
            look_back_ms=LOOK_BACK_MS,
        )
        self._times.begin(self._ledger.standing)
        if begun:
            begin = self._ledger.standing[0].start_ms
            decided = self._decided[-1].result.state if self._decided else None
            reached_ms = decode_group(decided).now_ms if decided is not None else 0
            self._reached_ms.append(max(begin, reached_ms))
            self._know()
            self._world.note("coordinator", "lets time stand still since {}", begin)

    def _append_times(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, list[int]]:
        """Append times, as `append_times` reads them."""
        return {
            partition: [
                it.timestamp_ms
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
        self._world.outages[:] = PartitionOutages(self._ledger.notes.outages, of_group).of(KEY)

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
        self._stop_clock()
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
        # On any machine.
        self._ahead_ms = self._world.rng.choice([0, self._world.rng.randint(-DAY_MS, DAY_MS)])
        self._begin_process()
        self._world.note("coordinator", "is back")
        self._begin()

    def _note_begin(self, counts_ms: int = 0) -> None:
        """A query begins. Until now was an outage, if it is not the first one."""
        now = self._world.now
        note_begin(
            self._ledger,
            newest_planned(self._files),
            now,
            self._ahead_ms,
            later_ms=self._leeway.later_ms,
            catches_up=self._catches_up,
            counts_ms=counts_ms,
        )
        if self._catches_up:
            # Time stands still there until all is read that came before.
            self._keeper.hold(self._resumed_ms if counts_ms else 0)
        else:
            self._keeper.resume(now)
        self._restarts.begins(catches_up=self._catches_up, ahead_ms=self._ahead_ms)
        self._resumed_ms = self._all_read_ms = now
        self._read_ticks = 0
        self._begun_with = len(self._world.log.records)
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
