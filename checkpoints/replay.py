"""A part of the request log, run through the protocol core again, without Spark and without an answer."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.standstills import NO_PARTITION_OUTAGES
from group_coordinator.coordinator_state.step import Channel, step
from group_coordinator.coordinator_state.stored import decode_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.layout import Layout
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.standstills import PartitionOutages

_RECORDS = 1_000


def replay(
    records: Iterable[Record],
    groups: Mapping[bytes | None, bytes],
    config: GroupConfig,
    secret: bytes,
    until_ms: int | None = None,
    outages: PartitionOutages = NO_PARTITION_OUTAGES,
    *,
    layout: Layout,
) -> Iterator[bytes]:
    """Yield the events that `records` cause in `groups` (stored groups by record key), as JSON.

    Events of one group are in their order. After the last record, time goes on to `until_ms`, so what is due
    by then happens; None: to the newest record. With the configuration, secret, outages and layout of the
    live run, the events are those of the live run.
    """
    stored: dict[bytes | None, bytes | None] = dict(groups)
    newest_ms = 0
    counted = _Counted(groups)

    def decide(key: bytes | None, of_key: list[Record], time_ms: int) -> Iterator[bytes]:
        time_ms = outages.reached_ms(key, time_ms)
        result = step(key, stored.get(key), of_key, time_ms, config, secret, outages.of(key), layout)
        stored[key] = result.state
        for output in result.outputs:
            if output.channel is Channel.EVENTS and output.value is not None:
                yield output.value

    remaining = iter(records)
    # How the log is cut does not matter to what is decided: so it need not fit into memory.
    while part := list(islice(remaining, _RECORDS)):
        by_key: defaultdict[bytes | None, list[Record]] = defaultdict(list)
        for record in part:
            by_key[record.key].append(record)
            newest_ms = max(newest_ms, counted.at_ms(record))
        for key, of_key in by_key.items():
            yield from decide(key, of_key, 0)
    for key in list(stored):
        if stored[key] is not None:
            yield from decide(key, [], newest_ms if until_ms is None else until_ms)


class _Counted:
    """The times that records count as, as far as that is told. `groups`: as they were before."""

    def __init__(self, groups: Mapping[bytes | None, bytes]) -> None:
        self._groups = groups
        self._shifts_ms: dict[bytes | None, dict[int, int]] = {}

    def at_ms(self, record: Record) -> int:
        """The time of the next record."""
        shifts_ms = self._shifts_ms.get(record.key)
        if shifts_ms is None:
            stored = self._groups.get(record.key)
            shifts_ms = {} if stored is None else dict(decode_group(stored).clocks)
            self._shifts_ms[record.key] = shifts_ms
        if record.correction is not None:
            shifts_ms[record.partition] = record.correction.shift_ms
        if record.late_ms is not None:
            return record.late_ms
        return record.timestamp_ms + shifts_ms.get(record.partition, 0)
