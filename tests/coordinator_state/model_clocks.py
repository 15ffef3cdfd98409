"""The part of the model that is about time: what does not count, and clocks of brokers that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.outages import Outage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from group_coordinator.coordinator_state.events import AnyEvent, ClockCorrected
    from group_coordinator.coordinator_state.log import Record

__all__ = ["ClocksModel"]


class ClocksModel:
    """Learns from events how requests count."""

    def __init__(self) -> None:
        self.shifts: dict[int, int] = {}
        """By how much append times count later, by request partition."""
        self.until_ms = LATEST_MS
        """When the newest request came at the latest, whatever clocks say."""
        self.told_late: tuple[int, int, int] | None = None
        """The partition, offset and append time of the newest request that was late."""
        self.entered: set[tuple[int, ...]] = set()
        """Outages in which the group was found to be: they begin with its time."""
        self._skipped: list[tuple[int, int]] = []
        self._corrections: dict[tuple[int, int], ClockCorrected] = {}

    def learn(self, events: Iterable[AnyEvent], kind: type[ClockCorrected]) -> None:
        """Take in what was told in a call."""
        self._corrections = {(it.partition, it.offset): it for it in events if isinstance(it, kind)}

    def forget(self) -> None:
        """Forget what a group knew that is no longer known: the next one of that name has its own time."""
        self.shifts.clear()
        self._skipped.clear()

    def correction(self, record: Record) -> ClockCorrected | None:
        """What was told of this record, if anything was."""
        corrected = self._corrections.get((record.partition, record.offset))
        if corrected is not None:
            assert (corrected.appended_ms, corrected.skipped_ms >= 0) == (record.timestamp_ms, True)
            self._skipped.append((corrected.at_ms - corrected.skipped_ms, corrected.at_ms))
        return corrected

    def down(self, outages: Iterable[Outage]) -> Iterator[Outage]:
        """The log time that does not count, without overlaps."""
        until_ms = 0
        for start_ms, end_ms in sorted([*((it.start_ms, it.end_ms) for it in outages), *self._skipped]):
            if end_ms > max(start_ms, until_ms):
                yield Outage(max(start_ms, until_ms), end_ms)
                until_ms = end_ms
