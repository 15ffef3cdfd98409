"""Alerts that fire in a Prometheus as it is shipped: about lag, offsets and the disk."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import AdminClient
from tests.commands.job import Job, Process
from tests.deploy.prometheus import RULES, Prometheus, configured
from tests.patience import wait_for

pytestmark = [pytest.mark.verify, pytest.mark.spark]

GROWING, STANDING, EMPTY, DELETED = (TopicPartition("alerts", number) for number in range(4))
SHORTENED = {"GroupLagGrowing": "10m", "GroupLosesRecordsSoon": "5m"}


# -- lag and offsets -------------------------------------------------------------------------------------


@pytest.fixture
def job(bootstrap_servers: str, tmp_path: Path) -> Iterator[Job]:
    retention = ("offsets.retention.minutes=1", "offsets.retention.check.interval.ms=1000")
    job = Job(
        bootstrap_servers, tmp_path, tmp_path.name, *(word for each in retention for word in ("--set", each))
    )
    yield job
    job.kill()


@pytest.fixture
def lag(job: Job, bootstrap_servers: str, tmp_path: Path) -> Iterator[Process]:
    job.wait_for("topics are ready")
    lag = Process(
        tmp_path,
        *("measure-lag", "--bootstrap-server", bootstrap_servers, "--groups", "etl-*", "--metrics-port", "0"),
        *("--set", f"topics.offsets={job.topics['offsets']}"),
    )
    yield lag
    lag.kill()


@pytest.fixture
def prometheus(job: Job, lag: Process, tmp_path: Path) -> Iterator[Prometheus]:
    ports = {"group-coordinator": job.metrics_port(), "group-coordinator-lag": lag.metrics_port()}
    configuration = configured(tmp_path, ports)
    copied = tmp_path / RULES.name
    rules = yaml.safe_load(copied.read_text())
    every = {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}
    for alert, waits in SHORTENED.items():
        assert every[alert]["for"] == waits
        every[alert]["for"] = "1m"
    copied.write_text(yaml.safe_dump(rules))
    with Prometheus(tmp_path, configuration) as prometheus:
        yield prometheus


class Groups:
    """Groups that stand still, fall behind, are slower than retention, or never commit again."""

    def __init__(self, admin: AdminClient, kafka: KafkaAdminClient, producer: KafkaProducer) -> None:
        self._admin, self._kafka, self._producer = admin, kafka, producer
        self._ends = {STANDING: self._write(STANDING, 5), DELETED: self._write(DELETED, 2_000)}
        self._done = self._late = 0
        self._began_s = time.monotonic()

    def begin(self) -> None:
        """Have one commit once. Its log is empty."""
        self._commit("etl-gone", EMPTY, 0)

    def go_on(self) -> None:
        """Have one commit where it stands, and the other one a record further, while three are written.

        A third one commits a record further in three seconds, while the oldest three of its log go.
        """
        self._ends[GROWING] = self._write(GROWING, 3)
        self._done += 1
        self._commit("etl-standing", STANDING, 0)
        self._commit("etl-slow", GROWING, self._done)
        gone = round(time.monotonic() - self._began_s)
        self._late = 1_000 + gone // 3
        self._commit("etl-late", DELETED, self._late)
        self._kafka.delete_records({DELETED: gone})

    def lose(self) -> None:
        """Delete records that one has not committed past."""
        self._commit("etl-late", DELETED, self._late)
        self._kafka.delete_records({DELETED: self._late + 10})

    def catch_up(self) -> None:
        """Have all commit where their logs end."""
        self._commit("etl-late", DELETED, self._ends[DELETED])
        self._commit("etl-standing", STANDING, self._ends[STANDING])
        self._commit("etl-slow", GROWING, self._ends[GROWING])

    def _write(self, where: TopicPartition, count: int) -> int:
        sent = [self._producer.send(where.topic, b"x", partition=where.partition) for _ in range(count)]
        end: int = sent[-1].get(60).offset + 1
        return end

    def _commit(self, group_id: str, where: TopicPartition, offset: int) -> None:
        self._admin.alter_group_offsets(group_id, {where: OffsetAndMetadata(offset, "", -1)})


@pytest.fixture
def groups(job: Job, bootstrap_servers: str) -> Iterator[Groups]:
    job.wait_for("the coordinator is running")
    topics = {"request_topic": job.topics["requests"], "response_topic": job.topics["responses"]}
    with (
        closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as kafka,
        closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer,
        closing(AdminClient(bootstrap_servers=bootstrap_servers, **topics)) as admin,
    ):
        kafka.create_topics([NewTopic("alerts", 4, 1)])
        yield Groups(admin, kafka, producer)


def test_alerts_about_lag_and_offsets_fire(prometheus: Prometheus, lag: Process, groups: Groups) -> None:
    """Prometheus, its rules and `measure-lag` have the settings they are shipped with, but for two things.

    Offsets expire after a minute without a commit, the least that can be set, and not after a week. A growing
    lag is known after three minutes. Its alert, and that of records that are lost soon, wait for one minute
    then, and not for ten or five.
    """

    wait_for(lambda: prometheus.query("group_coordinator_offsets_total"))
    assert prometheus.firing() == {}
    groups.begin()
    for alert in ("OffsetsExpired", "GroupStalled", "GroupLagGrowing", "GroupLosesRecordsSoon"):
        wait_for(
            lambda alert=alert: alert in prometheus.firing(), meanwhile=groups.go_on, said=lambda: lag.said
        )
    fired = prometheus.firing()
    soon, soon_summary = fired.pop("GroupLosesRecordsSoon")
    assert (soon, soon_summary.rpartition(" in ")[0]) == (
        "etl-late",
        "Retention reaches records that group etl-late has left",
    )
    expired, expired_summary = fired.pop("OffsetsExpired")
    assert expired is None
    assert expired_summary.endswith("committed offsets have expired in ten minutes.")
    still = "Group etl-standing stands still in 1 partitions that have records for it."
    assert fired == {
        "GroupStalled": ("etl-standing", still),
        "GroupLagGrowing": ("etl-slow", "Group etl-slow falls behind further and further."),
    }
    wait_for(lambda: "GroupLosesRecords" in prometheus.firing(), meanwhile=groups.lose)
    loser, lost = prometheus.firing()["GroupLosesRecords"]
    assert loser == "etl-late"
    # Its last commit may be read later than the begin of the log.
    told = r"Retention has deleted 1\d records before group etl-late had committed past them\."
    assert re.fullmatch(told, lost)
    assert "GroupLosesRecordsSoon" not in prometheus.firing()
    # Nobody has expired whose group goes on, and what was told is over when both have caught up.
    # What is lost is told for ten minutes more.
    gone = {"OffsetsExpired", "GroupLosesRecords"}
    wait_for(lambda: set(prometheus.firing()) == gone, meanwhile=groups.catch_up)


# -- the disk --------------------------------------------------------------------------------------------

SIZE, FILLED = 1_400_000_000, 500_000_000
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
MOUNT = f'mount -t tmpfs -o size={SIZE} tmpfs "$0" && exec "$@"'


@pytest.fixture
def job_with_disk(bootstrap_servers: str, tmp_path: Path) -> Iterator[Job]:
    """A coordinator whose checkpoint has a disk of its own, which no other process sees."""
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    within = (*UNSHARE, "sh", "-c", MOUNT, str(checkpoint))
    if subprocess.run([*within, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a disk in a namespace of its own (unshare)")
    job = Job(bootstrap_servers, tmp_path, tmp_path.name, within=within)
    yield job
    job.kill()


def test_an_alert_fires_when_the_disk_of_the_checkpoint_fills(job_with_disk: Job, tmp_path: Path) -> None:
    """All settings are those that are shipped, the rules included. The disk is small, and in memory."""
    job = job_with_disk
    disk = Path(f"/proc/{job.pid}/root{job.checkpoint}")
    job.wait_for("the coordinator is running")
    with Prometheus(tmp_path, configured(tmp_path, {"group-coordinator": job.metrics_port()})) as prometheus:
        name = "group_coordinator_checkpoint"
        wait_for(lambda: prometheus.query(f"{name}_bytes > 0 and {name}_free_bytes > 1e9"))
        assert prometheus.firing() == {}
        with (disk / "somebody-elses").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, FILLED)
        wait_for(lambda: prometheus.query(f"{name}_free_bytes < 1e9"))
        ((_, summary),) = wait_for(prometheus.firing, said=lambda: job.said).values()
        assert prometheus.firing().keys() == {"CoordinatorDiskFills"}
        assert summary.startswith("The checkpoint's disk has 8")
        (disk / "somebody-elses").unlink()
        wait_for(lambda: prometheus.firing() == {})
