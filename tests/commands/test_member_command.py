"""What a member on the command line says and passes on; wrong usage is tested where the demo is."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from group_coordinator import MemberState
from group_coordinator.client.errors import FencedInstanceIdError
from group_coordinator.commands.cli import main
from group_coordinator.commands.member import joining

UNITS = frozenset(["unit-0", "unit-1"])


class Member:
    """Owns two units, loses them and gets them back in the same generation; then SIGTERM comes."""

    state = MemberState.STABLE
    is_leader = True
    generation_id = -1
    fenced = False

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.closed: list[dict[str, Any]] = []
        self.polls = 0
        self.member_id = ""

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1} if topic == "orders" else None

    def subscribe(self, topics: Any = None, *, units: Any = None, listener: Any) -> None:
        self.listener = listener

    def poll(self, timeout_ms: int) -> None:
        self.polls += 1
        if self.polls > 1:
            self.listener.on_partitions_lost(UNITS)
        if self.fenced and self.polls > 1:
            raise FencedInstanceIdError("g", "group_instance_id 'w1'")
        self.member_id, self.generation_id = f"m{self.polls}", 7
        self.listener.on_partitions_assigned(UNITS)
        if self.polls > 1:
            os.kill(os.getpid(), signal.SIGTERM)

    def close(self, **arguments: Any) -> None:
        self.closed.append(arguments)


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Member]]:
    made: list[Member] = []

    def make(**settings: Any) -> Member:
        made.append(Member(**settings))
        return made[-1]

    monkeypatch.setattr(joining, "GroupMember", make)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield made
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["member", "--group", "g", "--units", "2", *arguments])


def said(result: Result) -> list[str]:
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in result.stdout.splitlines()]


def test_dynamic_member_leaves(members: list[Member]) -> None:
    result = run()

    (member,) = members
    assert 0 == result.exit_code
    assert member.settings["group_instance_id"] is None
    assert "joining group g" == said(result)[1]
    assert ["leaving group g", "left"] == said(result)[-2:]


def test_static_member_says_how_long_it_may_be_away(members: list[Member]) -> None:
    result = run("--instance-id", "w1", "--session-timeout-ms", "12500")

    (member,) = members
    assert 0 == result.exit_code
    assert ("w1", [{}]) == (member.settings["group_instance_id"], member.closed)
    assert "joining group g as w1" == said(result)[1]
    assert ["stopping; w1 has 12.5 s to come back to group g", "stopped"] == said(result)[-2:]


def test_coming_back_into_the_same_generation_is_told(members: list[Member]) -> None:
    result = run("--instance-id", "w1")

    assert [
        "joined as m1, generation 7, leader",
        "assigned [unit-0, unit-1]",
        "lost [unit-0, unit-1]: the group went on without this member",
        "joined as m2, generation 7, leader",
        "assigned [unit-0, unit-1]",
    ] == said(result)[2:-2]


def test_a_member_of_the_consumer_protocol_tells_differences(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    def poll(self: Member, timeout_ms: int) -> None:
        self.polls += 1
        self.member_id, self.generation_id = "m", 4 + self.polls
        if self.polls == 1:
            self.listener.on_partitions_assigned(UNITS)
        elif self.polls == 2:
            self.listener.on_partitions_revoked({"unit-1"})
        elif self.polls == 3:
            self.listener.on_partitions_lost({"unit-0"})
            self.listener.on_partitions_assigned({"unit-1"})
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Member, "poll", poll)
    result = run("--group-protocol", "consumer", "--server-assignor", "range", "--instance-id", "w1")

    assert 0 == result.exit_code, result.stderr
    settings = members[0].settings
    assert ("consumer", "range") == (settings["group_protocol"], settings["server_assignor"])
    # These the coordinator says.
    assert (None, None) == (settings["session_timeout_ms"], settings["assignors"])
    assert [
        "joined as m, epoch 5",
        "assigned [unit-0, unit-1]",
        # It goes on with the rest, and a newer epoch is nothing to tell.
        "revoked [unit-1]",
        "lost [unit-0]: the group went on without this member",
        "joined as m, epoch 7",
        "assigned [unit-1]",
        "stopping; w1 may come back to group g until its session ends",
        "stopped",
    ] == said(result)[2:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--server-assignor", "range"], 'server_assignor is a setting of group_protocol="consumer"'),
        (
            ["--group-protocol", "consumer", "--session-timeout-ms", "9000"],
            'session_timeout_ms is no setting of group_protocol="consumer"',
        ),
        (
            ["--group-protocol", "consumer", "--assignor", "sticky"],
            'assignors is no setting of group_protocol="consumer"',
        ),
    ],
)
def test_a_setting_of_the_other_protocol_is_wrong_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments, "--bootstrap-server", "127.0.0.1:1")

    assert 2 == result.exit_code
    assert message in result.output


def test_member_that_is_fenced_ends_with_one_line(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Member, "fenced", True)
    result = run("--instance-id", "w1")

    assert 1 == result.exit_code
    assert result.stderr.startswith("error: group 'g': FENCED_INSTANCE_ID (group_instance_id 'w1'). Another")
    assert 1 == result.stderr.count("\n")
    assert [] == members[0].closed


def test_a_topic_that_is_not_there_is_one_line(members: list[Member]) -> None:
    result = CliRunner().invoke(main, ["member", "--group", "g", "--topic", "orders", "--topic", "nope"])

    assert 1 == result.exit_code
    assert result.stderr == (
        "error: there is no topic nope at localhost:9092: create it, or share another --topic\n"
    )
    assert [{}] == members[0].closed
    assert 0 == CliRunner().invoke(main, ["member", "--group", "g", "--topic", "orders"]).exit_code


def test_it_connects_as_it_is_told(members: list[Member], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common."
        'security.plain.PlainLoginModule required username="ann" password="secret";\n'
    )
    topics = ("--request-topic", "eu.requests", "--response-topic", "eu.responses.ann")
    result = run("--bootstrap-server", "kafka:9092", "--command-config", str(file), *topics)

    assert 0 == result.exit_code, result.stderr
    found = members[0].settings
    assert ("eu.requests", "eu.responses.ann") == (found["request_topic"], found["response_topic"])
    assert (["kafka:9092"], "SASL_PLAINTEXT", "ann") == (
        found["bootstrap_servers"],
        found["security_protocol"],
        found["sasl_plain_username"],
    )


def test_client_properties_that_cannot_be_read_are_wrong_usage(members: list[Member]) -> None:
    result = run("--command-config", "/no/such/file")

    assert 2 == result.exit_code
    assert "/no/such/file cannot be read: No such file or directory" in result.output
    assert [] == members


def test_empty_instance_id_is_wrong_usage() -> None:
    result = run("--instance-id", "", "--bootstrap-server", "127.0.0.1:1")

    assert 2 == result.exit_code
    assert "group_instance_id must not be empty" in result.output


def test_help_names_the_option() -> None:
    result = run("--help")

    assert "--instance-id" in result.output
    assert "--instance-id w1\n" in result.output
