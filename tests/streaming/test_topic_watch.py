from __future__ import annotations

import pytest
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError

from group_coordinator.checkpoints.identity import check_topics
from group_coordinator.checkpoints.topics import read_topic_ids
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.topic_watch import TopicWatch
from tests.patience import wait_for
from tests.streaming.registry import create_topic


@pytest.mark.spark
def test_a_topic_that_is_deleted_and_created_again_is_noticed(bootstrap_servers: str) -> None:
    topic = create_topic(bootstrap_servers, 1)
    config = python_client_config(bootstrap_servers, {})
    known = read_topic_ids(config, [topic])
    looks, away = [], iter([KafkaConnectionError()])

    def check() -> None:
        looks.append(1)
        if error := next(away, None):
            raise error
        check_topics("c", known, read_topic_ids(config, [topic]))

    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    with TopicWatch(check, look_s=0.05) as watch:
        wait_for(lambda: len(looks) > 3)
        admin.delete_topics([topic])
        # As long as there is none, Spark has nothing to skip.
        wait_for(lambda: topic not in admin.list_topics())
        assert watch.failure is None
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        wait_for(lambda: watch.failure is not None)
    admin.close()
    assert f"topic {topic} is not the one that checkpoint c was made with" in str(watch.failure)
