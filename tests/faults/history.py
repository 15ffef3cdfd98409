"""All that a run has left behind: the topics' records, the checkpoint's last batch and the load's notes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from group_coordinator.checkpoints.identity import Identity
from group_coordinator.checkpoints.late import LateTimes, late_times, told_late
from group_coordinator.checkpoints.ledger import FILE, Notes
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.foreign import ForeignJson
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record, is_probe
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.faults.notes import AnyNote
from tests.faults.tables import Rows
from tests.storage.files import Files, files_of
from tests.topics import Reader

__all__ = ["History", "LastBatch", "Written", "collect", "counted_ms", "is_read", "last_batch", "read_topic"]


class Written(NamedTuple):
    """A record that the coordinator has written."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class History(msgspec.Struct, kw_only=True):
    """What the checker looks at. `requests`: all that the coordinator has read, which say how they count.

    Times are in ms.

    `watermark_ms`: log time up to which it has let time pass. `outages`: when there was no coordinator.
    `standstills`: when a request partition took no requests.
    `tables`: the history as it was written, with all that came in between.
    """

    requests: list[Record]
    responses: list[Written]
    events: list[Written]
    groups: list[Written]
    offsets: list[Written]
    rejected: list[Written]
    notes: list[AnyNote]
    watermark_ms: int
    outages: list[Outage]
    config: GroupConfig
    secret: bytes
    layout: Layout = Layout()
    standstills: list[Standstill] = []
    tables: Rows = {}


def is_read(settings: CoordinatorSettings, requests: list[Any]) -> bool:
    """Whether the coordinator has read these records of its topic, and time has passed since the newest."""
    last = last_batch(files_of(settings.checkpoint))
    if last is None:
        return False
    read_to = last.read_to[settings.topics_requests]
    wanted = Counter(record.partition for record in requests)
    if any(read_to[str(partition)] < end for partition, end in wanted.items()):
        return False
    told = _told(read_topic(settings.bootstrap_servers, settings.topics_events))
    return last.watermark_ms > max(counted_ms(_requests_in(requests), told), default=0)


def collect(
    settings: CoordinatorSettings, requests: list[Any], notes: list[AnyNote], tables: Rows
) -> History:
    """The history of a coordinator that has read all of `requests` and stopped."""
    checkpoint = files_of(settings.checkpoint)
    last = last_batch(checkpoint)
    assert last is not None

    def written(topic: str) -> list[Written]:
        records = read_topic(settings.bootstrap_servers, topic)
        return [Written(it.partition, it.offset, it.timestamp, it.key, it.value) for it in records]

    events = written(settings.topics_events)
    noted = _noted(checkpoint)
    return History(
        requests=list(told_late(_requests_in(requests), _told(events))),
        responses=written(settings.topics_responses),
        events=events,
        groups=written(settings.topics_groups),
        offsets=written(settings.topics_offsets),
        rejected=written(settings.topics_rejected),
        notes=notes,
        watermark_ms=last.watermark_ms,
        outages=list(noted.outages),
        standstills=list(noted.standstills),
        config=settings.group,
        layout=Layout(
            request_partitions=settings.requests_partitions,
            response_partitions=settings.responses_partitions,
            state_partitions=settings.state_partitions,
            max_groups=settings.max_groups,
        ),
        secret=_secret(checkpoint),
        tables=tables,
    )


def counted_ms(requests: Iterable[Record], told: LateTimes) -> Iterator[int]:
    """The times that requests count as, in the order of their offsets, whatever their brokers' clocks said.

    A clock that was wrong for a group that is not known is taken to be wrong for its next requests as well.
    """
    shifts_ms: dict[tuple[bytes | None, int], int] = {}
    for record in told_late(requests, told):
        clock = record.key, record.partition
        if record.correction is not None:
            shifts_ms[clock] = record.correction.shift_ms
        counts_ms = record.timestamp_ms + shifts_ms.get(clock, 0)
        yield counts_ms if record.late_ms is None else record.late_ms


def _requests_in(records: list[Any]) -> Iterator[Record]:
    """Without the probes."""
    for it in records:
        if not is_probe(it.key, it.value):
            yield Record(it.topic, it.partition, it.offset, it.timestamp, it.key, it.value)


def _told(events: Iterable[Any]) -> LateTimes:
    """What the events tell of how requests count."""
    return late_times(msgspec.json.decode(it.value or b"") for it in events)


class LastBatch(NamedTuple):
    """The last batch that was finished. `read_to`: topic -> partition -> the next offset to be read."""

    number: int
    read_to: dict[str, dict[str, int]]
    watermark_ms: int


def last_batch(checkpoint: Files) -> LastBatch | None:
    """Read it from Spark's own log of the query."""
    numbers = [int(name) for name in checkpoint.names("commits") if name.isdigit()]
    if not numbers:
        return None
    number = max(numbers)
    _version, metadata, source = _read(checkpoint, f"offsets/{number}").decode().splitlines()
    return LastBatch(number, json.loads(source), json.loads(metadata)["batchWatermarkMs"])


def _secret(checkpoint: Files) -> bytes:
    return msgspec.json.decode(_read(checkpoint, "coordinator.json"), type=Identity).secret.encode()


def _noted(checkpoint: Files) -> Notes:
    """What the coordinator itself has noted about time."""
    return ForeignJson[Notes](Notes).read(checkpoint.read(FILE) or b"{}")


def _read(checkpoint: Files, name: str) -> bytes:
    content = checkpoint.read(name)
    assert content is not None, name
    return content


def read_topic(bootstrap_servers: str, topic: str) -> list[Any]:
    """All of kafka-python's records of a topic, in the order of their partitions and offsets."""
    with Reader({"bootstrap_servers": bootstrap_servers}, topic) as reader:
        return reader.read_to_end()
