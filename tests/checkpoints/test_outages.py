from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.ledger import FILE, Ledger
from group_coordinator.checkpoints.outages import note_outage
from group_coordinator.checkpoints.shifts import Shift
from group_coordinator.coordinator_state.outages import Outage

pytestmark = pytest.mark.spark

LATE_MS = 10**15
LOOK_BACK_MS = 12_000
_numbers = itertools.count(1)


def note(files: CheckpointFiles, *arguments: Any, **choices: Any) -> list[Outage]:
    """All outages once one has been noted, as the next coordinator reads them."""
    note_outage(Ledger.read(files), *arguments, look_back_ms=LOOK_BACK_MS, **choices)
    return read_outages(files)


def read_outages(files: CheckpointFiles) -> list[Outage]:
    return list(Ledger.read(files).outages)


class Topic:
    """A topic of two partitions; `times` by partition and offset."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.name = f"outages{next(_numbers)}"
        self.times: dict[int, dict[int, int]] = {0: {}, 1: {}}
        self._config = config
        self._admin = KafkaAdminClient(**config)
        configs = {"message.timestamp.type": "LogAppendTime"}
        self._admin.create_topics({self.name: {"num_partitions": 2, "configs": configs}})
        self._admin.wait_for_topics([self.name])

    def write(self, *partitions: int, **settings: Any) -> None:
        """One record for each. With a transactional id: in a transaction, which leaves a marker behind."""
        producer = KafkaProducer(**self._config, **settings)
        if settings:
            producer.init_transactions()
            producer.begin_transaction()
        for partition in partitions:
            appended = producer.send(self.name, b"x", partition=partition).get(30)
            self.times[partition][appended.offset] = appended.timestamp
        if settings:
            producer.commit_transaction()
        producer.close()

    def delete_until(self, offset: int) -> None:
        """As retention does it."""
        self._admin.delete_records({TopicPartition(self.name, 0): offset})

    def close(self) -> None:
        self._admin.close()


@pytest.fixture
def config(bootstrap_servers: str) -> dict[str, Any]:
    return {"bootstrap_servers": bootstrap_servers}


@pytest.fixture
def topic(config: dict[str, Any]) -> Any:
    topic = Topic(config)
    yield topic
    topic.close()


def plan(
    files: CheckpointFiles, batch_id: int, watermark_ms: int, *ends: int, topic: Topic, at_ms: int = 0
) -> None:
    """As Spark plans a batch that ends at these offsets."""
    metadata = {"batchWatermarkMs": watermark_ms, "batchTimestampMs": at_ms, "conf": {}}
    source = {topic.name: dict(enumerate(ends))}
    lines = [b"v1", msgspec.json.encode(metadata), msgspec.json.encode(source)]
    files.write(f"offsets/{batch_id}", b"\n".join(lines))


def test_a_new_checkpoint_has_had_none(files: CheckpointFiles, config: dict[str, Any]) -> None:
    assert note(files, config, topic.name, lambda: LATE_MS) == []
    assert read_outages(files) == []


def test_it_begins_with_the_newest_record_of_a_planned_batch(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    topic.write(0, 1, 0, 0)
    times = topic.times
    # Of partition 0 the last record was not read.
    plan(files, 0, 0, 1, 0, topic=topic)
    plan(files, 1, 0, 2, 1, topic=topic)

    newest = max(times[0][1], times[1][0])
    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(newest, LATE_MS)]
    assert read_outages(files) == [Outage(newest, LATE_MS)]


def test_a_partition_that_ends_with_a_marker_counts_up_to_the_record_before(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    topic.write(0, transactional_id=topic.name)
    plan(files, 0, 0, 2, 0, topic=topic)
    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(topic.times[0][0], LATE_MS)]


def test_a_clock_that_was_set_back_some_batches_ago_does_not_make_it_begin_earlier(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    """The clock was ahead by less than a shift is noted for. After that many requests came."""
    topic.write(*[0] * 152)
    times = topic.times[0]
    ahead_ms = 2_900
    Ledger.read(files).put_shifts([Shift(0, 1, ahead_ms), Shift(0, 2, 0)])
    for batch_id, at_ms, end in [(0, 0, 1), (1, 1_000, 2), (2, 2_000, 51), (3, 12_999, 152)]:
        plan(files, batch_id, 0, end, 0, topic=topic, at_ms=at_ms)

    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(times[1] + ahead_ms, LATE_MS)]
    files.delete(FILE)
    Ledger.read(files).put_shifts([Shift(0, 1, ahead_ms), Shift(0, 2, 0)])
    # By now nobody's clock can have been so far ahead then.
    plan(files, 3, 0, 152, 0, topic=topic, at_ms=13_000)
    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(times[151], LATE_MS)]


def test_it_begins_where_shifted_requests_count(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    """A clock was set back after a record, and before that one another was an hour ahead."""
    topic.write(0, 1, 1, 1)
    plan(files, 0, 0, 1, 3, topic=topic)
    Ledger.read(files).put_shifts([Shift(1, 0, -3_600_000), Shift(1, 1, 50_000), Shift(1, 2, -12_000)])
    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(topic.times[1][1] + 50_000, LATE_MS)]


def test_deadlines_that_have_fired_were_before_it(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    topic.write(0)
    watermark_ms = topic.times[0][0] + 1_000
    plan(files, 0, watermark_ms, 1, 0, topic=topic)
    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(watermark_ms, LATE_MS)]


def test_records_that_are_gone_do_not_count(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    topic.write(0, 0, 0)
    topic.delete_until(3)
    plan(files, 0, 77, 3, 0, topic=topic)
    assert note(files, config, topic.name, lambda: LATE_MS) == [Outage(77, LATE_MS)]


def test_one_that_ended_before_anything_was_read_goes_on(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    plan(files, 0, 50, 0, 0, topic=topic)
    note(files, config, topic.name, lambda: 100)
    assert note(files, config, topic.name, lambda: 170) == [Outage(50, 100), Outage(100, 170)]


def test_some_of_the_time_may_count(files: CheckpointFiles, config: dict[str, Any], topic: Topic) -> None:
    plan(files, 0, 50, 0, 0, topic=topic)
    note(files, config, topic.name, lambda: 100)
    assert note(files, config, topic.name, lambda: 170, counts_ms=20)[1:] == [Outage(120, 170)]
    assert len(note(files, config, topic.name, lambda: 180, counts_ms=20)) == 2


def test_clocks_of_two_brokers_may_differ(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    plan(files, 0, 50, 0, 0, topic=topic)
    assert note(files, config, topic.name, lambda: 49) == []


def test_a_coordinator_that_creates_no_groups_goes_on_so(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    plan(files, 0, 50, 0, 0, topic=topic)
    assert note(files, config, topic.name, lambda: 60, closed=True) == [Outage(50, 60, closed=True)]
    # Another start, and one at which a broker's clock is behind: that it opens again is noted all the same.
    assert note(files, config, topic.name, lambda: 70)[1:] == [Outage(60, 70, closed=True)]
    assert note(files, config, topic.name, lambda: 40, closed=False)[2:] == [Outage(70, 71)]
    assert read_outages(files) == [Outage(50, 60, closed=True), Outage(60, 70, closed=True), Outage(70, 71)]


def test_a_clock_that_has_stopped_meanwhile_is_no_end(
    files: CheckpointFiles, config: dict[str, Any], topic: Topic
) -> None:
    topic.write(0)
    plan(files, 0, 0, 1, 0, topic=topic)

    def stopped() -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        note(files, config, topic.name, stopped)
    assert read_outages(files) == []
