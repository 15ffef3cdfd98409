from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from click import Command
from click.testing import CliRunner, Result
from kafka import KafkaProducer

from group_coordinator.commands.gateway import gateway
from group_coordinator.commands.run import _embed, _this_command, run
from group_coordinator.commands.terminal import at_terminal
from group_coordinator.commands.write_history import write_history
from group_coordinator.deploy import broker, extras
from group_coordinator.streaming import leadership
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.settings import CoordinatorSettings
from tests.commands.job import Job, Process
from tests.patience import PATIENCE_S, wait_for

pytestmark = pytest.mark.usefixtures("own_environment")

# By its name, because the package has the command of this name.
run_module = import_module("group_coordinator.commands.run")


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
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pyspark" else find_spec(name))

    expected = (
        "error: pyspark is not installed. In the clone that group-coordinator comes from, run: "
        "pip install '.[spark]'"
    )
    assert expected == error("--embedded")


def test_without_the_delta_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "delta" else find_spec(name))
    result = CliRunner().invoke(write_history, ["--history-path", "there"])

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: delta is not installed. In the clone")
    assert result.stderr.endswith("run: pip install '.[delta]'\n")


def test_without_the_gateway_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = "prometheus_client"
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == absent else find_spec(name))
    result = CliRunner().invoke(gateway, [])

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: prometheus_client is not installed. In the clone")
    assert result.stderr.endswith("run: pip install '.[gateway]'\n")


def test_without_click_it_says_what_to_install() -> None:
    """As installed for a program that is only a member."""
    program = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'click' else found(name)\n"
        "from group_coordinator.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the command needs click, which is not installed.")
    assert done.stderr.endswith("run: pip install '.[cli]'\n")


