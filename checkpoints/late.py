"""Late requests: the one thing about the order of requests and time that the request log does not show.

A request may be read when the watermark has passed its append time. Its broker's clock is behind, or a batch
had no room for it. That makes no difference, unless a deadline of its group has passed in between. Then an
event says so (`RequestLate`), and a replay reads it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from group_coordinator.checkpoints.times import append_times
from group_coordinator.client.events import EventReader
from group_coordinator.coordinator_state.clocks import Correction
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.events import ClockCorrected, RequestLate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from group_coordinator.coordinator_state.log import Record

LateTimes = dict[tuple[int, int], dict[str, Any]]
"""(partition, offset) of each such request: the fields of `Record` that say how it counts."""

_LATE = RequestLate.__struct_config__.tag
_TOLD = frozenset({_LATE, ClockCorrected.__struct_config__.tag})
_POLL_MS = 1_000
_LOOKED_AT = 100
"""So many requests at the begin of a partition are looked at. Those that are probes tell no time."""
_DIFFER_MS = 60_000
"""Clocks of brokers may differ by so much: this only decides how much is read."""


def late_times(events: Iterable[Mapping[str, Any]]) -> LateTimes:
    """The late requests of which `events` tell, which are as `docs/contract.md` has them."""
    late: LateTimes = {}
    for it in events:
        if it["event"] not in _TOLD:
            continue
        told = late.setdefault((it["partition"], it["offset"]), {})
        if it["event"] == _LATE:
            told["late_ms"] = it["at_ms"]
        else:
            told["correction"] = Correction(it["shift_ms"], it["skipped_ms"])
    return late


def told_late(records: Iterable[Record], late: LateTimes) -> Iterator[Record]:
    """The records, of which those that are in `late` say so."""
    for record in records:
        told = late.get((record.partition, record.offset))
        yield record if told is None else record._replace(**told)


def read_late_times(
    client_config: Mapping[str, Any],
    request_topic: str,
    start: Mapping[int, int],
    end: Mapping[int, int],
    events_topic: str,
    since_ms: int = LATEST_MS,
) -> LateTimes:
    """Read the late ones of the requests from `start` to before `end`, by partition, and some others.

    Events come after their requests. So older ones are not read. `since_ms`: the requests came after it, if
    that is known; their own times may be wrong. Raises `KafkaError`.
    """
    begins = {it: start.get(it, 0) for it in end}
    ends = {it: min(begins[it] + _LOOKED_AT, end[it]) for it in end}
    times = append_times(client_config, request_topic, begins, ends).values()
    first_ms = min(chain.from_iterable(times), default=0)
    since_ms = max(min(first_ms, since_ms) - _DIFFER_MS, 0)
    told: list[Mapping[str, Any]] = []
    with EventReader(since_ms=since_ms, events_topic=events_topic, **client_config) as events:
        while not events.has_caught_up:
            told += [it for it in events.poll(_POLL_MS) if it["event"] in _TOLD]
    return late_times(told)
