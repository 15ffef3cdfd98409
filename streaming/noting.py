"""All that the ledger has to say before a query begins: the outage that is over, and what stands still."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.checkpoints.ledger import Ledger, Notes
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.outages import next_batch, note_begin
from group_coordinator.checkpoints.standing import note_standstills
from group_coordinator.checkpoints.times import append_times
from group_coordinator.jobs.kafka_config import python_client_config

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from group_coordinator.checkpoints.files import CheckpointFiles
    from group_coordinator.streaming.clock import Clock
    from group_coordinator.streaming.group_limit import GroupLimit
    from group_coordinator.streaming.metrics import JobMetrics
    from group_coordinator.streaming.settings import CoordinatorSettings


class Reading(NamedTuple):
    """The way in which a query reads.

    `catches_up`: it ends with what the log has when it begins. `runs_again`: the batch comes first that is
    planned and not committed. `counts_ms`: how much of the time before it counts for deadlines. `read_ms`: up
    to which time all requests were read; deadlines that are due later wait until all are.
    """

    catches_up: bool = True
    runs_again: bool = False
    counts_ms: int = 0
    read_ms: int = 0


class Noting:
    """Notes it in the ledger of a checkpoint, and tells people."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        files: CheckpointFiles,
        limit: GroupLimit,
        metrics: JobMetrics,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._files = files
        self._limit = limit
        self._metrics = metrics
        self._say = say
        self.ledger = Ledger(files, Notes())
        self.resumed_ms = 0
        """The end of the newest outage."""

    def read(self) -> None:
        """Read the ledger again: another coordinator may have noted something since this one did."""
        self.ledger = Ledger.read(self._files)

    def end_standstills(self, healed: Collection[int], clock: Clock) -> None:
        """Note that these partitions take requests again, before anything of their groups is decided."""
        if not healed:
            return
        batch = next_batch(newest_planned(self._files))
        for it in self.ledger.end_standstills(healed, clock.now_ms, batch):
            took_ms = (it.end_ms or it.start_ms) - it.start_ms
            self._say(f"request partition {it.partition} takes requests again, after {took_ms / 1000:.1f} s")

    def begin(self, reading: Reading, asked_ms: Mapping[int, int], clock: Clock) -> int:
        """Note that a query begins, and what has passed until now as an outage.

        `asked_ms`: the partitions that take no requests, and since when each was asked, in log time. Returns
        how far log time is ahead of the driver's clock.
        """
        planned = newest_planned(self._files)
        # As late as can be: all that takes its time before belongs to the outage. A query that begins long
        # after the clock has stopped would plan a batch without knowing of the time since.
        self.resumed_ms = clock.hold(reading.read_ms) if reading.catches_up else clock.resume()
        ahead_ms = clock.ahead_of_driver_ms
        note_begin(
            self.ledger,
            planned,
            self.resumed_ms,
            ahead_ms,
            later_ms=self._settings.leeway.later_ms,
            catches_up=reading.catches_up,
            counts_ms=reading.counts_ms,
            closed=self._limit.is_closed,
        )
        outages = self.ledger.notes.outages
        self._limit.is_closed = bool(outages) and outages[-1].closed
        self._metrics.closed.set(self._limit.is_closed)
        if outages and outages[-1].end_ms == self.resumed_ms:
            goes_on = not reading.catches_up or reading.counts_ms > 0
            self._metrics.outage(outages[-1], is_longer=goes_on)
        topic = self._settings.topics_requests
        config = python_client_config(self._settings.bootstrap_servers, self._settings.kafka)
        for partition in note_standstills(
            self.ledger,
            planned,
            topic,
            asked_ms,
            partial(append_times, config, topic),
            later_ms=self._settings.leeway.later_ms,
            look_back_ms=self._settings.look_back_ms,
        ):
            self._say(f"request partition {partition} takes no requests: time stands still for its groups")
        self._metrics.standing.set(len(self.ledger.standing))
        return ahead_ms
