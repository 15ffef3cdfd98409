"""A topic that is deleted and made again under a coordinator that runs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from kafka.admin import KafkaAdminClient

from group_coordinator.streaming.topic_specs import prepare_topics
from tests.commands.asking import requests_to
from tests.commands.job import Job
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]


@pytest.mark.parametrize("name", ["requests", "clock"])
def test_ends_the_coordinator_which_does_not_start_again(
    start: Callable[..., Job], bootstrap_servers: str, name: str
) -> None:
    job = start()
    job.wait_for("the coordinator is running")
    with requests_to(bootstrap_servers, job) as requests:
        commit = {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}
        assert requests.call("offset_commit", "g", topics=[commit])["error"] == "NONE"
    topic, config = job.topics[name], {"bootstrap_servers": bootstrap_servers}
    admin = KafkaAdminClient(**config)
    admin.delete_topics([topic])
    wait_for(lambda: topic not in admin.list_topics())
    admin.close()
    prepare_topics(msgspec.structs.replace(job.settings, create_topics=True), config)

    refused = f"topic {topic} is not the one that checkpoint {job.checkpoint} was made with"
    assert job.error().startswith(refused)
    assert start().error().startswith(refused)
