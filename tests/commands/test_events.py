"""`group-coordinator events`, of events that a fake reader hands out."""

from __future__ import annotations

import json
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

from group_coordinator.client import events as client
from group_coordinator.commands.cli import main

pytestmark = pytest.mark.usefixtures("own_environment")

EXPIRED = {
    "event_id": "orders@1-0",
    "at_ms": 1_768_572_300_123,
    "group_id": "orders",
    "event": "member_removed",
    "generation_id": 7,
    "request_id": None,
    "member_id": "c1-\x1b[2J",
    "client_id": "c1",
    "reason": "session_expired",
    "client_reason": "",
}
REBALANCE = EXPIRED | {
    "event_id": "orders@1-1",
    "event": "state_changed",
    "reason": "member c1 is gone",
    "cause": "session_expired",
    "from": "Stable",
    "to": "PreparingRebalance",
}
COMMIT = EXPIRED | {"event_id": "t-0-1-0", "event": "offsets_committed", "reason": None}


class Reader:
    """Gives all at once, and has caught up then."""

    given: dict[str, Any]
    has_caught_up = True

    def __init__(self, **given: Any) -> None:
        Reader.given = given

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self, _timeout_ms: int) -> list[dict[str, Any]]:
        return [EXPIRED, REBALANCE, COMMIT]


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "EventReader", Reader)


def ask(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["events", *arguments])
    assert result.exit_code == 0, result.output
    return result


def kinds(*arguments: str) -> list[str]:
    return [json.loads(line)["event"] for line in ask("--output", "json", *arguments).stdout.splitlines()]


def test_a_line_for_each() -> None:
    """Names of others may not draw on a terminal."""
    assert ask("--group", "orders", "--from", "2026-01-16T14:00").stdout.splitlines() == [
        "2026-01-16T14:05:00.123Z  orders  c1-\\x1b[2J expired: no heartbeat came in its session",
        "2026-01-16T14:05:00.123Z  orders  Stable -> PreparingRebalance: member c1 is gone (session_expired)",
    ]
    assert (Reader.given["groups"], Reader.given["since_ms"]) == (("orders",), 1_768_572_000_000)


def test_some_of_them() -> None:
    assert kinds() == ["member_removed", "state_changed"]
    assert kinds("--kind", "offsets_committed") == ["offsets_committed"]
    assert kinds("--cause", "session_expired") == ["member_removed", "state_changed"]
    assert kinds("--cause", "session_expired", "--kind", "state_changed") == ["state_changed"]
    nothing = ask("--cause", "member_joined")
    assert nothing.stdout == ""
    assert "there are no such events" in nothing.stderr


def test_an_event_whose_cause_is_no_text_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = EXPIRED | {
        "event": "other",
        "reason": {"what": "session_expired"},
        "cause": ["session_expired"],
    }
    monkeypatch.setattr(Reader, "poll", lambda *_: [foreign, EXPIRED])
    assert kinds("--cause", "session_expired") == ["member_removed"]
    assert [" orders  other " in line for line in ask().stdout.splitlines()] == [True, False]


def test_json_is_what_the_topic_has() -> None:
    assert json.loads(ask("--output", "json").stdout.splitlines()[0]) == EXPIRED
    assert ask("--json").stdout == ask("--output", "json").stdout


def test_no_kafka_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("group_coordinator.commands.events.BOOTSTRAP_TIMEOUT_MS", 300)
    result = CliRunner().invoke(main, ["events", "--bootstrap-server", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: Kafka at 127.0.0.1:1: ")


@pytest.mark.parametrize(
    ("words", "environment", "topic"),
    [
        ("", {}, "coordinator.events"),
        ("--of brokers", {}, "brokers.events"),
        ("", {"GROUP_COORDINATOR_OF": "brokers"}, "brokers.events"),
        ("--of coordinator", {"GROUP_COORDINATOR_OF": "brokers"}, "coordinator.events"),
        ("", {"GROUP_COORDINATOR_TOPICS_EVENTS": "e"}, "e"),
        ("--of brokers", {"GROUP_COORDINATOR_TOPICS_EVENTS": "e"}, "brokers.events"),
        ("--of brokers", {"GROUP_COORDINATOR_BROKERS_TOPICS_EVENTS": "b"}, "b"),
        ("--of brokers --events-topic given", {"GROUP_COORDINATOR_BROKERS_TOPICS_EVENTS": "b"}, "given"),
    ],
)
def test_the_topic_is_that_of_the_side(words: str, environment: dict[str, str], topic: str) -> None:
    CliRunner().invoke(main, ["events", *words.split()], env=environment, catch_exceptions=False)
    assert Reader.given["events_topic"] == topic
