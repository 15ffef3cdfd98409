"""Topics and tables with groups in them that have much to tell, and names that are meant to do harm."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from group_coordinator.client.lag_log import MeasuredPartition, MeasuredTopic, Measurement
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.history.rows import read_event, time_of
from tests.coordinator_state.scenario import Scenario
from tests.history.plain import write_plain_tables
from tests.history.scripts import bodies
from tests.history.stories import Fleet, an_hour
from tests.patience import PATIENCE_S

SCRIPT = "<script>window.harmed=1</script>"
IMAGE = '"><img src=x onerror="window.harmed=2">'
BREAKOUT = "</title></style></svg><svg onload=window.harmed=3>"
HOSTILE_GROUP = f"a/b c%2F?&#é漢 {SCRIPT}'\"\\"


def hostile_hour() -> Scenario:
    """Three members whose names would be scripts, and whose reasons are no better; one of them dies."""
    fleet = Fleet("14:02:10")
    fleet.s.static(BREAKOUT)
    for client in (SCRIPT, IMAGE, BREAKOUT):
        fleet.joins(client, reason=f"{IMAGE}\x00\u202e")
    fleet.settles()
    fleet.at("14:20:00")
    fleet.dies(IMAGE)
    fleet.at("14:20:30")
    fleet.settles()
    fleet.at("14:30:00")
    return fleet.s


def pictures(s: Scenario) -> list[bytes]:
    """The newest picture of the group, if there is one."""
    values = [output.value for output in s.outputs if output.channel is Channel.GROUPS]
    return [values[-1]] if values and values[-1] is not None else []


def moved(records: Iterable[bytes], group_id: str, by_ms: int) -> list[bytes]:
    """The same of another group, at another time."""
    found = []
    for record in records:
        fields = msgspec.json.decode(record)
        fields["group_id"] = group_id
        if "event_id" in fields:
            fields["event_id"] = f"{group_id}/{fields['event_id']}"
        for name in ("at_ms", "state_timestamp_ms"):
            if name in fields:
                fields[name] += by_ms
        found.append(msgspec.json.encode(fields))
    return found


TOPICS = ("requests", "responses", "groups", "events", "clock", "lag", "work")
LATER_MS = 3_600_000
"""The next measurement is due so much later: the newest is fresh for as long as a test looks at it."""


def lag_of(group_id: str, topic: str, now_ms: int) -> list[Measurement]:
    """An hour in which the group falls behind from 5:00 to 50:00, and measuring stands still for a while.

    In the end it is as far behind as `served` makes it.
    """
    found = []
    for number in range(241):
        at_ms = now_ms - (240 - number) * 15_000
        records = 0 if number < 20 else min(number - 20, 180) * 6 + (number % 7) * 20
        if 100 <= number < 120:
            continue
        is_last = number == 240
        partition = MeasuredPartition(
            partition_index=1,
            committed_offset=6,
            log_end_offset=1_240 if is_last else 6 + records,
            age_ms=(number - 20) * 10_000 if records else 0,
            error_ms=7_500,
            at_least=False,
            status="stopped" if is_last else "ok",
        )
        found.append(
            Measurement(
                group_id=group_id,
                measured_timestamp_ms=at_ms,
                interval_ms=LATER_MS if is_last else 15_000,
                records=partition.records,
                age_ms=partition.age_ms,
                error_ms=7_500,
                at_least=False,
                trend="growing",
                clear_in_ms=None,
                topics=[MeasuredTopic(topic, [partition])],
            )
        )
    return found


class Filled:
    """Groups, whose stories end just before `now_ms`."""

    def __init__(self, now_ms: int) -> None:
        self.events: dict[str, list[bytes]] = {}
        self.pictures: dict[str, list[bytes]] = {}
        self.states: dict[str, bytes] = {}
        """As the coordinator has them, at `at_ms`."""
        self.at_ms = 0
        self.now_ms = now_ms
        self._add("billing", an_hour().s, now_ms)
        self._add(HOSTILE_GROUP, hostile_hour(), now_ms)

    def _add(self, group_id: str, s: Scenario, now_ms: int) -> None:
        by_ms = now_ms - s.now - 1_000
        self.events[group_id] = moved(bodies(s), group_id, by_ms)
        self.pictures[group_id] = moved(pictures(s), group_id, by_ms)
        if s.state is not None:
            self.states[group_id] = s.state
        self.at_ms = max(self.at_ms, s.now)

    def write_topics(self, bootstrap_servers: str, prefix: str) -> dict[str, str]:
        """Make the topics and fill them; the settings that name them."""
        names = {name: f"{prefix}.{name}" for name in TOPICS}
        admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        try:
            admin.create_topics([NewTopic(name, 2, 1) for name in names.values()])
        finally:
            admin.close()
        producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
        try:
            for topic, of_groups in ((names["events"], self.events), (names["groups"], self.pictures)):
                for group_id, records in of_groups.items():
                    for record in records:
                        producer.send(topic, key=group_id.encode(), value=record)
            for each in lag_of("billing", names["work"], self.now_ms):
                at_ms = each.measured_timestamp_ms
                producer.send(names["lag"], msgspec.json.encode(each), b"billing", timestamp_ms=at_ms)
            producer.flush(PATIENCE_S)
        finally:
            producer.close()
        return {f"topics.{name}": topic for name, topic in names.items()}

    def write_tables(self, path: Path, by_ms: int) -> None:
        """The same groups `by_ms` earlier, as `write-history` would have written them."""
        write_plain_tables(
            path,
            *(_read(moved(records, group_id, -by_ms)) for group_id, records in self.events.items()),
            lag=_rows(lag_of("billing", "orders", self.now_ms - by_ms)),
        )


def _rows(measurements: Iterable[Measurement]) -> list[dict[str, Any]]:
    """As `write-history` keeps them: the first of each minute."""
    minutes = {each.measured_timestamp_ms // 60_000: each for each in reversed(list(measurements))}
    return [
        {
            "group_id": each.group_id,
            "at": time_of(each.measured_timestamp_ms),
            "until": time_of(each.measured_timestamp_ms + 130_000),
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "records": each.records,
            "age_ms": each.age_ms,
            "error_ms": each.error_ms,
            "at_least": each.at_least,
            "status": topic.partitions[0].status,
            "trend": each.trend,
        }
        for each in sorted(minutes.values(), key=lambda it: it.measured_timestamp_ms)
        for topic in each.topics
    ]


def _read(records: Iterable[bytes]) -> list[AnyEvent]:
    return [event for record in records if (event := read_event(record)) is not None]


__all__ = ["BREAKOUT", "HOSTILE_GROUP", "IMAGE", "SCRIPT", "Filled", "lag_of"]
