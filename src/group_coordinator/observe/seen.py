"""The counts of what the query has seen: made on the executors, added up on the driver."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector
from pyspark import AccumulatorParam

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

Seen = Counter[tuple[str, str]]
"""How often something of a kind was seen: (events, records skipped, unreadable or too large, topics without
names; which)."""


class SeenParam(AccumulatorParam[Seen]):
    """Adds up what tasks have seen."""

    def zero(self, value: Seen) -> Seen:  # noqa: ARG002 - as Spark calls it
        """Return nothing seen."""
        return Counter()

    def addInPlace(self, value1: Seen, value2: Seen) -> Seen:  # noqa: N802 - Spark's name
        """Return both together, and leave the first as it is: another thread may be reading it."""
        return value1 + value2


_FROM_THE_START = {
    # The records of a share group, and of one of Streams.
    "skipped_records": {"11": 0, "17": 0},
    "unreadable_records": {"newer version": 0, "damaged": 0},
    "unwritten_records": {"events": 0, "groups": 0, "offsets": 0},
    "unnamed_topics": {"unknown": 0},
}
_SAID_S = 60.0
_MISSED = {
    "unreadable_records": "records that cannot be read",
    "unwritten_records": "records that are too large for their topic",
}


class Missed:
    """Tells people, at most once a minute, of what was seen and could not be told."""

    def __init__(self) -> None:
        self._told: Seen = Counter()
        self._next_s = 0.0

    def look(self, seen: Seen, now_s: float) -> str:
        """Return what has been added since something was told, if it is to be told now; otherwise nothing."""
        if now_s < self._next_s:
            return ""
        missed = Counter({key: count for key, count in seen.items() if key[0] in _MISSED})
        added = missed - self._told
        if added:
            self._told, self._next_s = missed, now_s + _SAID_S
        return ", ".join(f"{count} {_MISSED[what]} ({which})" for (what, which), count in added.items())


class SeenMetrics(Collector):
    """The metrics of what was seen. `seen` returns the counts so far."""

    def __init__(self, seen: Callable[[], Seen]) -> None:
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        """Make the metrics."""
        seen = self._seen()
        for what, label, documentation in (
            ("events", "event", "Events that were told of groups at the brokers."),
            ("skipped_records", "kind", "Records of kinds that are not read, by the number of their kind."),
            (
                "unreadable_records",
                "reason",
                "Records that could not be read: of a newer version, or damaged.",
            ),
            ("unwritten_records", "channel", "Records that were too large for their topic, and left out."),
            ("unnamed_topics", "reason", "How often a topic was told of by its id, for want of its name."),
        ):
            family = CounterMetricFamily(f"group_coordinator_observed_{what}", documentation, labels=[label])
            counts = {name: count for (of, name), count in seen.items() if of == what}
            # An alert cannot see the first of a series that was not there before.
            for name, count in sorted((_FROM_THE_START.get(what, {}) | counts).items()):
                family.add_metric([name], count)
            yield family
