"""Brokers' clocks that are wrong: the time that a request counts as.

The leader of a partition stamps requests by its clock. If that clock jumps, or another broker with another
clock becomes the leader, requests seem to come from the past or the future. But time waits for the reader. So
a request that is read now came at most a little before the watermark, and never after its batch was planned.
A `Span` has these two times. An append time between them counts as it is.

One outside of them cannot be right. The request counts as of the plan, and the group notes how much later
that is. Its next requests of that partition are shifted by as much, as long as they are in their spans.
Nobody knows how much of the time since the watermark had passed when the request came. So none of it counts
for any deadline, as in an outage. No member expires early. A dead one expires later, by as much as the batch
took.

Both times are in the plan of a batch. So the same batch decides the same when it runs again. A replay has no
plans: the event `ClockCorrected` tells it.
"""

from __future__ import annotations

from typing import NamedTuple

from group_coordinator.coordinator_state.deadlines import LATEST_MS


class Correction(NamedTuple):
    """The append times of a partition count `shift_ms` later from a request on, for its group.

    `skipped_ms`: so much log time before the request counts for no deadline. None: all since the watermark.
    """

    shift_ms: int
    skipped_ms: int | None = None


class Leeway(NamedTuple):
    """Requests may seem to be `later_ms` after their plan, or `earlier_ms` before the watermark."""

    later_ms: int
    earlier_ms: int


class Span(NamedTuple):
    """The times, in ms of log time, that the requests of a batch can have come at.

    `planned_ms`: when the batch was planned. `until_ms`: when the newest of them came at the latest, if that
    is known: one that seems to have come later counts as of then.
    """

    watermark_ms: int
    earliest_ms: int
    latest_ms: int
    planned_ms: int
    until_ms: int = LATEST_MS

    @classmethod
    def of(
        cls,
        planned_ms: int,
        watermark_ms: int,
        leeway: Leeway,
        until_ms: int = LATEST_MS,
        since_ms: int = LATEST_MS,
    ) -> Span:
        """The span of a batch that was planned at that log time.

        `until_ms`: when the group's partition took requests for the last time, or when a query began that
        reads no further. `since_ms`: the begin of a standstill that is over, if its requests are read now.
        """
        # The watermark is of a tick before the plan. The driver's clock may say something else.
        planned_ms = max(planned_ms, watermark_ms)
        earliest_ms = min(watermark_ms, since_ms) - leeway.earlier_ms
        return cls(watermark_ms, earliest_ms, planned_ms + leeway.later_ms, planned_ms, until_ms)

    def has(self, time_ms: int) -> bool:
        """Whether a request can have come at that time."""
        return self.earliest_ms <= time_ms <= self.latest_ms

    def correction(self, appended_ms: int, shift_ms: int) -> Correction | None:
        """Return how a request counts that would be shifted by `shift_ms`; None if that can be right."""
        # Asked for each request, and nearly always so.
        can_be_right = self.earliest_ms <= appended_ms <= self.latest_ms
        if can_be_right and not shift_ms:
            return None
        # By less than clocks may differ: it was taken for wrong because it was read late.
        is_small = abs(shift_ms) <= self.latest_ms - self.planned_ms and appended_ms >= self.watermark_ms
        if shift_ms and self.has(appended_ms + shift_ms) and not (can_be_right and is_small):
            return None
        if can_be_right:
            # The clock is right again.
            return Correction(0, 0)
        return Correction(min(self.planned_ms, self.until_ms) - appended_ms)
