from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result
from kafka.errors import KafkaTimeoutError

from group_coordinator import MissingTopicError
from group_coordinator.commands.cli import main
from group_coordinator.commands.member import joining


def run(*arguments: str) -> Result:
    # A port where nobody listens: what is wrong has to show before anything is sent.
    return CliRunner().invoke(main, ["member", "--bootstrap-server", "127.0.0.1:1", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--units", "3"], "Missing option '--group'"),
        (["--group", "g"], "share either --units or the partitions of a --topic"),
        (["--group", "g", "--units", "3", "--topic", "t"], "share either --units or"),
        (["--group", "g", "--units", "0"], "0 is not in the range"),
        (["--group", "", "--units", "3"], "group_id and client_id must not be empty"),
        (["--group", "g", "--units", "3", "--assignor", "best"], "unknown assignor 'best'; there are range,"),
        (["--group", "g", "--topic", "t", "--assignor", "cooperative-sticky"], "is not supported"),
        (["--group", "g", "--units", "3", "--session-timeout-ms", "1"], "less than session_timeout_ms"),
    ],
)
def test_wrong_usage_is_told_before_anything_happens(arguments: list[str], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            KafkaTimeoutError("nobody there"),
            "cannot use Kafka at 127.0.0.1:1: KafkaTimeoutError: nobody there",
        ),
        (MissingTopicError("coordinator.requests"), "topic 'coordinator.requests' does not exist."),
    ],
)
def test_what_keeps_it_from_connecting_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def connect(**_: Any) -> None:
        raise error

    monkeypatch.setattr(joining, "GroupMember", connect)
    result = run("--group", "g", "--units", "3")

    assert result.exit_code == 1
    assert result.stdout.endswith("connecting to Kafka at 127.0.0.1:1\n")
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1


def test_help_shows_examples_and_defaults() -> None:
    result = run("--help")

    assert "\n  group-coordinator member --group g --units 12\n" in result.output
    assert "localhost:9092" in result.output
