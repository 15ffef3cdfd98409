from __future__ import annotations

import itertools
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.commands.cli import main
from group_coordinator.coordinator_state.events import ClockCorrected, Event, RequestLate
from group_coordinator.jobs.session import archive_options
from tests.commands.job import ROOT
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("own_environment")

JOIN: dict[str, Any] = {
    "api": "join_group",
    "api_version": 3,
    "session_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": ""}],
}


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["checkpoint", *arguments])


def process(*arguments: str) -> str:
    """Run it with a Spark of its own; what it prints."""
    command = [sys.executable, "-m", "group_coordinator", "checkpoint", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr
    return done.stdout


# -- without Kafka -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect"], "Missing argument 'PATH'"),
        (["inspect", "p", "--batch", "-1"], "-1 is not in the range x>=0"),
        (["inspect", "p", "--output", "csv"], "'csv' is not one of 'table', 'json'"),
        (["inspect", "p", "--set", "group.max.size"], "--set wants NAME=VALUE, not 'group.max.size'"),
        (["export", "p"], "Missing option '--to'"),
        (["restore", "e.jsonl"], "Missing option '--to'"),
        (["restore", "e.jsonl", "--to", "c", "--state-partitions", "0"], "0 is not in the range x>=1"),
        (["replay"], "Missing argument 'EXPORT'"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize("command", ["inspect", "export", "restore", "replay"])
def test_help_needs_neither_java_nor_settings(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "")
    result = invoke(command, "--help")

    assert (result.exit_code, result.stderr) == (0, "")
    assert "--set NAME=VALUE" in result.stdout


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["restore", "e.jsonl", "--to", "c", "--bootstrap-server", ""], "bootstrap.servers is not set: "),
        (["inspect", "c", "--set", "group.max.sice=1"], "there is no setting group.max.sice; did you mean"),
        (["replay", "no.jsonl", "--bootstrap-server", "h:1"], "cannot read no.jsonl: No such file"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1


@pytest.mark.spark
@pytest.mark.parametrize("command", [["inspect"], ["export", "--to", "groups.jsonl"]])
def test_a_place_that_is_no_checkpoint_is_told_without_spark(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark takes ten seconds to start, and a look at the directory takes none")

    monkeypatch.setattr("group_coordinator.jobs.session.create_session", create_session)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    result = invoke(*command, str(tmp_path / "nope"))

    assert (1, f"error: {tmp_path}/nope is not the checkpoint of a coordinator: name one that is\n") == (
        result.exit_code,
        result.stderr,
    )
    # Where Hadoop says what a path is, Spark has to look.
    elsewhere = ("--set", "spark.hadoop.fs.defaultFS=hdfs://namenode:9000")
    with pytest.raises(AssertionError, match="ten seconds"):
        CliRunner().invoke(main, ["checkpoint", *command, "/nope", *elsewhere], catch_exceptions=False)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("command", "has_delta"),
    [(["inspect"], False), (["export", "--to", "it.jsonl"], False), (["export", "--to", "table"], True)],
)
def test_spark_is_started_with_delta_only_for_a_table(
    command: list[str], has_delta: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta makes a start take twice as long. What Java has archived makes it shorter."""
    (tmp_path / "coordinator.json").touch()
    asked: list[dict[str, str]] = []

    def create_session(*_: object, defaults: dict[str, str], **__: object) -> None:
        asked.append(defaults)
        raise CheckpointError("not today")

    monkeypatch.setattr("group_coordinator.jobs.session.create_session", create_session)
    assert invoke(*command, str(tmp_path)).stderr == "error: not today\n"
    (defaults,) = asked
    assert has_delta == ("spark.sql.extensions" in defaults)
    assert archive_options() in defaults["spark.driver.extraJavaOptions"]


# -- with Spark ----------------------------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.spark
def test_from_one_checkpoint_to_another(bootstrap_servers: str, tmp_path: Path) -> None:
    """Each command in a process of its own, as people run them: by way of a Delta table, to other topics."""
    from tests.checkpoints.fixtures.make import SECRET, ScriptedLog
    from tests.checkpoints.test_upgrades import VERSIONS, unpacked

    checkpoint, table, restored = (
        unpacked(VERSIONS[-1], tmp_path),
        str(tmp_path / "table"),
        tmp_path / "restored",
    )
    with closing(ScriptedLog(bootstrap_servers, 20)) as log:
        log.create()
        log.send("stable", "c0-beat", 0, api="describe_group")

    process("export", checkpoint, "--to", table)
    process(
        *("restore", table, "--to", str(restored), "--state-partitions", "3"),
        *("--request-topic", "version-20.requests", "--clock-topic", "version-20.clock"),
        *("--starting-offsets", "latest", "--bootstrap-server", bootstrap_servers),
        *("--set", f"member.id.secret={SECRET}"),
    )
    found = json.loads(process("inspect", str(restored), "--output", "json"))

    # One is Stable; one waits for one of its two members to rejoin; one was deleted a moment before.
    groups = found["groups"]
    assert (4, 3, 1) == tuple(groups[name] for name in ("total", "members", "offsets"))
    assert {"Dead": 1, "Empty": 1, "PreparingRebalance": 1, "Stable": 1} == groups["by_state"]
    assert {"deleted", "offsets", "rebalancing", "stable"} == {each["group_id"] for each in groups["largest"]}
    identity = json.loads((restored / "coordinator.json").read_text())
    assert identity == found["identity"]
    assert (3, "version-20.requests", "") == (
        identity["state_partitions"],
        identity["request_topic"],
        identity["secret"],
    )
    assert {"version-20.clock": {"0": 0}, "version-20.requests": {"0": 1}} == found["batch"]["offsets"]


# -- replay, which needs none --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _records(bootstrap_servers: str) -> None:
    """Two groups come to be, at 0 s and at 5 s of the log."""
    from tests.checkpoints.fixtures.make import ScriptedLog

    with closing(ScriptedLog(bootstrap_servers, 30)) as log:
        log.create()
        log.send("first", "c0-join", 0, **JOIN)
        log.send("second", "c1-join", 5_000, **JOIN)


@pytest.fixture
def replay(bootstrap_servers: str, tmp_path: Path, _records: None) -> Any:
    """Run it with an export of no groups that ends before the first record."""
    from group_coordinator.checkpoints.export import Export, ExportHeader
    from group_coordinator.checkpoints.identity import Identity, secret_sha256
    from group_coordinator.checkpoints.json_lines import write_json_lines
    from group_coordinator.coordinator_state.stored import SCHEMA_VERSION
    from tests.checkpoints.fixtures.make import TOPICS

    numbers = itertools.count()

    def replay(*arguments: str, secret: str = "kept", offset: int = 0) -> Result:
        file = tmp_path / f"{next(numbers)}.jsonl"
        identity = Identity(
            schema_version=SCHEMA_VERSION,
            request_topic="version-30.requests",
            clock_topic="version-30.clock",
            state_partitions=2,
            secret=secret,
            secret_sha256=secret_sha256("kept"),
        )
        header = ExportHeader(
            schema_version=SCHEMA_VERSION,
            batch_id=0,
            offsets={"version-30.requests": {0: offset}},
            watermark_ms=0,
            groups=0,
            identity=identity,
        )
        write_json_lines(Export(header, iter(())), file)
        topics = (word for name in TOPICS for word in ("--set", f"topics.{name}=version-30.{name}"))
        servers = ("--bootstrap-server", bootstrap_servers)
        return invoke("replay", str(file), *servers, *topics, *arguments)

    return replay


def happened(result: Result) -> list[tuple[str, str]]:
    assert (result.exit_code, result.stderr) == (0, "")
    events = map(json.loads, result.stdout.splitlines())
    return [(event["group_id"], event["event"]) for event in events]


@pytest.mark.spark
def test_replay(replay: Any) -> None:
    everything = happened(replay())

    assert {"first", "second"} == {group_id for group_id, _ in everything}
    assert ("first", "member_removed") not in everything
    assert [each for each in everything if each[0] == "second"] == happened(replay("--group", "second"))
    assert happened(replay("--group", "first")) == happened(replay("--to", '{"0": 1}'))
    assert happened(replay("--group", "second")) == happened(replay(offset=1))
    assert happened(replay(offset=1)) == happened(replay("--from", "2020-01-01T00:00:01"))
    assert [] == happened(replay("--from", "latest"))


@pytest.mark.spark
def test_what_replay_prints_steers_no_terminal(replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = {"group_id": "é\x1b[2J\x9b1m\u202e", "event": "member_added"}
    printed = msgspec.json.encode(hostile).decode()
    assert "\x9b" in printed
    monkeypatch.setattr("group_coordinator.commands.checkpoint.replaying.events", lambda *_, **__: [printed])
    result = replay()

    assert json.loads(result.stdout) == hostile
    assert r'"é\u001b[2J\u009b1m\u202e"' in result.stdout


@pytest.mark.spark
def test_replay_until_deadlines(replay: Any, tmp_path: Path) -> None:
    """The initial delay, 3 s, and then the session of 10 s: the time to sync is over by then, too."""
    # With notes of a kind that is not known.
    (tmp_path / "ledger.json").write_text(
        '{"outages": [[1577836800500, 1577840400000]], "shifts": [[0, 0, 3600000]]}'
    )
    late = happened(replay("--until", "2020-01-01T00:05:00"))
    outage = ("--ledger", str(tmp_path / "ledger.json"))

    assert {"first", "second"} == {group_id for group_id, event in late if event == "member_removed"}
    assert "member_removed" not in str(happened(replay("--until", "2020-01-01T00:05:00", *outage)))


@pytest.mark.spark
def test_replay_with_late_requests(replay: Any, bootstrap_servers: str) -> None:
    """The second member's join was read when it was 7 s."""
    first_at, second_at = (json.loads(line)["at_ms"] for line in _created(replay()))
    event = RequestLate(
        event_id="version-30.requests-0-1-late-0",
        at_ms=first_at + 7_000,
        group_id="second",
        partition=0,
        offset=1,
        appended_ms=second_at,
    )
    _tell(bootstrap_servers, event)

    assert [json.loads(line)["at_ms"] for line in _created(replay())] == [first_at, first_at + 7_000]


@pytest.mark.spark
def test_replay_with_a_clock_that_was_wrong(replay: Any, bootstrap_servers: str) -> None:
    """The first member's join came an hour later than its broker's clock said."""

    def told() -> list[dict[str, Any]]:
        result = replay("--group", "first", "--to", '{"0": 1}')
        return [json.loads(line) for line in result.stdout.splitlines()]

    by_its_clock = told()
    appended_ms = by_its_clock[0]["at_ms"]
    event = ClockCorrected(
        event_id="version-30.requests-0-0-clock-0",
        at_ms=appended_ms + 3_600_000,
        group_id="first",
        partition=0,
        offset=0,
        appended_ms=appended_ms,
        shift_ms=3_600_000,
        skipped_ms=1_000,
    )
    _tell(bootstrap_servers, event)

    later = [it | {"at_ms": it["at_ms"] + 3_600_000} for it in by_its_clock]
    assert told() == [msgspec.to_builtins(event), *later]


def _created(result: Result) -> list[str]:
    return [line for line in result.stdout.splitlines() if '"group_created"' in line]


def _tell(bootstrap_servers: str, event: Event) -> None:
    """As the coordinator has told it."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
        value = msgspec.json.encode(event)
        producer.send("version-30.events", key=event.group_id.encode(), value=value).get(10)


@pytest.mark.spark
def test_replay_needs_the_secret(replay: Any) -> None:
    without, other = replay(secret=""), replay("--set", "member.id.secret=other")

    assert (
        "error: the export has no secret for member ids: export with --with-secret, or set" in without.stderr
    )
    assert "error: member.id.secret is not the one of the export: set that one\n" == other.stderr
    assert happened(replay()) == happened(replay("--set", "member.id.secret=kept", secret=""))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "yesterday"], "'yesterday' is neither earliest nor latest"),
        (["--until", "yesterday"], "'yesterday' is neither earliest nor latest"),
        (["--set", "topics.events=nowhere"], "there is no topic nowhere: name the one that the coordinator"),
        (["--ledger", "no/such"], "cannot read no/such: No such file or directory"),
        (["--ledger", __file__], f"{__file__} is no ledger of a checkpoint: "),
    ],
)
def test_what_replay_refuses(replay: Any, arguments: list[str], message: str) -> None:
    result = replay(*arguments)

    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith(f"error: {message}")


@pytest.mark.spark
def test_replay_of_records_that_are_gone(replay: Any, bootstrap_servers: str) -> None:
    """Runs last: it deletes the first record."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.delete_records({TopicPartition("version-30.requests", 0): 1})
    admin.close()
    result = replay()

    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr == (
        "error: version-30.requests-0 begins at offset 1, and 0 is wanted: the records before are gone. "
        "Begin later, or with a newer export\n"
    )
