"""`groups` beside Kafka's own kafka-consumer-groups.sh, line by line, on equal groups of the same topics.

Kafka's tool looks at groups in the broker's coordinator, ours at groups of the same names, members,
assignments and offsets in ours. Only what is different by nature is replaced: the random
part of member ids, and what a coordinator is.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from click.testing import CliRunner
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError, NoError, RetriableError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import GroupMember
from group_coordinator.client.admin import AdminClient
from group_coordinator.client.assignors import subscription, to_assignment
from group_coordinator.commands.cli import main
from group_coordinator.deploy.jars import fetch
from group_coordinator.deploy.java import find_java
from tests.conformance.wire import BrokerClient, Question
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.harness import Harness

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
FIRST_TIMESTAMP_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z

ORDERS, REFUNDS, NOTHING = "beside-orders", "beside-refunds", "beside-nothing"
TOPICS = {ORDERS: (10, 20, 30), REFUNDS: (5, 5), NOTHING: (0,)}
ACTIVE, STATIC, SIMPLE, LEFT, ABSENT = (
    f"beside-{what}" for what in ("active", "static", "simple", "left", "absent")
)
LONG = "beside-a-group-with-a-name-of-more-than-thirty-characters"
COMMITTED = {
    ACTIVE: {(ORDERS, 0): 4, (ORDERS, 2): 30, (NOTHING, 0): 0},
    SIMPLE: {(ORDERS, 0): 3, (ORDERS, 1): 20, (ORDERS, 2): 35},
    LEFT: {(REFUNDS, 1): 2},
    LONG: {(ORDERS, 1): 12},
}
Members = dict[str, tuple[list[str], str | None]]
"""client id -> topics and group_instance_id"""
MEMBERS: dict[str, Members] = {
    ACTIVE: {"alpha": ([ORDERS], None), "beta": ([ORDERS, REFUNDS], None)},
    STATIC: {"gamma": ([REFUNDS], "worker-1"), "delta": ([ORDERS], "worker-2")},
    LEFT: {"epsilon": ([REFUNDS], None)},
}
ASSIGNED = {
    "alpha": {(ORDERS, 0), (ORDERS, 1)},
    "beta": {(ORDERS, 2), (REFUNDS, 0), (REFUNDS, 1)},
    "gamma": {(REFUNDS, 0), (REFUNDS, 1)},
    "delta": {(ORDERS, 0), (ORDERS, 1), (ORDERS, 2)},
    "epsilon": {(REFUNDS, 0), (REFUNDS, 1)},
}


# Nobody polls while the tools look.
STAYS_MS = 1_800_000


class Said(NamedTuple):
    """What a tool has printed, by lines, and its exit code."""

    stdout: list[str]
    stderr: list[str]
    exit_code: int


class Tools:
    """Both tools, to be given the same arguments."""

    def __init__(self, bootstrap_servers: str, harness: Harness) -> None:
        classpath = os.pathsep.join(map(str, fetch("broker", "tools")))
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath]
        self._java = [str(find_java()), *flags, TOOL, "--bootstrap-server", bootstrap_servers]
        topics = harness.settings
        self._environment = {
            "GROUP_COORDINATOR_BOOTSTRAP_SERVERS": bootstrap_servers,
            "GROUP_COORDINATOR_TOPICS_REQUESTS": topics.topics_requests,
            "GROUP_COORDINATOR_TOPICS_RESPONSES": topics.topics_responses,
            "GROUP_COORDINATOR_TOPICS_GROUPS": topics.topics_groups,
        }

    def both(self, *arguments: str) -> tuple[Said, Said]:
        """What Kafka's tool says, and what ours does."""
        # At the same time, because a JVM takes its time to start.
        with subprocess.Popen(
            [*self._java, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            ours = CliRunner().invoke(main, ["groups", *arguments], env=self._environment)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        return (
            Said(_lines(stdout), _lines(stderr), process.returncode),
            Said(_lines(ours.stdout), _lines(ours.stderr), ours.exit_code),
        )


def _lines(text: str) -> list[str]:
    return [_normal(line) for line in text.splitlines()]


def _normal(line: str) -> str:
    line = re.sub(r"\b([a-z]+(?:-\d)?)-[0-9A-Za-z_-]{36}(?= )", r"\1-<36 random characters>", line)
    # The column is 25 wide.
    line = re.sub(r"\S+:\d+  \(\d+\) *", "<coordinator>".ljust(26), line)
    return line.rstrip()


# -- equal groups ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def harness(spark, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    # Not above: it takes its time.
    from tests.streaming.harness import Harness

    with Harness(spark, bootstrap_servers, tmp_path_factory.mktemp("coordinator")) as harness:
        harness.start_and_warm_up()
        yield harness


@pytest.fixture(scope="module")
def tools(harness: Harness, bootstrap_servers: str) -> Iterator[Tools]:
    with ExitStack() as stack:
        _create_topics(bootstrap_servers)
        kafkas = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
        stack.callback(kafkas.close)
        topics = {
            "request_topic": harness.settings.topics_requests,
            "response_topic": harness.settings.topics_responses,
        }
        ours = stack.enter_context(AdminClient(bootstrap_servers=bootstrap_servers, **topics))
        for group_id, offsets in COMMITTED.items():
            committed = {
                TopicPartition(*where): OffsetAndMetadata(each, "", 0) for where, each in offsets.items()
            }
            for admin in (kafkas, ours):
                _commit(admin, group_id, committed)
        for group_id, members in MEMBERS.items():
            asyncio.run(_form_kafkas_group(bootstrap_servers, group_id, members))
            with ExitStack() as leaving:
                joined = {}
                for client_id, (names, instance_id) in members.items():
                    member = _member(bootstrap_servers, group_id, client_id, instance_id, topics)
                    leaving.callback(member.close)
                    member.subscribe(names)
                    joined[client_id] = member
                _settle(joined)
                if group_id != LEFT:
                    stack.push(leaving.pop_all())
        yield Tools(bootstrap_servers, harness)


def _create_topics(bootstrap_servers: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    # The records are older than a broker keeps them by default.
    for topic, counts in TOPICS.items():
        admin.create_topics([NewTopic(topic, len(counts), 1, topic_configs={"retention.ms": "-1"})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for topic, counts in TOPICS.items():
        for partition, count in enumerate(counts):
            for number in range(count):
                timestamp_ms = FIRST_TIMESTAMP_MS + 1000 * number
                producer.send(topic, b"x", partition=partition, timestamp_ms=timestamp_ms)
    producer.flush()
    producer.close()


def _commit(
    admin: KafkaAdminClient | AdminClient, group_id: str, offsets: dict[TopicPartition, OffsetAndMetadata]
) -> None:
    """The broker's coordinator makes its topic when it is first asked, and takes its time."""
    deadline = time.monotonic() + PATIENCE_S
    errors: set[type[KafkaError]] = set()
    while errors != {NoError}:
        assert time.monotonic() < deadline, errors
        try:
            errors = set(admin.alter_group_offsets(group_id, offsets).values())
        except RetriableError as error:
            errors = {type(error)}


async def _form_kafkas_group(bootstrap_servers: str, group_id: str, members: Members) -> None:
    """Form a group of the broker's, by its protocol; the members of LEFT leave it again.

    Not of kafka-python's consumers: those of 3.0.12 stop their heartbeats after some rebalances, and then do
    not hear of the next.
    """
    client = BrokerClient(bootstrap_servers)
    # It first loads what belongs to the group, which takes its time.
    await _until(client, group_id, "Dead", "Empty")

    async def ask(request: dict[str, Any]) -> Question:
        return await client.ask({"group_id": group_id, "request_id": ""} | request)

    async def answers_to(questions: list[Question]) -> list[dict[str, Any]]:
        answers = [(await question.answer()).fields for question in questions]
        assert [0] * len(answers) == [answer["error_code"] for answer in answers]
        return answers

    joined: dict[str, str] = {}
    for newcomer in members:
        questions = [await ask(_join(newcomer, *members[newcomer], ""))]
        if joined:
            # Whoever joins again before the newcomer has joined is told of the generation that is, and then
            # waited for.
            await _until(client, group_id, "PreparingRebalance")
        questions += [await ask(_join(each, *members[each], joined[each])) for each in joined]
        answers = await answers_to(questions)
        joined |= {
            each: answer["member_id"] for each, answer in zip([newcomer, *joined], answers, strict=True)
        }
    generation_id = answers[0]["generation_id"]
    await answers_to([await ask(_sync(each, members[each][1], joined, generation_id)) for each in joined])
    if group_id == LEFT:
        leaving = [{"member_id": member_id} for member_id in joined.values()]
        await answers_to(
            [await ask({"api": "leave_group", "api_version": 3, "client_id": "", "members": leaving})]
        )
    client.close()


async def _until(client: BrokerClient, group_id: str, *states: str) -> None:
    """Wait until the broker says that the group is in one of the states."""
    deadline = time.monotonic() + PATIENCE_S
    fields: dict[str, Any] = {}
    while fields.get("error_code") != 0 or fields["group_state"] not in states:
        assert time.monotonic() < deadline, fields
        question = await client.ask(
            {
                "api": "describe_group",
                "api_version": 5,
                "group_id": group_id,
                "request_id": "",
                "client_id": "",
            }
        )
        fields = (await question.answer()).fields


def _join(client_id: str, topics: list[str], instance_id: str | None, member_id: str) -> dict[str, Any]:
    metadata = subscription("range", topics, (), -1).encode()
    return {
        "api": "join_group",
        # Makes a member at once: version 4 has a dynamic member join twice, 5 brought static ones.
        "api_version": 3 if instance_id is None else 5,
        "client_id": client_id,
        "member_id": member_id,
        "group_instance_id": instance_id,
        "session_timeout_ms": STAYS_MS,
        "rebalance_timeout_ms": STAYS_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }


def _sync(
    client_id: str, instance_id: str | None, joined: dict[str, str], generation_id: int
) -> dict[str, Any]:
    return {
        "api": "sync_group",
        "api_version": 3,
        "client_id": client_id,
        "member_id": joined[client_id],
        "group_instance_id": instance_id,
        "generation_id": generation_id,
        "assignments": [
            {"member_id": member_id, "assignment": to_assignment(ASSIGNED[each]).encode()}
            for each, member_id in joined.items()
        ],
    }


def _member(
    bootstrap_servers: str, group_id: str, client_id: str, instance_id: str | None, topics: dict[str, str]
) -> GroupMember:
    return GroupMember(
        bootstrap_servers=bootstrap_servers,
        group_id=group_id,
        client_id=client_id,
        client_host="/127.0.0.1",
        group_instance_id=instance_id,
        session_timeout_ms=STAYS_MS,
        # By which it hears that another one has joined.
        heartbeat_interval_ms=500,
        max_poll_interval_ms=STAYS_MS,
        **topics,
    )


def _settle(members: dict[str, GroupMember]) -> None:
    """Poll until each owns what it is to own."""
    deadline = time.monotonic() + PATIENCE_S
    wanted = {client_id: ASSIGNED[client_id] for client_id in members}
    while (owned := {client_id: member.assignment for client_id, member in members.items()}) != wanted:
        assert time.monotonic() < deadline, owned
        for member in members.values():
            member.poll(timeout_ms=100)


# -- looking -----------------------------------------------------------------------------------------

RESET = ["--reset-offsets", "--dry-run", "--group", SIMPLE]
SAME = [
    ["--describe", "--group", ACTIVE],
    ["--describe", "--group", ACTIVE, "--offsets", "--verbose"],
    ["--describe", "--group", ACTIVE, "--state"],
    ["--describe", "--group", ACTIVE, "--state", "--verbose"],
    ["--describe", "--group", STATIC],
    ["--describe", "--group", SIMPLE],
    ["--describe", "--group", SIMPLE, "--members"],
    ["--describe", "--group", LEFT, "--verbose"],
    ["--describe", "--group", LEFT, "--members", "--verbose"],
    ["--describe", "--group", LONG, "--group", ACTIVE, "--group", LEFT, "--offsets"],
    ["--describe", "--group", LONG, "--group", STATIC, "--group", SIMPLE, "--state"],
    [*RESET, "--topic", ORDERS, "--to-earliest"],
    [*RESET, "--topic", f"{ORDERS}:0,2", "--to-latest"],
    [*RESET, "--all-topics", "--to-current"],
    [*RESET, "--all-topics", "--to-offset", "12"],
    [*RESET, "--all-topics", "--shift-by", "-2"],
    [*RESET, "--topic", ORDERS, "--to-datetime", "2023-11-14T22:13:25.000"],
    [*RESET, "--topic", ORDERS, "--to-datetime", "2023-11-14T23:13:25.500+0100"],
    [*RESET, "--topic", ORDERS, "--by-duration", "P5000D"],
    ["--reset-offsets", "--dry-run", "--group", LONG, "--group", LEFT, "--topic", REFUNDS, "--to-latest"],
    ["--reset-offsets", "--dry-run", "--group", ABSENT, "--topic", f"{REFUNDS}:1", "--to-latest"],
]


def _ordered(arguments: list[str], lines: list[str]) -> list[str]:
    """Kafka's tool shows the offsets of a reset in no order; ours are sorted."""
    return [*lines[:2], *sorted(lines[2:])] if "--reset-offsets" in arguments else lines


def _kafkas(arguments: list[str], lines: list[str]) -> list[str]:
    """Our lines with the columns of Kafka's tool. Of a reset ours have more, after those."""
    if "--reset-offsets" not in arguments:
        return lines
    return [line.split("OLD-OFFSET")[0].rstrip() if "OLD" in line else _first(line) for line in lines]


def _first(line: str) -> str:
    found = re.match(r"(\S+ +){3}\S+", line)
    return found[0] if found else line


@pytest.mark.parametrize("arguments", SAME, ids=" ".join)
def test_the_same_lines(tools: Tools, arguments: list[str]) -> None:
    kafkas, ours = tools.both(*arguments)

    assert len(kafkas.stdout) > 1
    assert _ordered(arguments, kafkas.stdout) == _kafkas(arguments, ours.stdout)
    warnings = [
        line for line in ours.stderr if not line.startswith("warning: New offset")
    ]  # Kafka's go to a log
    assert [_spelled(line) for line in kafkas.stderr if line] == [line for line in warnings if line]
    assert (0, 0) == (kafkas.exit_code, ours.exit_code)


@pytest.mark.parametrize("group", [ACTIVE, STATIC])
@pytest.mark.parametrize("verbose", [[], ["--verbose"]])
def test_the_same_members_in_any_order(tools: Tools, group: str, verbose: list[str]) -> None:
    arguments = ["--describe", "--group", group, "--members", *verbose]
    kafkas, ours = tools.both(*arguments)

    assert len(kafkas.stdout) == 4
    assert kafkas.stdout[:2] == ours.stdout[:2]
    assert sorted(kafkas.stdout) == sorted(ours.stdout)


@pytest.mark.parametrize(
    "arguments", [["--list"], ["--list", "--state"], ["--list", "--state", "stable"]], ids=" ".join
)
def test_the_same_list_in_any_order(tools: Tools, arguments: list[str]) -> None:
    def listed(said: Said) -> list[list[str]]:
        # Other tests have groups in the same broker.
        rows = [line.split() for line in said.stdout]
        return sorted(row for row in rows if row[0] == "GROUP" or row[0].startswith("beside-"))

    kafkas, ours = map(listed, tools.both(*arguments))

    assert len(kafkas) >= 2
    assert kafkas == ours


def test_the_same_warning_of_an_empty_log(tools: Tools) -> None:
    arguments = [*RESET, "--topic", NOTHING, "--to-datetime", "2023-11-14T22:13:25.000"]
    kafkas, ours = tools.both(*arguments)

    # Kafka's is on stdout, in the way of who reads the table.
    assert [_spelled(line) for line in kafkas.stdout if line] == [
        *(line for line in ours.stderr if line),
        *(line for line in _kafkas(arguments, ours.stdout) if line),
    ]
    assert any("is empty. Falling back to latest known offset." in line for line in ours.stderr)


@pytest.mark.parametrize("groups", [[SIMPLE], [SIMPLE, LONG]])
def test_the_same_export_and_each_reads_the_others(tools: Tools, tmp_path: Path, groups: list[str]) -> None:
    named = [argument for group in groups for argument in ("--group", group)]
    arguments = ["--reset-offsets", "--dry-run", *named, "--all-topics", "--to-current", "--export"]
    kafkas, ours = tools.both(*arguments)
    # Kafka's tool has no order, quotes what is longer than 24 characters, and ends with an empty line.
    assert sorted(line.replace('"', "") for line in kafkas.stdout if line) == ours.stdout

    paths = [tmp_path / "kafkas.csv", tmp_path / "ours.csv"]
    for path, said in zip(paths, (kafkas, ours), strict=True):
        path.write_text("\n".join(said.stdout) + "\n")
    tables = [
        _ordered(arguments, _kafkas(arguments, said.stdout))
        for path in paths
        for said in tools.both("--reset-offsets", "--dry-run", *named, "--from-file", str(path))
    ]
    assert len(tables[0]) > 3
    assert [tables[0]] * 4 == tables


# -- changing ----------------------------------------------------------------------------------------


def test_the_same_changes(tools: Tools) -> None:
    group = "beside-to-be-changed"
    changes = [
        ["--reset-offsets", "--execute", "--group", group, "--topic", ORDERS, "--to-offset", "7"],
        ["--describe", "--group", group],
        ["--delete-offsets", "--group", group, "--topic", f"{ORDERS}:0,1"],
        ["--delete-offsets", "--group", group, "--topic", ORDERS],
        ["--reset-offsets", "--execute", "--group", group, "--topic", f"{ORDERS}:1", "--to-latest"],
        ["--describe", "--group", group, "--offsets", "--verbose"],
        ["--delete", "--group", group],
    ]
    for arguments in changes:
        kafkas, ours = tools.both(*arguments)
        assert kafkas.stdout
        assert (arguments, _ordered(arguments, kafkas.stdout)) == (arguments, _kafkas(arguments, ours.stdout))
        assert kafkas[1:] == ours[1:]


def _spelled(line: str) -> str:
    """A message of Kafka's tool with `error:` and `warning:` as all commands spell them."""
    return re.sub("^Warn(ing)?: ", "warning: ", re.sub("^Error: ", "error: ", line))


def _refusals(lines: list[str]) -> set[str]:
    """What is said, without the plan of a reset, of which this tool tells more."""
    return {_message(line) for line in lines if line and not line.startswith(("GROUP ", f"{SIMPLE} "))}


def _message(line: str) -> str:
    """An error without Java's class names, Kafka's tool's dots and our exit."""
    return re.sub(r"org\.apache\.kafka\.\S+Exception: |^\* |^error: (?=Group )", "", _spelled(line))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--delete", "--group", ABSENT],
        ["--delete", "--group", ACTIVE],
        ["--delete-offsets", "--group", ABSENT, "--topic", ORDERS],
        ["--delete-offsets", "--group", ACTIVE, "--topic", ORDERS],
        ["--delete-offsets", "--group", ABSENT, "--topic", f"{ORDERS}:0", "--topic", "beside-nowhere"],
        [
            "--reset-offsets",
            "--group",
            ACTIVE,
            "--group",
            SIMPLE,
            "--topic",
            ORDERS,
            "--to-latest",
            "--dry-run",
        ],
    ],
    ids=" ".join,
)
def test_the_same_refusals_but_on_stderr_and_with_an_exit_code(tools: Tools, arguments: list[str]) -> None:
    kafkas, ours = tools.both(*arguments)

    expected = _refusals(kafkas.stdout)
    expected.discard("error: Deletion of some consumer groups failed:")  # a line for each group says it all
    assert expected == _refusals([*ours.stderr, *ours.stdout])
    assert [line for line in ours.stderr if line]
    assert (0, 1) == (kafkas.exit_code, ours.exit_code)


def test_one_absent_group_does_not_spoil_the_rest_as_it_does_in_kafkas(tools: Tools) -> None:
    arguments = ["--describe", "--group", SIMPLE, "--group", ABSENT]
    kafkas, ours = tools.both(*arguments)

    assert any(f"GroupIdNotFoundException: Group {ABSENT} not found." in line for line in kafkas.stdout)
    assert tools.both("--describe", "--group", SIMPLE)[0].stdout == ours.stdout
    assert f"error: Consumer group '{ABSENT}' does not exist." in ours.stderr
    assert 1 == ours.exit_code
