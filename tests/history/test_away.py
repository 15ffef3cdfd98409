"""The job that writes the history when Kafka goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import HistoryJob

pytestmark = [pytest.mark.spark, pytest.mark.verify]


def test_it_ends_with_one_line_and_without_javas_stacks(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        servers = broker.bootstrap_servers
        admin = KafkaAdminClient(bootstrap_servers=servers)
        admin.create_topics({"events": {"num_partitions": 1}})
        admin.wait_for_topics(["events"])
        admin.close()
        # Spark asks three times, which would take a minute each.
        job = HistoryJob(
            servers,
            tmp_path,
            "events",
            "--set",
            "kafka.default.api.timeout.ms=2000",
            "--set",
            "kafka.request.timeout.ms=1000",
        )
        try:
            job.wait_for("the history is written to")
            broker.stop()
            error = job.error()
        finally:
            job.kill()

    assert error.startswith(f"Kafka at {servers}: ")
    assert [line for line in job.said if line.startswith(("\tat ", "Caused by"))] == []
    assert [line for line in job.said if "KafkaOffsetReaderAdmin" in line]
