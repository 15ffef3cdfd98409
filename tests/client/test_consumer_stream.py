"""GroupConsumer against the real thing: Kafka, and the coordinator on Spark."""

from __future__ import annotations

import itertools

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import NoOffsetForPartitionError
from kafka.structs import TopicPartition

from group_coordinator import CommitFailedError, FencedInstanceIdError, GroupConsumer
from tests.patience import wait_for

pytestmark = pytest.mark.spark

PARTITIONS = 4

_numbers = itertools.count(1)


@pytest.fixture
def kafka(bootstrap_servers):
    with Kafka(bootstrap_servers) as kafka:
        yield kafka


class Kafka:
    """A topic of a test's own, with numbers in it."""

    def __init__(self, bootstrap_servers):
        self.topic = f"numbers-{next(_numbers)}"
        self.group = f"of-{self.topic}"
        self.partitions = [TopicPartition(self.topic, i) for i in range(PARTITIONS)]
        admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])
        admin.close()
        self.producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        self.next = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.producer.close()

    def produce(self, count):
        for _ in range(count):
            self.producer.send(self.topic, str(self.next).encode(), partition=self.next % PARTITIONS)
            self.next += 1
        self.producer.flush()


@pytest.fixture
def make_consumer(harness, kafka, bootstrap_servers):
    consumers = []

    def make(**settings):
        defaults = {
            "group_id": kafka.group,
            "bootstrap_servers": bootstrap_servers,
            "request_topic": harness.settings.topics_requests,
            "response_topic": harness.settings.topics_responses,
            "session_timeout_ms": 10_000,
            "auto_offset_reset": "earliest",
        }
        consumer = GroupConsumer(kafka.topic, **defaults | settings)
        consumers.append(consumer)
        return consumer

    yield make
    for consumer in consumers:
        consumer.close()


def collect(enough, *consumers):
    """Poll in turn until there are enough values."""
    values = []

    def poll():
        for consumer in consumers:
            polled = consumer.poll(timeout_ms=50)
            values.extend(int(record.value) for records in polled.values() for record in records)

    wait_for(lambda: enough(values), meanwhile=poll, said=lambda: values)
    return values


def read(count, *consumers):
    return collect(lambda values: len(values) >= count, *consumers)


def stored(harness, kafka):
    """What is committed, as the coordinator tells somebody else."""
    topics = [{"name": kafka.topic, "partition_indexes": list(range(PARTITIONS))}]
    answer = harness.call("offset_fetch", kafka.group, topics=topics)
    return [each["committed_offset"] for topic in answer["topics"] for each in topic["partitions"]]


def test_restart_goes_on_at_the_committed_position(make_consumer, kafka, harness):
    kafka.produce(40)
    with make_consumer() as first:
        assert sorted(read(40, first)) == list(range(40))
    assert stored(harness, kafka) == [10] * PARTITIONS
    kafka.produce(8)
    second = make_consumer(auto_offset_reset="none")

    assert sorted(read(8, second)) == list(range(40, 48))
    assert second.committed(kafka.partitions[0], metadata=True).leader_epoch >= 0
    assert [12] * PARTITIONS == [second.position(each) for each in kafka.partitions]


def test_rebalances_hand_positions_over_without_loss_or_repeat(make_consumer, kafka):
    kafka.produce(100)
    consumers = [make_consumer(max_poll_records=7)]
    values = read(10, *consumers)
    consumers.append(make_consumer(max_poll_records=7))
    values += collect(lambda _: len(consumers[1].assignment()) == PARTITIONS // 2, *consumers)
    kafka.produce(100)
    values += read(10, *consumers)
    consumers.pop(0).close()
    kafka.produce(100)
    values += read(300 - len(values), *consumers)

    assert sorted(values) == list(range(300))


@pytest.mark.verify
def test_static_restart_goes_on_where_it_was(make_consumer, kafka):
    kafka.produce(40)
    first, other = make_consumer(group_instance_id="w1"), make_consumer(group_instance_id="w2")
    values = collect(
        lambda values: len(values) >= 40 and len(first.assignment()) == len(other.assignment()) == 2,
        first,
        other,
    )
    owned, generation_id = first.assignment(), first.group_metadata().generation_id
    first.close()
    kafka.produce(8)
    again = make_consumer(group_instance_id="w1")
    values += read(8, again, other)

    assert sorted(values) == list(range(48))
    assert (again.assignment(), again.group_metadata().generation_id) == (owned, generation_id)


@pytest.mark.parametrize(
    ("reset", "expected"), [("earliest", list(range(44))), ("latest", list(range(40, 44)))]
)
def test_without_a_commit_it_begins_where_the_setting_says(make_consumer, kafka, reset, expected):
    kafka.produce(40)
    consumer = make_consumer(auto_offset_reset=reset)
    before = collect(lambda _: consumer.assignment() and consumer.position(kafka.partitions[0]), consumer)
    kafka.produce(4)

    assert sorted(before + read(len(expected) - len(before), consumer)) == expected


def test_without_a_commit_and_a_setting_it_is_the_programs_to_say(make_consumer, kafka):
    kafka.produce(8)
    consumer = make_consumer(auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        collect(lambda _: False, consumer)

    for each in kafka.partitions:
        consumer.seek(each, 1)

    assert sorted(read(4, consumer)) == [4, 5, 6, 7]


@pytest.mark.verify
def test_offset_that_is_not_in_the_log_is_reset(make_consumer, kafka):
    kafka.produce(8)
    with make_consumer(enable_auto_commit=False) as first:
        read(8, first)
        first.commit(dict.fromkeys(kafka.partitions, 1_000))

    assert sorted(read(8, make_consumer())) == list(range(8))


@pytest.mark.verify
def test_commit_of_who_was_thrown_out_fails_and_nothing_is_stored(make_consumer, kafka, harness):
    kafka.produce(8)
    consumer = make_consumer(enable_auto_commit=False, heartbeat_interval_ms=9_000)
    read(8, consumer)
    member_id = consumer.group_metadata().member_id
    harness.call("leave_group", kafka.group, members=[{"member_id": member_id}])

    with pytest.raises(CommitFailedError, match="gone on without this member"):
        consumer.commit()
    assert stored(harness, kafka) == [-1] * PARTITIONS


def test_commit_of_who_was_replaced_fails_and_nothing_is_stored(make_consumer, kafka, harness):
    kafka.produce(8)
    settings = {"enable_auto_commit": False, "group_instance_id": "w1", "heartbeat_interval_ms": 9_000}
    first = make_consumer(**settings)
    read(8, first)
    second = make_consumer(**settings)
    read(8, second)

    with pytest.raises(FencedInstanceIdError, match="Another program"):
        first.commit()
    assert stored(harness, kafka) == [-1] * PARTITIONS
    second.commit()
    assert stored(harness, kafka) == [2] * PARTITIONS
