"""Members of the consumer protocol go on while the coordinator dies of SIGKILL and is started again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from group_coordinator import GroupConsumer
from tests.client.memory import Listener
from tests.commands.job import Job
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]

PARTITIONS = 6
FAST = (
    *("--set", "group.consumer.heartbeat.interval.ms=500"),
    *("--set", "group.consumer.session.timeout.ms=6000"),
    *("--set", "topics.watch.interval.ms=500"),
)


class Consumers:
    """Consumers of one topic with numbers in it, and what they have read."""

    def __init__(self, job: Job, bootstrap_servers: str, topic: str) -> None:
        self.values: list[int] = []
        self.all: list[GroupConsumer] = []
        self.heard: list[Listener] = []
        self._topic = topic
        self._settings: dict[str, Any] = {
            "group_id": "billing",
            "bootstrap_servers": bootstrap_servers,
            "request_topic": job.topics["requests"],
            "response_topic": job.topics["responses"],
            "group_protocol": "consumer",
            "auto_offset_reset": "earliest",
        }
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        self.produced = 0

    def produce(self) -> None:
        for _ in range(6 * PARTITIONS):
            self._producer.send(
                self._topic, str(self.produced).encode(), partition=self.produced % PARTITIONS
            )
            self.produced += 1
        self._producer.flush()

    def add(self) -> None:
        consumer = GroupConsumer(**self._settings)
        self.all.append(consumer)
        self.heard.append(Listener())
        consumer.subscribe([self._topic], listener=self.heard[-1])

    def poll(self) -> None:
        for consumer in self.all:
            polled = consumer.poll(timeout_ms=20)
            self.values += [int(record.value) for records in polled.values() for record in records]

    def are_even(self) -> bool:
        owners = Counter(each for consumer in self.all for each in consumer.assignment())
        assert max(owners.values(), default=0) <= 1, "nobody has what another has"
        counts = {len(consumer.assignment()) for consumer in self.all}
        return len(owners) == PARTITIONS and counts == {PARTITIONS // len(self.all)}

    def close(self) -> None:
        for consumer in self.all:
            consumer.close()
        self._producer.close()


def test_consumers_come_and_go_around_kills_and_read_each_record_once(
    start: Callable[..., Job], bootstrap_servers: str, tmp_path: Any
) -> None:
    topic = f"{tmp_path.name}.numbers"
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    job = start(*FAST)
    job.wait_for("the coordinator is running")
    with closing(Consumers(job, bootstrap_servers, topic)) as consumers:
        consumers.add()
        consumers.produce()
        wait_for(consumers.are_even, meanwhile=consumers.poll)
        consumers.add()
        consumers.add()
        # Killed while they divide the work.
        wait_for(lambda: "revoked" in consumers.heard[0].words, meanwhile=consumers.poll)
        job.kill()
        consumers.produce()
        job = start(*FAST)
        wait_for(consumers.are_even, meanwhile=consumers.poll)
        journals = [list(each.words) for each in consumers.heard]
        job.kill()
        consumers.produce()
        job = start(*FAST)
        wait_for(lambda: len(consumers.values) >= consumers.produced, meanwhile=consumers.poll)
        assert [each.words for each in consumers.heard] == journals, "a kill takes nothing from anybody"
        while len(consumers.all) > 1:
            consumers.all.pop(0).close()
            consumers.produce()
            wait_for(consumers.are_even, meanwhile=consumers.poll)
        wait_for(lambda: len(consumers.values) >= consumers.produced, meanwhile=consumers.poll)

        assert "lost" not in [word for each in consumers.heard for word in each.words]
        assert sorted(consumers.values) == list(range(consumers.produced))
