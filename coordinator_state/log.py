"""The log of a group: its records, in the order in which they count."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

# Not for type checkers only: a record can be decoded.
from group_coordinator.coordinator_state.clocks import Correction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROBE = b'{"probe":true}'
"""The value of a record without a key that is no request: the coordinator looks whether it can be written."""
_PLACE = itemgetter(1, 2)


class Record(NamedTuple):
    """One record of the request topic. `timestamp_ms` is the broker's append time (LogAppendTime).

    The coordinator finds out how it counts, and tells it by events. A replay says so. `late_ms`: the time
    that it counts as, if it was late (`RequestLate`). `correction`: of its broker's clock (`ClockCorrected`).
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    late_ms: int | None = None
    correction: Correction | None = None

    @property
    def is_probe(self) -> bool:
        """Whether it is no request, but a probe."""
        return is_probe(self.key, self.value)

    def __str__(self) -> str:
        """Where it stands in the log."""
        return f"{self.topic}-{self.partition}-{self.offset}"


def is_probe(key: bytes | None, value: bytes | None) -> bool:
    """Whether a record of the request topic is no request, but a probe."""
    return key is None and value == PROBE


def in_log_order(records: Iterable[Record], counts: Callable[[Record], int] | None = None) -> list[Record]:
    """Put the records of one group into log order, because Spark's shuffle mixes them.

    `counts`: the time that a record counts as, if it is not the append time; asked in the order of offsets.

    Producers with the same partitioner keep a group in one partition. Then this is the order of offsets, even
    where a broker's clock was set back in between. Producers with others (librdkafka's default partitioner is
    not Java's) spread a group over partitions, which are merged by append time.
    """
    by_place = sorted(records, key=_PLACE)
    if not by_place or by_place[0].partition == by_place[-1].partition:
        return by_place
    keyed = []
    partition, time = -1, 0
    for record in by_place:
        counts_ms = record.timestamp_ms if counts is None else counts(record)
        time = counts_ms if record.partition != partition else max(time, counts_ms)
        partition = record.partition
        keyed.append((time, partition, record.offset, record))
    keyed.sort(key=lambda entry: entry[:3])
    return [record for *_, record in keyed]