def test_help_needs_neither_java_nor_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    result = invoke("--help")

    assert (result.exit_code, result.stderr) == (0, "")
    for option in (
        "--bootstrap-server",
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
        (["--bootstrap-server", ""], "bootstrap.servers is not set: give --bootstrap-server, set GROUP_"),
        ([], "checkpoint is not set: give --checkpoint, set GROUP_COORDINATOR_"),
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


@pytest.mark.parametrize(
    ("command", "where"), [(run, "--checkpoint"), (write_history, "--history-path")], ids=["run", "write"]
)
def test_where_the_log_is_json_the_error_is_too(
    command: Command, where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    settings = ["log.format=json", "kafka.security.protocol=NONE"]
    words = [word for setting in settings for word in ("--set", setting)]
    result = CliRunner().invoke(command, ["--bootstrap-server", "kafka:9092", where, "there", *words])

    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = map(json.loads, result.stderr.splitlines())
    assert (line["level"], line["event"].partition(",")[0]) == (
        "error",
        "kafka.security.protocol is NONE",
    )


def test_the_commands_to_try_next_can_be_typed_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / ".venv" / "bin" / "group-coordinator"
    fake_java(tmp_path / ".venv", "17").rename(program)
    monkeypatch.setattr(sys, "argv", [str(program), "run"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert _this_command() == ".venv/bin/group-coordinator"
    monkeypatch.setenv("PATH", str(program.parent))
    assert _this_command() == "group-coordinator"
    monkeypatch.setattr(sys, "argv", ["/x/group_coordinator/__main__.py", "run"])
    assert _this_command() == f"{sys.executable} -m group_coordinator"


def test_kafkas_usual_port_may_be_taken_while_it_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by another one that somebody has started at the same time."""

    class Broker:
        def __init__(self, _directory: Path, *, port: int = 0) -> None:
            self.port = port
            self.bootstrap_servers = f"127.0.0.1:{port}"

        def __enter__(self) -> Self:
            if self.port:
                raise broker.PortInUseError("Port 9092 is in use.")
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(broker, "EmbeddedBroker", Broker)
    monkeypatch.setattr(broker, "is_free", lambda *_, **__: True)
    monkeypatch.setattr(run_module, "_start_gateway", lambda *_: None)
    with ExitStack() as stack:
        assert _embed(stack, {})["bootstrap.servers"] == "127.0.0.1:0"
    # The commands to try next go to the other port.
    said = capsys.readouterr().err
    for command in ("member --group g --units 12", "groups --describe --all-groups"):
        assert f" {command} --bootstrap-server 127.0.0.1:0\n" in said


@pytest.mark.parametrize("option", ["metrics.port", "ui.port"])
def test_who_else_runs_is_told_before_the_port_that_is_taken(
    option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    rivals: list[str] = []

    def check_alone(settings: CoordinatorSettings) -> None:
        for rival in rivals:
            raise CoordinatorError(rival)

    monkeypatch.setattr(leadership, "check_alone", check_alone)
    places = (
        "--bootstrap-server",
        "127.0.0.1:1",
        "--checkpoint",
        str(tmp_path / "c"),
        "--metrics-port",
        "-1",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"{port}: Address already in use" in error(*places, "--set", f"{option}={port}")
        rivals.append("another one")
        assert error(*places, "--set", f"{option}={port}") == "error: another one"


@pytest.mark.parametrize(
    ("settings", "form"),
    [
        (CoordinatorSettings(), "short"),
        (CoordinatorSettings(log_format="json"), "json"),
        (CoordinatorSettings(spark={"spark.master": "local[4]"}), "short"),
        # There it is the executors that log.
        (CoordinatorSettings(spark={"spark.master": "spark://m:7077"}), "auto"),
    ],
)
def test_a_terminal_has_short_lines_unless_asked_otherwise(
    settings: CoordinatorSettings, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at_terminal(settings) == settings
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True))
    assert at_terminal(settings).log_format == form


# -- with a real broker ------------------------------------------------------------------------------


@pytest.mark.spark
def test_missing_topics(bootstrap_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A JVM of this start would be the one of every later test, with the settings of this start.
    monkeypatch.setattr("group_coordinator.streaming.service.start_java", lambda *_: None)
    places = ("--bootstrap-server", bootstrap_servers, "--checkpoint", str(tmp_path))
    result = invoke(*places, "--metrics-port", "-1", "--set", "topics.clock=nowhere")

    assert (result.exit_code, result.stdout) == (1, "")
    connecting, message = result.stderr.splitlines()
    assert connecting == f"connecting to Kafka at {bootstrap_servers}"
    assert message.startswith("error: topics are missing: ")
    assert "nowhere" in message
    assert message.endswith("Create them, or start with --create-topics")


def send(bootstrap_servers: str, topic: str, group_id: str, **request: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    value = {"request_id": "r1", "client_id": "c1", "group_id": group_id} | request
    producer.send(topic, key=group_id.encode(), value=json.dumps(value).encode())
    producer.close()


# On a busy machine a tick may be late, upon which the query would begin anew, and Spark says so.
PATIENT = ("--set", "clock.max.gap.ms=60000")


@pytest.mark.spark
def test_it_runs_until_it_is_told_to_stop(start: Callable[..., Job], bootstrap_servers: str) -> None:
    # Spark keeps up the state all the time, also while it stops.
    job = start(*PATIENT, "--set", "spark.sql.streaming.stateStore.maintenanceInterval=5ms")
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
    wait_for(lambda: job.metrics().get(("group_coordinator_input_lag_records",)) == 0)
    # Spark tells of a batch some time after it has ended.
    wait_for(lambda: job.metrics()["group_coordinator_watermark_age_seconds",] > 0)
    metrics = job.metrics()
    during = job.processes()
    wait_for(lambda: any("event=member_removed" in line for line in job.said))
    job.terminate_all()

    assert job.exit_code() == 0
    assert job.said[-2:] == ["stopping after the running batch", "stopped"]
    assert job.batches("offsets") == job.batches("commits")
    assert any("java" in process for process in during)
    wait_for(lambda: not job.processes())

    (added,) = [line for line in job.said if " level=info event=member_added " in line]
    member = re.search(r" group=g member=(c1-[0-9a-f-]+) request_id=r1 generation=0 ", added)
    assert member is not None, added
    (removed,) = [line for line in job.said if " level=info event=member_removed " in line]
    assert f" group=g member={member[1]} generation=1 " in removed
    assert " client_id=c1 reason=session_expired" in removed

    promised = {
        ("group_coordinator_requests_total", "join_group"): 1,
        ("group_coordinator_responses_total", "join_group", "NONE"): 1,
        ("group_coordinator_rebalances_total", "member_joined"): 1,
        ("group_coordinator_rebalances_total", "session_expired"): 1,
        ("group_coordinator_members",): 0,
        ("group_coordinator_state_rows",): 1,
        ("group_coordinator_query_up",): 1,
    }
    assert {name: metrics.get(name) for name in promised} == promised
    assert metrics["group_coordinator_batch_duration_seconds_count",] > 0
    assert 0 < metrics["group_coordinator_watermark_age_seconds",] < PATIENCE_S


@pytest.mark.verify
@pytest.mark.spark
def test_it_goes_on_when_started_again_and_says_so_as_json(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    job = start(*PATIENT)
    job.wait_for("the coordinator is running")
    wait_for(lambda: job.batches("commits"))
    job.terminate()
    assert job.exit_code() == 0

    done = job.batches("commits")
    job = start(*PATIENT, "--set", "log.format=json")
    wait_for(lambda: '"the coordinator is running"' in "".join(job.said) and job.batches("commits") > done)
    send(bootstrap_servers, job.topics["requests"], "g", api="heartbeat", member_id="m\n", generation_id=1)
    wait_for(lambda: "request_refused" in "".join(job.said))
    job.interrupt()

    assert job.exit_code() == 0
    # The rest is Java's.
    told = [json.loads(line) for line in job.said if line.startswith("{")]
    for_people = [line["event"] for line in told if "logger" not in line and "group" not in line]
    assert for_people[-3:] == ["the coordinator is running", "stopping after the running batch", "stopped"]
    assert not {"the coordinator is running", "stopped"}.intersection(job.said)
    (refused,) = [line for line in told if line["event"] == "request_refused"]
    assert (refused["level"], refused["group"], refused["member"]) == ("warning", "g", "m\n")
    assert (refused["request_id"], refused["error"]) == ("r1", "UNKNOWN_MEMBER_ID")
    assert [line for line in job.said if "Traceback" in line or "ERROR" in line] == []
    assert job.batches("offsets") == job.batches("commits")
    wait_for(lambda: not job.processes())


@pytest.mark.verify
@pytest.mark.spark
def test_sigterm_while_it_starts_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    game = Process(tmp_path, "run", "--embedded")
    try:
        game.wait_for("starting Spark")
        game.terminate()
        assert game.exit_code() == 128 + signal.SIGTERM
        assert [line for line in game.said if "Traceback" in line] == []
        assert list(directory.glob("group-coordinator-*")) == []
        wait_for(lambda: not game.processes())
    finally:
        game.kill()


@pytest.mark.verify
@pytest.mark.spark
def test_what_spark_refuses_is_one_line(start: Callable[..., Job]) -> None:
    job = start("--set", "kafka.auto.offset.reset=latest")

    assert job.error() == "the query cannot start: Kafka option 'auto.offset.reset' is not supported."
    assert [line for line in job.said if "Traceback" in line] == []
    wait_for(lambda: not job.processes())
