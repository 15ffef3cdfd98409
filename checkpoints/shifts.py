"""Shifts: how the append times of a request partition count while its leader's clock is off.

Each partition's leader stamps its records by a clock of its own. If that clock jumps, or another broker with
another clock becomes the leader, its requests seem to come from the future or from the past. Members of their
groups would expire. So the stateful function refuses records whose times cannot be right, by `Guard`. The
supervision notes a shift, and the batch runs again. Probes have shown how large it has to be, or else the
record counts as of now. From that record on, the shift is added to the append times of the partition. Once
the clock is right, the guard refuses the records that are shifted, and a shift of 0 is noted.

A clock that is set back by little makes no record that cannot be right, but probes find it out (`is_off`).
Then the query restarts, and a shift is noted for the records that this clock has stamped and no batch has
read.

A record that is not refused counts as it did before. So the same log with the same outages and shifts gives
the same decisions. The checkpoint keeps the shifts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from group_coordinator.coordinator_state.outages import Outage
    from group_coordinator.coordinator_state.standstills import Standstill

__all__ = [
    "CLOCK_JUMPED",
    "NO_SHIFTS",
    "ClockJumpedError",
    "Guard",
    "Measured",
    "Shift",
    "Shifts",
    "Span",
    "fitted",
    "is_off",
    "put_right",
]

CLOCK_JUMPED = "[CLOCK_JUMPED]"
"""The condition in the error that ends a query whose guard has refused a record."""


class ClockJumpedError(Exception):
    """A record's time cannot be right; the message has `CLOCK_JUMPED` and the record's place."""


class Shift(NamedTuple):
    """Append times of a partition count as `shift_ms` later, from `first_offset` on.

    It holds until the next shift of that partition.
    """

    partition: int
    first_offset: int
    shift_ms: int


class Shifts:
    """All shifts that are known, in the order of their offsets."""

    def __init__(self, shifts: Iterable[Shift] = ()) -> None:
        self._places: dict[int, tuple[list[int], list[int]]] = {}
        for partition, first_offset, shift_ms in sorted(shifts):
            offsets, all_ms = self._places.setdefault(partition, ([], []))
            offsets.append(first_offset)
            all_ms.append(shift_ms)

    def at(self, partition: int, offset: int) -> int:
        """Return how many ms later than its append time this record counts."""
        if (places := self._places.get(partition)) is None:
            return 0
        offsets, all_ms = places
        before = bisect_right(offsets, offset)
        return all_ms[before - 1] if before else 0

    def newest_ms(self, partition: int) -> int:
        """Return the shift that holds for what the partition takes now."""
        places = self._places.get(partition)
        return places[1][-1] if places is not None else 0

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._places)


NO_SHIFTS = Shifts()


class Measured(NamedTuple):
    """The clock of a partition's leader was ahead by `ahead_ms` at log time `at_ms`, as a probe has shown.

    `offset`: of the first probe that has shown the same. It was sent at log time `since_ms`.
    """

    ahead_ms: float
    at_ms: float
    offset: int
    since_ms: float

    @property
    def shift_ms(self) -> int:
        """The shift that would be right."""
        return -round(self.ahead_ms)

    def after(self, before: Measured | None, same_ms: float) -> Measured:
        """Return the same with the first probe of `before`, if that has shown a clock within `same_ms`."""
        if before is None or abs(before.ahead_ms - self.ahead_ms) >= same_ms:
            return self
        return self._replace(offset=before.offset, since_ms=before.since_ms)

    def first_offset(self, times: Sequence[tuple[int, int]], planned_ms: float, differ_ms: int) -> int:
        """Return the first offset that this clock has stamped, as far as it can be told.

        `times`: offset and append time of the requests that came after a batch was planned, at log time
        `planned_ms`, and before the first probe. `differ_ms`: by how much clocks may differ.
        """
        first, next_ms = self.offset, self.since_ms + self.ahead_ms
        earliest_ms = planned_ms + self.ahead_ms - differ_ms
        for offset, time_ms in reversed(times):
            # By this clock it would have come before the plan, or after the next one.
            if not earliest_ms <= time_ms <= next_ms + differ_ms:
                break
            first, next_ms = offset, time_ms
        return first


class Span(NamedTuple):
    """The times, in ms of log time, that records of a batch can have.

    `now_ms`: when it was planned. `newest_ms`: when the newest of a partition came, as far as anybody knows.
    """

    now_ms: float
    earliest_ms: float
    latest_ms: float
    newest_ms: float

    def has(self, time_ms: int) -> bool:
        """Whether a record can be of that time."""
        return self.earliest_ms <= time_ms <= self.latest_ms

    def shows_jump(self, time_ms: int, next_ms: int, differ_ms: int) -> bool:
        """Whether a clock has jumped between two records of the batch, by their append times."""
        return not -differ_ms <= next_ms - time_ms <= self.now_ms - self.earliest_ms


class Guard(NamedTuple):
    """The rule for which times of records can be right.

    None is later than the log time at which its batch was planned. Time waits for the reader, so none is much
    earlier than the watermark, not even while a backlog is read. Clocks may differ by a little. The plan of a
    batch has the time by the driver's clock.

    Args:
        ahead_ms: how far log time is ahead of the driver's clock.
        later_ms: by how much a record may be later.
        earlier_ms: by how much it may be earlier.
        outage: the newest. Requests that came in it may still be unread after it.
        standstills: the newest of each partition. Requests that came in one are read when it is over.
    """

    ahead_ms: int
    later_ms: int
    earlier_ms: int
    outage: Outage | None = None
    standstills: tuple[Standstill, ...] = ()

    def span(self, planned_ms: int, watermark_ms: int, partition: int, *, had_room: bool = True) -> Span:
        """The times that are right in a partition of a batch planned then, by the driver's clock.

        `had_room`: whether it has all records that there were. Or else they may have waited for long. Time
        has waited for them, so the watermark says when they came.
        """
        # The watermark is of a tick before the plan. Log time that is ahead of the driver's clock stands
        # while the query restarts, and that clock goes on. So the plan may seem to be before the watermark.
        now_ms = max(planned_ms + self.ahead_ms, watermark_ms)
        earliest_ms = watermark_ms - self.earlier_ms
        over: list[Outage | Standstill] = [it for it in self.standstills if it.partition == partition]
        if self.outage is not None:
            over.append(self.outage)
        # They count as of its end.
        starts = [it.start_ms for it in over if it.end_ms is None or it.end_ms >= earliest_ms]
        earliest_ms = min([earliest_ms, *(it - self.earlier_ms for it in starts)])
        return Span(now_ms, earliest_ms, now_ms + self.later_ms, now_ms if had_room else watermark_ms)


def fitted(
    shifts: list[Shift],
    partition: int,
    times: Sequence[tuple[int, int]],
    end: int,
    span: Span,
    differ_ms: int,
    measured_ms: int | None = None,
) -> list[Shift] | None:
    """All shifts, the new ones last, with which a batch's records of a partition are in `span`.

    None if they are with `shifts`. A record that is counts as before, because a group that has only such
    records may have been answered. `times`: offset and append time of each, in their order. `end`: the batch
    ends before that offset. `differ_ms`: by how much clocks may differ. `measured_ms`: the shift that would
    be right for what the partition takes now.
    """
    before = Shifts(shifts)
    counted: list[Shift] = []
    refused_ms: int | None = None
    # No record came in later than the one after it, and the newest just before the batch was planned. But if
    # many are too old, because nobody saw them for a while, each would need a shift of its own that way.
    # That is only done for those of one clock, and if they are too many to be before the one after them.
    until_ms = span.now_ms
    middle_ms = (span.earliest_ms + span.now_ms) / 2
    after_ms = None
    counts = [time_ms + before.at(partition, offset) for offset, time_ms in times]
    behind_ms = None if measured_ms is not None else _behind_ms(counts, span, differ_ms)
    lasted = reversed(_lasted_ms(times, span, differ_ms))
    for (offset, time_ms), lasted_ms in zip(reversed(times), lasted, strict=True):
        shift_ms = before.at(partition, offset)
        if not span.has(time_ms + shift_ms):
            newest_ms = max(until_ms, middle_ms)
            if after_ms is not None and span.shows_jump(time_ms, after_ms, differ_ms):
                newest_ms = max(until_ms, min(middle_ms, span.earliest_ms + lasted_ms))
            fitting = span._replace(latest_ms=newest_ms + differ_ms)
            if refused_ms is None or not fitting.has(time_ms + refused_ms):
                # A clock that can be right is right. Or else it is the one that was measured, if it can be.
                # A clock that nobody has measured may differ a little from the one that was.
                near_ms = None if behind_ms is None else shift_ms + behind_ms
                candidates = (0, measured_ms, near_ms)
                known = [it for it in candidates if it is not None and fitting.has(time_ms + it)]
                refused_ms = known[0] if known else round(min(newest_ms, span.newest_ms)) - time_ms
            shift_ms = refused_ms
        until_ms, after_ms = min(until_ms, time_ms + shift_ms), time_ms
        counted.append(Shift(partition, offset, shift_ms))
    if refused_ms is None:
        return None
    first, newest = counted[-1], counted[0]
    last_refused_ms = next(it.shift_ms for it in counted if it.shift_ms != before.at(*it[:2]))
    if newest.shift_ms != last_refused_ms and span.has(times[-1][1] + last_refused_ms):
        # The newest fit, but hardly: the next ones would not.
        counted.insert(0, Shift(partition, end, last_refused_ms))
    noted_ms = before.at(partition, first.first_offset - 1)
    # A run of this batch that was refused may have noted some, and the batch before it one at its end.
    after = [it for it in shifts if it.partition != partition or it.first_offset < first.first_offset]
    for each in reversed(counted):
        if each.shift_ms != noted_ms:
            after.append(each)
            noted_ms = each.shift_ms
    return after


def _behind_ms(counts: Sequence[int], span: Span, differ_ms: int) -> int | None:
    """By how much a clock is behind at least, if it has not jumped: no more than clocks may differ.

    None where "now" says more: when records did not have to wait, they have just come. `counts`: the times
    of a partition's records as they count, in ms.
    """
    behind_ms = math.ceil(span.earliest_ms) - min(counts, default=0)
    return behind_ms if span.newest_ms < span.now_ms and 0 < behind_ms <= differ_ms else None


def _lasted_ms(times: Sequence[tuple[int, int]], span: Span, differ_ms: int) -> list[int]:
    """For how long each record's clock had not jumped, as far as the records before it show that."""
    lasted_ms, first_ms, before_ms = [], 0, None
    for _, time_ms in times:
        if before_ms is None or span.shows_jump(before_ms, time_ms, differ_ms):
            first_ms = time_ms
        lasted_ms.append(max(time_ms - first_ms, 0))
        before_ms = time_ms
    return lasted_ms


def is_off(shift_ms: int, measured_ms: int, differ_ms: int) -> bool:
    """Whether what a partition takes counts as of a wrong time.

    The guard does not see a clock that is set back by less than time may be ahead of the reader. `shift_ms`:
    the shift that holds. `measured_ms`: the one that would be right. `differ_ms`: by how much clocks may
    differ.
    """
    return abs(measured_ms - shift_ms) > differ_ms


def put_right(
    shifts: list[Shift], partition: int, begin: int, measured_ms: int, differ_ms: int
) -> list[Shift]:
    """All shifts, the last of which is right for what a partition takes now, from the offset `begin` on.

    Nothing may have been decided of what comes after that. A clock that can be right is right.
    """
    right = Shift(partition, begin, measured_ms if is_off(0, measured_ms, differ_ms) else 0)
    return [*(it for it in shifts if it.partition != partition or it.first_offset < begin), right]
