from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from kafka import KafkaProducer
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator import terminal
from group_coordinator.run_command import run

ROOT = Path(__file__).parents[2]
DEADLINE_S = 90
COMMAND = [sys.executable, "-m", "group_coordinator", "run"]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command changes is put back, and settings of this machine do not count."""
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    for name in list(os.environ):
        if name.startswith("GROUP_COORDINATOR_") and name != "GROUP_COORDINATOR_CACHE":
            monkeypatch.delenv(name)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(run, list(arguments))


def error(*arguments: str) -> str:
    """The one line of a failure that the user can mend."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    return result.stderr.removesuffix("\n")


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


# -- without Kafka -----------------------------------------------------------------------------------


def test_without_the_spark_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """As installed for a program that is only a member."""
    monkeypatch.setattr(terminal, "find_spec", lambda name: None if name == "pyspark" else find_spec(name))

    expected = (
        "error: this needs Spark (pyspark not installed): install group-coordinator with its extra [spark]"
    )
    assert expected == error("--embedded")


def test_help_needs_neither_java_nor_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    result = invoke("--help")

    assert (result.exit_code, result.stderr) == (0, "")
    for option in (
        "--bootstrap-servers",
        "--checkpoint",
        "--config",
        "--create-topics",
        "--set",
        "--embedded",
    ):
        assert option in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-such-option"], "No such option"),
        (["--metrics-port", "many"], "'many' is not a valid integer"),
        (["--set", "group.max.size"], "--set wants NAME=VALUE, not 'group.max.size'"),
        (["surplus"], "unexpected extra argument"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")

    assert error().startswith("error: Java 17 or newer is needed; none is on PATH and JAVA_HOME is not set.")


def test_with_a_java_that_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = fake_java(tmp_path, "11.0.22")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert error().startswith(f"error: Java 17 or newer is needed; found Java 11 at {java}.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "bootstrap.servers is not set: give --bootstrap-servers, set GROUP_COORDINATOR_"),
        (["--bootstrap-servers", "kafka:9092"], "checkpoint is not set: give --checkpoint, set GROUP_"),
        (["--set", "group.max.sice=1"], "there is no setting group.max.sice; did you mean group.max.size?"),
        (["--config", "no/such.toml"], "cannot read settings file no/such.toml: No such file or directory"),
    ],
)
def test_settings_that_cannot_be_used(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert error(*arguments).startswith(f"error: {message}")


def test_the_settings_file_may_be_named_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("GROUP_COORDINATOR_CONFIG", str(tmp_path / "settings.toml"))
    (tmp_path / "settings.toml").write_text('bootstrap.servers = "kafka:9092"')

    assert error().startswith("error: checkpoint is not set")


def test_an_option_wins_over_the_settings_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    file = tmp_path / "settings.toml"
    file.write_text('starting.offsets = "first"\nbootstrap.servers = "kafka:9092"\ncheckpoint = "c"')

    assert "is 'last'" in error("--config", str(file), "--set", "starting.offsets=last")


# -- with a real broker ------------------------------------------------------------------------------


@pytest.mark.spark
def test_missing_topics(bootstrap_servers: str, tmp_path: Path) -> None:
    message = error(
        "--bootstrap-servers",
        bootstrap_servers,
        "--checkpoint",
        str(tmp_path),
        "--set",
        "topics.clock=nowhere",
    )

    assert message.startswith("error: topics are missing: ")
    assert "nowhere" in message
    assert message.endswith("Create them, or start with --create-topics")


class Job:
    """`run` as a process of its own, with a session of its own: so its children can be told from others."""

    def __init__(self, bootstrap_servers: str, directory: Path, name: str, *arguments: str) -> None:
        self.checkpoint = directory / "checkpoint"
        self.topics = {
            topic: f"{name}.{topic}"
            for topic in ("requests", "clock", "responses", "groups", "events", "rejected")
        }
        settings = {f"topics.{topic}": it for topic, it in self.topics.items()} | {
            "clock.interval.ms": "200",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "spark.sql.shuffle.partitions": "2",
        }
        self._log = directory / "stderr"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *COMMAND,
                    *("--bootstrap-servers", bootstrap_servers, "--checkpoint", str(self.checkpoint)),
                    *("--create-topics", "--metrics-port", "0"),
                    *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
                    *arguments,
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    @property
    def said(self) -> list[str]:
        return self._log.read_text(errors="replace").splitlines()

    def wait_for(self, line: str) -> str:
        """Wait until it has said a line that begins so, and return the rest of that line."""

        def found() -> list[str]:
            return [it.removeprefix(line) for it in self.said if it.startswith(line)]

        wait_for(lambda: bool(found()) or self._process.poll() is not None)
        assert found(), self.said
        return found()[0]

    def metrics(self) -> dict[tuple[str, ...], float]:
        """What /metrics says, by sample name and label values."""
        url = self.wait_for("metrics are at ")
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    def interrupt(self) -> None:
        """As Ctrl-C does it: to all processes of the terminal."""
        os.killpg(self._process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """As supervisors do it: to the main process."""
        self._process.terminate()

    def exit_code(self) -> int:
        self._process.communicate(timeout=DEADLINE_S)
        return self._process.returncode

    def processes(self) -> list[str]:
        """Command lines of all processes of its session."""
        done = subprocess.run(
            ["ps", "-o", "args=", "-s", str(self._process.pid)], capture_output=True, text=True, check=False
        )
        return done.stdout.splitlines()

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def batches(self, log: str) -> set[str]:
        return {file.name for file in (self.checkpoint / log).iterdir() if file.name.isdigit()}


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)


@pytest.fixture
def start(bootstrap_servers: str, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Start jobs that all have the same topics and checkpoint."""
    jobs: list[Job] = []

    def start(*arguments: str) -> Job:
        jobs.append(Job(bootstrap_servers, tmp_path, tmp_path.name, *arguments))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()


def send(bootstrap_servers: str, topic: str, group_id: str, **request: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    value = {"request_id": "r1", "client_id": "c1", "group_id": group_id} | request
    producer.send(topic, key=group_id.encode(), value=json.dumps(value).encode())
    producer.close()


@pytest.mark.spark
def test_it_runs_until_it_is_told_to_stop_and_goes_on_when_started_again(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    job = start()
    job.wait_for("the coordinator is running")
    join = {
        "api": "join_group",
        "api_version": 3,  # makes a member at once
        "session_timeout_ms": 1_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": ""}],
    }
    send(bootstrap_servers, job.topics["requests"], "g", **join)
    # Nobody sends a heartbeat: the session ends by the clock, and the group stays, empty.
    wait_for(lambda: job.metrics().get(("group_coordinator_session_expirations_total",)) == 1)
    wait_for(lambda: job.metrics()["group_coordinator_groups", "Empty"] == 1)
    metrics = job.metrics()
    during = job.processes()
    job.terminate()

    assert job.exit_code() == 0
    assert job.said[-1] == "stopped"
    assert job.batches("offsets") == job.batches("commits")
    assert any("java" in process for process in during)
    wait_for(lambda: not job.processes())

    promised = {
        ("group_coordinator_requests_total", "join_group"): 1,
        ("group_coordinator_responses_total", "join_group", "NONE"): 1,
        ("group_coordinator_rebalances_total",): 2,  # it came, it went
        ("group_coordinator_members",): 0,
        ("group_coordinator_state_rows",): 1,
        ("group_coordinator_input_lag_records",): 0,
        ("group_coordinator_query_up",): 1,
    }
    assert {name: metrics.get(name) for name in promised} == promised
    assert metrics["group_coordinator_batch_duration_seconds_count",] > 0
    assert 0 < metrics["group_coordinator_watermark_age_seconds",] < DEADLINE_S

    done = job.batches("commits")
    job = start()
    wait_for(lambda: "the coordinator is running" in job.said and job.batches("commits") > done)
    job.interrupt()

    assert job.exit_code() == 0
    assert [line for line in job.said if "Traceback" in line or "ERROR" in line] == []
    assert job.batches("offsets") == job.batches("commits")
    wait_for(lambda: not job.processes())


@pytest.mark.spark
def test_what_spark_refuses_is_one_line(start: Callable[..., Job]) -> None:
    job = start("--set", "kafka.auto.offset.reset=latest")

    assert job.exit_code() == 1
    assert job.said[-1] == (
        "error: the query cannot start: Kafka option 'auto.offset.reset' is not supported."
    )
    assert [line for line in job.said if "Traceback" in line] == []
    wait_for(lambda: not job.processes())
