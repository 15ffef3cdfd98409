"""Counting on the executors, adding up on the driver: a Spark accumulator over `collections.Counter`."""

from __future__ import annotations

from collections import Counter

from pyspark import AccumulatorParam

__all__ = ["CountsParam"]

Counts = Counter[tuple[str, str, str]]


class CountsParam(AccumulatorParam[Counts]):
    """Adds counters. A task that is tried again counts again: these are figures for people."""

    def zero(self, value: Counts) -> Counts:  # noqa: ARG002 - Spark's signature
        """Nothing counted."""
        return Counter()

    def addInPlace(self, value1: Counts, value2: Counts) -> Counts:  # noqa: N802 - Spark's name
        """Add `value2` to `value1`."""
        # For few entries, as there are for each group of a batch, half of what `update` takes.
        for what, count in value2.items():
            value1[what] += count
        return value1
