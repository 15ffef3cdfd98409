"""What the probes see of coordinators that run, wait, and lose Kafka and their JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.job import Job
from tests.patience import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.verify]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """One that may be stopped."""
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        yield broker


def test_probes(own_broker: EmbeddedBroker, tmp_path: Path) -> None:
    with ExitStack() as stack:

        def start(*arguments: str) -> Job:
            # A busy machine is not to be taken for a dead one.
            gap = ("--set", "clock.max.gap.ms=10000")
            job = Job(own_broker.bootstrap_servers, tmp_path, "probed", *gap, *arguments)
            stack.callback(job.kill)
            return job

        job = start()
        # It answers before it is ready, which it is when it has answered requests.
        assert job.probe("healthz")[0] == 200
        assert job.probe("readyz")[0] == 503
        wait_for(lambda: job.probe("readyz")[0] == 200)
        assert job.batches("commits") != set()
        assert "coordinating: a batch has ended" in job.probe("healthz")[1]

        # One that stands by is well, unless it could not take over: then it ends.
        standby = start("--standby")
        standby.wait_for("standing by: ")
        wait_for(lambda: standby.probe("readyz") == (200, "standing by: another coordinator runs"))
        assert standby.probe("healthz")[0] == 200
        standby.kill_java()
        assert standby.error() == "Spark's Java process has ended: start again, to go on from here"

        # While Kafka is away nobody would gain by a restart.
        own_broker.stop()
        wait_for(lambda: job.probe("readyz") == (503, "restarting the query"))
        assert job.probe("healthz") == (200, "restarting the query")
        own_broker.start()
        wait_for(lambda: job.probe("readyz")[0] == 200)

        job.terminate()
        assert job.exit_code() == 0
