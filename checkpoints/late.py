"""Late requests: the one thing about the order of requests and time that the request log does not show.

A request may be read when the watermark has passed its append time. Its broker's clock is behind, or a batch
had no room for it. That makes no difference, unless a deadline of its group has passed in between. Then an
event says so (`RequestLate`), and a replay reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.checkpoints.times import counted_times
from group_coordinator.client.events import EventReader
from group_coordinator.coordinator_state.events import RequestLate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from group_coordinator.checkpoints.shifts import Shifts
    from group_coordinator.coordinator_state.log import Record

__all__ = ["LateTimes", "late_times", "read_late_times", "told_late"]

LateTimes = dict[tuple[int, int], int]
"""(partition, offset) of each late request: the time that it counts as, in ms of log time."""

_TAG = RequestLate.__struct_config__.tag
_POLL_MS = 1_000
_LOOKED_AT = 100
"""So many requests at the begin of a partition are looked at. Those that are probes tell no time."""
_DIFFER_MS = 60_000
"""Clocks of brokers may differ by so much: this only decides how much is read."""


def late_times(events: Iterable[Mapping[str, Any]]) -> LateTimes:
    """The late requests of which `events` tell, which are as `docs/contract.md` has them."""
    return {(it["partition"], it["offset"]): it["at_ms"] for it in events if it["event"] == _TAG}


def told_late(records: Iterable[Record], late: LateTimes) -> Iterator[Record]:
    """The records, of which those that are in `late` say so."""
    for record in records:
        late_ms = late.get((record.partition, record.offset))
        yield record if late_ms is None else record._replace(late_ms=late_ms)


def read_late_times(
    client_config: Mapping[str, Any],
    request_topic: str,
    start: Mapping[int, int],
    end: Mapping[int, int],
    events_topic: str,
    shifts: Shifts,
) -> LateTimes:
    """Read the late ones of the requests from `start` to before `end`, by partition, and some others.

    Events come after their requests. So older ones are not read. Raises `KafkaError`.
    """
    begins = {it: start.get(it, 0) for it in end}
    ends = {it: min(begins[it] + _LOOKED_AT, end[it]) for it in end}
    first_ms = min(counted_times(client_config, request_topic, begins, ends, shifts), default=0)
    late: LateTimes = {}
    since_ms = max(first_ms - _DIFFER_MS, 0)
    with EventReader(since_ms=since_ms, events_topic=events_topic, **client_config) as events:
        while not events.has_caught_up:
            late |= late_times(events.poll(_POLL_MS))
    return late
