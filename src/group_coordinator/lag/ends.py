"""The end of a partition's log over time, and when it has passed an offset."""

from __future__ import annotations

from typing import NamedTuple

_MOST = 240
"""Samples that are kept: an hour at one each 15 s, and longer with gaps that grow."""


class Passed(NamedTuple):
    """The time at which a record was written, in ms. `error_ms`: by how much that may be wrong at most.

    `is_at_least`: it was written before the first sample, nobody knows how long.
    """

    at_ms: int
    error_ms: int
    is_at_least: bool = False


class _Sample(NamedTuple):
    at_ms: int
    end: int


class Ends:
    """Samples of the end of one partition's log. Times in ms, in the order in which they are added.

    Between two samples the log is taken to grow evenly, as kafka-lag-exporter does. While it does not grow
    the first and the last sample are kept. So a record that ends a pause is not taken for one written in it.
    """

    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    @property
    def newest(self) -> int | None:
        """The end at the last sample."""
        return self._samples[-1].end if self._samples else None

    def add(self, at_ms: int, end: int) -> None:
        """Add a sample. An end that has gone back is that of another log: the topic was made again."""
        samples = self._samples
        if samples and end < samples[-1].end:
            samples.clear()
        if len(samples) > 1 and samples[-1].end == samples[-2].end == end:
            samples[-1] = _Sample(at_ms, end)
            return
        samples.append(_Sample(at_ms, end))
        if len(samples) > _MOST:
            # The older half is thinned out, and what is older still has been before.
            samples[1 : _MOST // 2] = samples[2 : _MOST // 2 : 2]

    def passed(self, offset: int) -> Passed | None:
        """Tell when the record at `offset` was written; None if there is none yet."""
        samples = self._samples
        if not samples or offset >= samples[-1].end:
            return None
        if offset < samples[0].end:
            return Passed(samples[0].at_ms, 0, is_at_least=True)
        before, after = next(
            (one, other)
            for one, other in zip(reversed(samples[:-1]), reversed(samples[1:]), strict=True)
            if one.end <= offset
        )
        span_ms = after.at_ms - before.at_ms
        # The record at `offset` makes the end `offset + 1`.
        share = (offset + 1 - before.end) / (after.end - before.end)
        at_ms = before.at_ms + round(span_ms * share)
        return Passed(at_ms, max(at_ms - before.at_ms, after.at_ms - at_ms))
