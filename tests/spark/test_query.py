"""Real queries as groups of a real coordinator."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from kafka import KafkaProducer
from kafka.admin import OffsetSpec
from kafka.structs import TopicPartition

from group_coordinator import AdminClient
from group_coordinator.deploy.jars import fetch
from group_coordinator.spark import CommitOffsets
from tests.commands.job import Process
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.harness import Harness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = 40
# Other examples have written to the topic that they have by default.
TOPIC = "watched-orders"


@pytest.fixture
def coordinator(spark: Any, bootstrap_servers: str, tmp_path: Path) -> Iterator[Harness]:
    """A coordinator as the examples expect it, with the topics' default names."""
    names = {f"topics_{name}": f"coordinator.{name}" for name in ("requests", "responses")}
    with Harness(spark, bootstrap_servers, tmp_path, **names) as harness:
        harness.start_and_warm_up()
        yield harness


def produce(servers: str, topic: str, count: int = COUNT) -> None:
    words = ("--topic", topic, "--count", str(count), "--partitions", "2", "--bootstrap-server", servers)
    subprocess.run([sys.executable, EXAMPLES / "produce.py", *words], check=True, timeout=PATIENCE_S)


def offsets_of(admin: AdminClient, group_id: str) -> dict[int, int]:
    """The group's offset of each partition of its one topic."""
    listed = admin.list_group_offsets([group_id])[group_id]
    return {partition.partition: each.offset for partition, each in listed.items()}


def test_a_query_is_a_group_that_is_where_its_last_batch_has_ended(
    coordinator: Harness, spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    produce(bootstrap_servers, "watched")
    # The coordinator's own query is in the other session, and would be a group as well.
    session = spark.newSession()
    commits = CommitOffsets(bootstrap_servers=bootstrap_servers)
    session.streams.addListener(commits)
    failing = []

    def store(_rows: Any, batch: int) -> None:
        if failing:
            failing.append(batch)
            raise ValueError("a sink that fails")

    query = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", "watched")
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.queryName("watching")
        .option("checkpointLocation", str(tmp_path / "query"))
        .foreachBatch(store)
        .start()
    )
    try:
        with closing(AdminClient(bootstrap_servers=bootstrap_servers)) as admin:
            wait_for(lambda: sum(offsets_of(admin, "watching").values()) == COUNT)
            before = offsets_of(admin, "watching")
            assert admin.describe_groups(["watching"])["watching"].group_state == "Empty"
            failing.append(-1)
            with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
                producer.send("watched", b"one more")
            wait_for(lambda: not query.isActive)
            session.streams.removeListener(commits)
            commits.close()
            assert len(failing) > 1
            assert offsets_of(admin, "watching") == before, "a batch that fails commits nothing"
    finally:
        query.stop()


@pytest.fixture
def _jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `spark-submit --packages` would fetch."""
    jars = ",".join(map(str, fetch("spark")))
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.jars {jars}\nspark.driver.memory 700m\nspark.master local[2]\nspark.ui.enabled false\n"
        "spark.driver.defaultJavaOptions -XX:TieredStopAtLevel=1\nspark.driver.host 127.0.0.1\n"
        "spark.sql.shuffle.partitions 1\n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


class Example:
    """examples/spark_query.py, with a JVM of its own."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.said = directory / "said"
        self._checkpoint = directory / "orders" / "_checkpoint"
        words = ("--topic", TOPIC, "--path", str(directory / "orders"), "--bootstrap-server", servers)
        with self.said.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, EXAMPLES / "spark_query.py", *words, "--seconds", "5"],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def runs(self) -> bool:
        assert self._process.poll() is None, self.said.read_text()
        return True

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ends_of_batches(self) -> list[dict[int, int]]:
        """Where its batches have ended, of those that its checkpoint has as done, oldest first."""
        done = sorted(
            int(file.name) for file in (self._checkpoint / "commits").iterdir() if file.name.isdigit()
        )
        logs = [(self._checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1] for batch in done]
        return [{int(p): at for p, at in json.loads(log)[TOPIC].items()} for log in logs]


