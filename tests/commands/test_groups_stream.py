"""`groups` against the real thing: Kafka, and the coordinator on Spark."""

from __future__ import annotations

import csv
import getpass
import json
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator import GroupMember
from group_coordinator.client.admin import AdminClient
from group_coordinator.client.events import EventReader
from group_coordinator.commands.cli import main
from tests.history.plain import write_plain_tables
from tests.patience import PATIENCE_S, wait_for

if TYPE_CHECKING:
    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

GROUPS, PARTITIONS = 2_000, 50


@pytest.fixture(scope="module")
def harness(spark, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    # Not above: it takes its time.
    from tests.streaming.harness import Harness

    with Harness(spark, bootstrap_servers, tmp_path_factory.mktemp("coordinator")) as harness:
        harness.start_and_warm_up()
        yield harness


@pytest.fixture(scope="module")
def topics(harness: Harness) -> dict[str, str]:
    """Where the coordinator is, for clients."""
    return {
        "request_topic": harness.settings.topics_requests,
        "response_topic": harness.settings.topics_responses,
    }


@pytest.fixture(scope="module")
def admin(harness: Harness, bootstrap_servers: str, topics: dict[str, str]) -> Iterator[AdminClient]:
    groups_topic = harness.settings.topics_groups
    with AdminClient(
        bootstrap_servers=bootstrap_servers,
        groups_topic=groups_topic,
        # Thousands of groups are one batch, which takes its time on a machine that has other work.
        request_timeout_ms=PATIENCE_S * 1000,
        **topics,
    ) as admin:
        yield admin


@pytest.fixture(scope="module")
def kafka(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    kafka = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    yield kafka
    kafka.close()


def run(harness: Harness, arguments: str) -> Result:
    settings = harness.settings
    return CliRunner().invoke(
        main,
        [
            *("groups", "--bootstrap-server", settings.bootstrap_servers),
            *("--request-topic", settings.topics_requests, "--response-topic", settings.topics_responses),
            *("--groups-topic", settings.topics_groups, *arguments.split()),
        ],
    )


def offsets(*partitions: TopicPartition, offset: int = 5) -> dict[TopicPartition, OffsetAndMetadata]:
    return {partition: OffsetAndMetadata(offset) for partition in partitions}


def test_topic_that_no_longer_exists_does_not_spoil_the_rest(
    harness: Harness, admin: AdminClient, kafka: KafkaAdminClient
) -> None:
    kafka.create_topics([NewTopic("stream-kept", 1, 1), NewTopic("stream-gone", 1, 1)])
    kept, gone = TopicPartition("stream-kept", 0), TopicPartition("stream-gone", 0)
    admin.alter_group_offsets("gone", offsets(kept, gone))
    kafka.delete_topics(["stream-gone"])
    deadline = time.monotonic() + PATIENCE_S
    while gone in admin.partitions([gone.topic]):
        assert time.monotonic() < deadline

    described = run(harness, "--describe --group gone --output csv")
    reset = run(harness, "--reset-offsets --group gone --all-topics --to-earliest --execute")
    deleted = run(harness, "--delete-offsets --group gone --topic stream-gone")

    assert [["stream-gone", "0", "5", "", ""], ["stream-kept", "0", "5", "0", "-5"]] == [
        row[1:6] for row in list(csv.reader(described.stdout.splitlines()))[1:]
    ]
    assert "error: The partitions stream-gone-0 do not exist, or have no leader\n" in reset.stderr
    assert (0, 1, 0) == (described.exit_code, reset.exit_code, deleted.exit_code)
    assert {kept: 0} == {p: each.offset for p, each in admin.list_group_offsets(["gone"])["gone"].items()}


def test_a_reset_is_undone_and_a_moment_comes_back(
    harness: Harness, admin: AdminClient, kafka: KafkaAdminClient, tmp_path: Path, topics: dict[str, str]
) -> None:
    """The history has not begun, so all is read from the events."""
    servers, topic = harness.settings.bootstrap_servers, harness.settings.topics_events
    write_plain_tables(tmp_path, [])
    kafka.create_topics([NewTopic("stream-back", 1, 1)])
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for _ in range(10):
            producer.send("stream-back", b"work")
    partition = TopicPartition("stream-back", 0)
    with GroupMember(group_id="back", bootstrap_servers=servers, client_id="worker", **topics) as member:
        member.subscribe(topics=[partition.topic])
        assert member.poll(timeout_ms=PATIENCE_S * 1000)
        member.commit({partition: OffsetAndMetadata(7, "mine", -1)})
    words = f"--reset-offsets --group back --history-path {tmp_path} --events-topic {topic} --execute"

    reset = "--reset-offsets --group back --topic stream-back --to-offset 2 --execute --reason bad-release"
    done = run(harness, f"{reset} --output json")
    undone = run(harness, f"{words} --undo --output json")
    with EventReader(bootstrap_servers=servers, events_topic=topic, since_ms=0, groups=["back"]) as reader:
        events = [event for _, event in read_all(reader) if event["event"] == "offsets_committed"]
    at = datetime.fromtimestamp(events[1]["at_ms"] / 1_000, UTC).isoformat()
    back = run(harness, f"{words} --topic stream-back --to-history {at} --output json")

    compared = [
        [
            (row["old_offset"], row["new_offset"], row["read_again"], row["skipped"])
            for row in json.loads(each.stdout)
        ]
        for each in (done, undone, back)
    ]
    assert compared == [[(7, 2, 5, 0)], [(2, 7, 0, 5)], [(7, 2, 5, 0)]], undone.stderr + back.stderr
    assert [(event["client_id"].split("@")[0], event.get("client_reason")) for event in events] == [
        ("worker", None),
        (f"admin-{getpass.getuser()}", "bad-release"),
        (f"admin-{getpass.getuser()}", None),
    ]
    assert events[2]["topics"][0]["partitions"][0]["metadata"] == "mine"
    assert admin.list_group_offsets(["back"])["back"] == {partition: OffsetAndMetadata(2, "", -1)}


def read_all(reader: EventReader) -> list[tuple[int, dict[str, Any]]]:
    found: list[tuple[int, dict[str, Any]]] = []
    wait_for(lambda: reader.has_caught_up, meanwhile=lambda: found.extend(reader.poll_placed(100)))
    return found


def test_units_of_work(
    harness: Harness, admin: AdminClient, bootstrap_servers: str, topics: dict[str, str]
) -> None:
    with GroupMember(
        group_id="units", bootstrap_servers=bootstrap_servers, client_id="worker", **topics
    ) as member:
        member.subscribe(units=["north", "south"])
        assert member.poll(timeout_ms=PATIENCE_S * 1000)
        described = run(harness, "--describe --group units --output json")
        members = run(harness, "--describe --group units --members --verbose")
        refused = run(harness, "--reset-offsets --group units --topic north --to-offset 7 --execute")
    reset = run(harness, "--reset-offsets --group units --topic north --to-offset 7 --execute")

    assert [("north", 0, None, "worker"), ("south", 0, None, "worker")] == [
        (row["topic"], row["partition"], row["log_end_offset"], row["client_id"])
        for row in json.loads(described.stdout)
    ]
    assert " north:0;south:0 " in members.stdout
    assert "error: Assignments can only be reset if the group 'units' is inactive" in refused.stderr
    assert 0 == reset.exit_code
    north = TopicPartition("north", 0)
    assert {north: OffsetAndMetadata(7)} == admin.list_group_offsets(["units"])["units"]


def test_removed_member_is_out(harness: Harness, bootstrap_servers: str, topics: dict[str, str]) -> None:
    member = GroupMember(
        group_id="static", bootstrap_servers=bootstrap_servers, group_instance_id="w1", **topics
    )
    member.subscribe(units=["u"])
    assert member.poll(timeout_ms=PATIENCE_S * 1000)
    member.close()

    refused = run(harness, "--delete --group static")
    removed = run(harness, "--remove-member --group static --group-instance-id w1")
    deleted = run(harness, "--delete --group static")

    assert "error: Group 'static' could not be deleted due to: The group is not empty.\n" in refused.stderr
    assert [1, 0, 0] == [result.exit_code for result in (refused, removed, deleted)]
    assert "static" not in run(harness, "--list").stdout.splitlines()


@pytest.mark.verify
def test_thousands_of_groups(
    harness: Harness, admin: AdminClient, kafka: KafkaAdminClient, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka.create_topics([NewTopic("stream-many", PARTITIONS, 1)])
    partitions = [TopicPartition("stream-many", number) for number in range(PARTITIONS)]
    groups = [f"many-{number:04}" for number in range(GROUPS)]
    errors = admin.alter_offsets_of_groups(
        {group: offsets(*partitions, offset=number) for number, group in enumerate(groups)}
    )
    assert {NoError} == {error for of_group in errors.values() for error in of_group.values()}

    took = {}
    results = {}
    for arguments in ("--list", "--describe --all-groups --offsets", "--describe --all-groups --state"):
        begun = time.monotonic()
        results[arguments] = run(harness, f"{arguments} --output csv --timeout {PATIENCE_S * 1000}")
        took[arguments] = time.monotonic() - begun
    with capsys.disabled():
        shown = ", ".join(f"{arguments} {seconds:.1f} s" for arguments, seconds in took.items())
        print(f"\n{GROUPS} groups of {PARTITIONS} partitions: {shown}")

    assert {0} == {result.exit_code for result in results.values()}
    rows = {
        arguments: [row for row in csv.reader(result.stdout.splitlines()) if row[0].startswith("many-")]
        for arguments, result in results.items()
    }
    listed, described, states = rows.values()
    assert [[group] for group in groups] == listed
    assert groups == [row[0] for row in states]
    expected = [
        [group, partition.topic, str(partition.partition), str(number), "0", str(-number), "", "", ""]
        for number, group in enumerate(groups)
        for partition in partitions
    ]
    assert expected == described


def test_coordinator_that_is_down_is_one_line(harness: Harness, admin: AdminClient) -> None:
    # The last test of the module: nothing can be asked after it.
    admin.alter_group_offsets("known", offsets(TopicPartition("t", 0)))
    harness.stop()

    down = run(harness, "--describe --group known --timeout 500")
    listed = run(harness, "--list")

    assert (1, "") == (down.exit_code, down.stdout)
    assert down.stderr == (
        "error: the coordinator has answered 0 of 2 requests, and no other (for 'known') within 0.5 s. "
        "Is it running?\n"
    )
    assert 0 == listed.exit_code
    assert "known" in listed.stdout.splitlines()
