"""Which records lie behind an offset, and which offsets are none, as a broker has them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import TopicAuthorizationFailedError
from kafka.structs import TopicPartition

from group_coordinator.client.log_offsets import LogOffsets
from group_coordinator.lag import record_times
from group_coordinator.lag.record_times import RecordTimes
from group_coordinator.lag.stamps import Seen, Wanted
from tests.patience import PATIENCE_S, wait_for

PARTITION = TopicPartition("transactions", 0)


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[KafkaProducer]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(PARTITION.topic, 1, 1)])
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="payments")) as producer:
        producer.init_transactions()
        yield producer


def write(producer: KafkaProducer, records: int) -> None:
    producer.begin_transaction()
    for number in range(records):
        producer.send(PARTITION.topic, b"%d" % number, partition=0, timestamp_ms=1_000 + number)
    producer.flush(PATIENCE_S)


@pytest.mark.spark
def test_markers_are_no_records_and_what_is_aborted_counts_for_some(
    producer: KafkaProducer, bootstrap_servers: str
) -> None:
    """Records 0 and 1 with a marker, 3 and 4 that are aborted with a marker, and 6 in an open transaction."""
    write(producer, 2)
    producer.commit_transaction()
    write(producer, 2)
    producer.abort_transaction()
    config = {"bootstrap_servers": bootstrap_servers}
    with closing(RecordTimes(config)) as times, closing(LogOffsets(**config)) as logs:

        def seen(committed: int, end: int, *, reads_committed: bool = False) -> Seen | None:
            """Ask until it is answered, which a slow broker may not do in time."""
            place = PARTITION, committed, reads_committed
            found: dict[Any, Seen] = {}
            wait_for(lambda: found.update(times.ask({place: Wanted(committed, end)})) or found)
            return found[place]

        assert logs.ends([PARTITION]) == {PARTITION: 6}
        assert seen(1, 6) == seen(1, 6, reads_committed=True) == Seen(1, 1_001)
        # The end was measured before that record was written.
        assert seen(2, 3) in {Seen(3, None), Seen(3, 1_000)}
        assert seen(2, 6, reads_committed=True) == Seen(6, None)
        assert seen(5, 6) == Seen(6, None)
        write(producer, 1)
        assert logs.ends([PARTITION]) == {PARTITION: 7}
        assert logs.ends([PARTITION], "read_committed") == {PARTITION: 6}
        assert seen(5, 7) == Seen(6, 1_000)
        assert seen(5, 6, reads_committed=True) == Seen(6, None)
        producer.abort_transaction()


class Refusing:
    """A consumer that may not read."""

    def __init__(self, **_: Any) -> None:
        self.assign = self.seek = self.unsubscribe = self.close = lambda *_, **__: None

    def poll(self, **_: int) -> Any:
        raise TopicAuthorizationFailedError({"orders"})


def test_a_topic_that_may_not_be_read_is_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record_times, "KafkaConsumer", Refusing)
    clock = SimpleNamespace(now_s=0.0)
    caplog.set_level(logging.INFO)
    times = RecordTimes({}, lambda: clock.now_s)
    assert times.ask({(TopicPartition("orders", 0), 3, False): Wanted(3, 4)}) == {}
    assert times.refused == {"orders"}
    assert caplog.messages[0].startswith("ages in topic orders are found by its ends: ")
    clock.now_s = 301.0
    assert times.refused == set()