class Watched:
    """The lag of a group by partition, as `measure-lag` tells Prometheus and as the group's page shows it."""

    def __init__(self, coordinator: Harness, directory: Path, group_id: str) -> None:
        names = coordinator.settings
        where = (
            "--bootstrap-server",
            names.bootstrap_servers,
            "--set",
            f"topics.lag={names.topics_offsets}.lag",
        )
        self._group_id = group_id
        self._measuring = Process(
            directory,
            *("measure-lag", *where, "--groups", group_id, "--create-topics", "--metrics-port", "0"),
            *("--set", f"topics.offsets={names.topics_offsets}", "--set", "lag.interval.ms=500"),
        )
        self._page = Process(
            directory,
            *("ui", *where, "--port", "0", "--set", f"topics.groups={names.topics_groups}"),
            *("--set", f"topics.events={names.topics_events}"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._measuring.kill()
        self._page.kill()

    def measured(self) -> dict[int, int]:
        found = self._measuring.metrics().items()
        # Name, cluster, group, partition, topic.
        return {int(key[3]): round(lag) for key, lag in found if key[0] == "kafka_consumergroup_group_lag"}

    def shown(self) -> dict[int, int]:
        url = f"{self._page.wait_for('the page is at ')}group?id={self._group_id}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            page = answer.read().decode()
        (offsets,) = re.findall(r'<table class="offsets">.*?</table>', page, re.DOTALL) or [""]
        rows = [
            re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>.*?</tr>", offsets, re.DOTALL)
        ]
        return {int(row[1]): int(row[4].replace(",", "")) for row in rows if row}

    def tell(self, lag: dict[int, int]) -> bool:
        """Whether both do."""
        return self.measured() == self.shown() == lag


@pytest.mark.verify
@pytest.mark.usefixtures("_jars")
def test_the_example_that_is_killed_and_its_group_differ_by_no_more_than_a_batch(
    coordinator: Harness, bootstrap_servers: str, tmp_path: Path
) -> None:
    produce(bootstrap_servers, TOPIC)
    total = COUNT
    group = "orders-to-delta"
    with (
        closing(AdminClient(bootstrap_servers=bootstrap_servers)) as admin,
        closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer,
        Watched(coordinator, tmp_path, group) as watched,
    ):

        def produce_more(count: int) -> None:
            for number in range(count):
                producer.send(TOPIC, str(number).encode()).get(PATIENCE_S)

        def committed() -> int:
            return sum(offsets_of(admin, group).values())

        def lag() -> dict[int, int]:
            offsets = offsets_of(admin, group)
            specs = {TopicPartition(TOPIC, it): OffsetSpec.LATEST for it in offsets}
            ends = admin.list_partition_offsets(specs)
            return {where.partition: each.offset - offsets[where.partition] for where, each in ends.items()}

        for _ in range(3):
            example = Example(bootstrap_servers, tmp_path)
            try:
                wait_for(lambda: example.runs() and committed() == total)  # noqa: B023 - called at once
                wait_for(lambda: watched.tell({0: 0, 1: 0}))
                produce_more(200)
                total += 200
                wait_for(lambda: committed() > total - 200)  # noqa: B023 - called at once
            finally:
                example.kill()
            # A commit that was on its way may be answered after the kill.
            coordinator.call("heartbeat", group, member_id="nobody", generation_id=0)
            assert offsets_of(admin, group) in example.ends_of_batches()[-2:]
            # What comes while the query is away is shown as well.
            produce_more(20)
            total += 20
            behind = lag()
            assert sum(behind.values()) >= 20
            wait_for(lambda: watched.tell(behind), said=lambda: (behind, watched.measured(), watched.shown()))  # noqa: B023
