"""`observe` on a cluster that has no groups yet, and before its first batch has ended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import ObserveJob, gated_python
from tests.gateway.clients import kafka_python
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = pytest.mark.spark

LAG = tuple((f"group_coordinator_input_lag_{unit}",) for unit in ("records", "seconds"))


def test_it_waits_for_the_first_group_and_tells_how_much_is_unread(tmp_path: Path) -> None:
    python, gate = gated_python(tmp_path)
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        servers = broker.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            assert BROKERS_LOG not in admin.list_topics()
            admin.create_topics({"orders": {"num_partitions": 1}})
            admin.wait_for_topics(["orders"])
        job = ObserveJob(servers, tmp_path, "first", "--set", f"spark.pyspark.python={python}")
        try:
            job.wait_for("waiting for the first group: the brokers have no topic of groups yet")
            with closing(kafka_python(servers, ["orders"], "billing")) as member:
                wait_for(lambda: member.poll(100) or member.assignment())
                job.wait_for("watching the groups at ")
                # No batch can end, and what waits for it is told.
                wait_for(lambda: job.metrics().get(LAG[0], 0) > 0)
                first_s = job.metrics()[LAG[1]]
                wait_for(lambda: job.metrics()[LAG[1]] > first_s + 2)
                assert not list(job.checkpoint.glob("commits/*"))
                gate.touch()
                with Reader({"bootstrap_servers": servers}, job.topics["events"]) as events:
                    added = events.first(lambda it: it["event"] == "member_added")
                assert added["group_id"] == "billing"
                wait_for(lambda: job.metrics().get(LAG[0]) == 0)
            job.terminate()
            assert job.exit_code() == 0
        finally:
            job.kill()
