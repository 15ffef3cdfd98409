"""The stateful function of `observe`, without Spark: its rows, counts and state, and when it is called."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.state import GroupStateTimeout

from group_coordinator.coordinator_state.step import Channel
from group_coordinator.observe.function import ObserveFunction
from group_coordinator.observe.seen import Missed, Seen, SeenMetrics
from tests.brokers_log.consumers import NAMES, ConsumerLog, topic_id
from tests.brokers_log.kafka import GROUP, Log, M
from tests.brokers_log.watching import partitions
from tests.streaming.states import group_state

TOPICS = {channel: f"b.{channel.value}" for channel in (Channel.GROUPS, Channel.OFFSETS, Channel.EVENTS)}
KEY = GROUP.encode()


class Called:
    """A call about the records of a log, at a time."""

    def __init__(
        self, log: Log | None, now_ms: int, stored: bytes | None = None, largest: int = 1_000_000
    ) -> None:
        self.seen: Seen = Counter()
        self.asked: list[set[str]] = []
        self.state = group_state(
            stored, -1, planned_ms=now_ms, timeout=GroupStateTimeout.ProcessingTimeTimeout
        )
        records = [] if log is None else log.records
        columns = [(it.partition, it.offset, it.timestamp_ms, it.key, it.value) for it in records]
        function = ObserveFunction(
            commits_interval_ms=60_000,
            topics=TOPICS,
            largest=largest,
            names=self.names,
            count=self.seen.update,
        )
        self.rows = [row for part in function.parts((KEY,), columns, self.state) for row in part]

    def names(self, ids: Collection[str]) -> Mapping[str, str]:
        self.asked.append(set(ids))
        return {each: NAMES[each] for each in ids if each in NAMES}

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(value or b"") for topic, _, value, _, _ in self.rows if topic == "b.events"]

    @property
    def stored(self) -> bytes:
        (value,) = self.state.get
        return bytes(value)


def test_records_become_rows_for_the_topics_and_state() -> None:
    log = Log()
    log.stable(1, M("c1-1", owns=[0, 1]))
    called = Called(log, log.now_ms)
    assert {topic for topic, *_ in called.rows} == {"b.groups", "b.events"}
    (picture,) = [row for row in called.rows if row[0] == "b.groups"]
    assert picture[1] == KEY
    assert json.loads(picture[2] or b"")["state"] == "Stable"
    assert picture[4] is not None, "a record of a compacted topic says from which place it is"
    kinds = Counter(event["event"] for event in called.events())
    assert called.seen == {("events", kind): count for kind, count in kinds.items()}
    assert Called(log, log.now_ms, called.stored).rows == [], "the same records again change nothing"


def test_commit_that_nothing_follows_is_told_when_the_batch_that_is_asked_for_comes() -> None:
    log = Log()
    log.commit(0, 5)
    first = Called(log, log.now_ms)
    assert first.events() == []
    assert first.state._timeout_timestamp == log.now_ms + 60_000
    later = Called(None, log.now_ms + 60_000, first.stored)
    (told,) = later.events()
    assert told["topics"][0]["partitions"][0]["committed_offset"] == 5
    assert told["at_ms"] == log.now_ms, "it was committed then"


def test_record_that_is_too_large_for_its_topic_is_left_out_and_counted() -> None:
    log = Log()
    log.stable(1, M("c1-1", owns=range(1_000)))
    called = Called(log, log.now_ms, largest=2_000)
    assert all(len(value or b"") <= 2_000 for _, _, value, _, _ in called.rows)
    assert called.seen["unwritten_records", "groups"] == 1
    assert called.seen["unwritten_records", "events"] == 1, "the one with the assignments"


@pytest.mark.parametrize("value", [b"", b"\x00\x09", b"\x00\x03\xff\xff", b"\x00\x03" + b"\x7f" * 40])
def test_record_that_cannot_be_read_is_counted_and_ends_nothing(value: bytes) -> None:
    log = Log()
    log.stable(1, M("c1-1"))
    known = Called(log, log.now_ms)
    damaged = Log(now_ms=log.now_ms)
    damaged.offset = log.offset
    damaged.write(log.records[-1].key or b"", value)
    called = Called(damaged, log.now_ms, known.stored)
    assert called.rows == []
    assert sum(count for (what, _), count in called.seen.items() if what == "unreadable_records") == 1


def test_names_are_asked_for_where_records_have_ids_alone() -> None:
    log = ConsumerLog()
    log.joins("a-1", 2, {"a-1": [0]})
    log.share("a-1", 2, t=[0], gone=[1])
    called = Called(log, log.now_ms)
    assert called.asked == [{topic_id("t"), topic_id("gone")}]
    assert called.seen["unnamed_topics", "unknown"] == 1
    (told,) = [each for each in called.events() if each["event"] == "member_reconciled"]
    assert partitions(told["assignment"]) == f"{topic_id('gone')}1 t0"
    later = ConsumerLog(now_ms=log.now_ms)
    later.offset = log.offset
    later.commit(0, 5)
    assert Called(later, log.now_ms, called.stored).asked == []


def test_group_that_is_gone_leaves_nothing_behind() -> None:
    log = Log()
    log.empty(1)
    log.delete()
    called = Called(log, log.now_ms)
    assert called.state.exists, "it may be made again at once"
    later = Called(None, log.now_ms + 60_000, called.stored)
    assert not later.state.exists


def test_what_is_missed_is_told_at_once_and_then_once_a_minute() -> None:
    missed, seen = Missed(), Counter({("events", "group_created"): 3})
    assert missed.look(seen, 0) == ""
    seen["unreadable_records", "newer version"] = 2
    assert missed.look(seen, 1) == "2 records that cannot be read (newer version)"
    seen["unreadable_records", "newer version"] = 7
    seen["unwritten_records", "groups"] = 1
    assert missed.look(seen, 60) == ""
    told = missed.look(seen, 61)
    assert told == (
        "5 records that cannot be read (newer version), 1 records that are too large for their topic (groups)"
    )
    assert missed.look(seen, 1_000) == ""


def test_metrics_are_there_by_kind() -> None:
    seen: Seen = Counter({("skipped_records", "11"): 4, ("events", "group_created"): 1})
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in SeenMetrics(lambda: seen).collect()
        for sample in family.samples
    }
    assert {name: value for name, value in values.items() if value} == {
        ("group_coordinator_observed_skipped_records_total", "11"): 4,
        ("group_coordinator_observed_events_total", "group_created"): 1,
    }
    assert len(values) == 2 + 1 + 5 + 1, "those that an alert waits for are there from the start"
