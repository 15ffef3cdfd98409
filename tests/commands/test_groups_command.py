"""The command line of `groups`: what goes to stdout and to stderr, and exit codes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec
import pytest
from click.testing import CliRunner, Result
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError
from msgspec.structs import replace

from group_coordinator import MissingTopicError
from group_coordinator.client.admin import NoAnswerError
from group_coordinator.client.lag_log import MeasuredPartition, MeasuredTopic, Measurement
from group_coordinator.commands.cli import main
from group_coordinator.commands.groups import doing
from group_coordinator.coordinator_state.events import OffsetsCommitted
from group_coordinator.history.rows import read_event
from tests.commands.memory_admin import FIRST_TIMESTAMP_MS
from tests.golden import assert_golden
from tests.history.plain import write_plain_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator import GroupMember
    from tests.client.memory import Coordinator
    from tests.commands.memory_admin import MemoryAdmin

HEADINGS = [
    *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
    *("CONSUMER-ID", "HOST", "CLIENT-ID"),
]

SLOW = Measurement(
    group_id="slow",
    measured_timestamp_ms=1_767_225_600_000,
    interval_ms=15_000,
    records=9,
    age_ms=340_400,
    error_ms=15_000,
    at_least=True,
    trend="clearing",
    clear_in_ms=250_000,
    topics=[
        MeasuredTopic(
            "orders",
            [
                MeasuredPartition(
                    partition_index=number,
                    committed_offset=committed,
                    log_end_offset=10,
                    age_ms=340_400,
                    error_ms=15_000,
                    at_least=at_least,
                    status=status,
                )
                for number, committed, at_least, status in ((0, 4, True, "stalled"), (1, 7, False, "ok"))
            ],
        )
    ],
)


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["groups", *arguments], env=environment)


@pytest.fixture
def settings(admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The command finds `admin`, and leaves here what it would have connected with."""
    made: list[dict[str, Any]] = []

    def connect(**settings: Any) -> MemoryAdmin:
        made.append(settings)
        return admin

    monkeypatch.setattr(doing, "AdminClient", connect)
    return made


# -- what the actions print, and return --------------------------------------------------------------


@pytest.mark.usefixtures("settings")
def test_list(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    make_member("busy", units=["u"])
    admin.commit("idle", orders={0: 1})

    assert run("--list").stdout == "busy\nidle\n"
    assert run("--list", "--state").stdout.split() == ["GROUP", "STATE", "busy", "Stable", "idle", "Empty"]
    assert run("--list", "--state", "empty").stdout.split() == ["GROUP", "STATE", "idle", "Empty"]
    assert json.loads(run("--list", "--output", "json").stdout) == [{"group": "busy"}, {"group": "idle"}]
    assert run("--list", "--state", "stable", "--output", "csv").stdout.splitlines() == [
        "GROUP,STATE",
        "busy,Stable",
    ]


@pytest.mark.usefixtures("settings")
def test_describe_in_all_forms(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 4})

    table = run("--describe", "--group", "g")
    data = run("--describe", "--all-groups", "--offsets", "--output", "json", "--verbose")
    sheet = run("--describe", "--group", "g", "--output", "csv")

    assert table.exit_code == 0
    assert table.stderr == "\nConsumer group 'g' has no active members.\n"
    assert [line.split() for line in table.stdout.splitlines()] == [
        [],
        HEADINGS,
        ["g", "orders", "0", "4", "10", "6", "-", "-", "-"],
    ]
    assert json.loads(data.stdout) == [
        {
            "group": "g",
            "topic": "orders",
            "partition": 0,
            "leader_epoch": None,
            "current_offset": 4,
            "log_end_offset": 10,
            "lag": 6,
            "consumer_id": None,
            "host": None,
            "client_id": None,
        }
    ]
    assert data.stderr == "Consumer group 'g' has no active members.\n"
    assert list(csv.reader(sheet.stdout.splitlines())) == [
        HEADINGS,
        ["g", "orders", "0", "4", "10", "6", "", "", ""],
    ]


@pytest.mark.usefixtures("settings")
def test_describe_where_lag_is_measured(admin: MemoryAdmin) -> None:
    """`slow` is measured, one of its partitions has caught up since, and one has come anew."""
    admin.commit("fast", refunds={0: 0})
    admin.commit("slow", orders={0: 4, 1: 20}, refunds={0: 0})
    admin.lags = {"slow": SLOW, "gone": msgspec.structs.replace(SLOW, group_id="gone")}
    assert SLOW.trend_in_words == "clearing in 4 min"

    shown = [
        run("--describe", "--all-groups"),
        run("--describe", "--group", "slow", "--verbose", "--output", "csv"),
        run("--describe", "--group", "slow", "--lag", ">0", "--output", "json"),
    ]
    assert_golden("describe", "".join(f"{each.stderr}---\n{each.stdout}===\n" for each in shown))
    assert {0} == {each.exit_code for each in shown}

    # Of these groups none is measured: it is as it was before anybody measured.
    alone = run("--describe", "--group", "fast")
    assert [HEADINGS] == [line.split() for line in alone.stdout.splitlines() if line.startswith("GROUP")]
    assert alone.stderr == "\nConsumer group 'fast' has no active members.\n"


@pytest.mark.usefixtures("settings")
def test_a_topic_of_lag_that_cannot_be_read_is_a_warning(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_group_ids: object) -> None:
        raise KafkaTimeoutError("the topic could not be read")

    monkeypatch.setattr(admin, "measured_lag", fails)
    admin.commit("g", orders={0: 4})
    result = run("--describe", "--group", "g")

    assert (0, True) == (result.exit_code, "LAG-SECONDS" not in result.stdout)
    assert "\nwarning: The lag in seconds cannot be read: the topic could not be read\n" in result.stderr


@pytest.mark.usefixtures("settings")
def test_views_and_filters_are_passed_on(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    make_member("busy", topics=["orders"], group_instance_id="w1")
    admin.commit("idle", orders={0: 4, 1: 20})

    members = run("--describe", "--group", "busy", "--members", "--verbose", "--output", "json")
    state = run("--describe", "--group", "busy", "--state", "--output", "json")
    behind = run("--describe", "--all-groups", "--lag", ">0", "--output", "json")

    (member,) = json.loads(members.stdout)
    assert ("w1", 2, {"orders": [0, 1]}) == (
        member["group_instance_id"],
        member["partitions"],
        member["current_assignment"],
    )
    assert json.loads(state.stdout) == [
        {
            "group": "busy",
            "coordinator_id": "requests:0  (0)",
            "assignment_strategy": "range",
            "state": "Stable",
            "members": 1,
        }
    ]
    assert [6] == [row["lag"] for row in json.loads(behind.stdout)]


@pytest.mark.usefixtures("settings")
def test_what_is_not_there_is_one_line_and_exit_code_1(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 4})

    result = run("--describe", "--group", "g", "--group", "absent", "--output", "csv")

    assert result.exit_code == 1
    assert 2 == len(result.stdout.splitlines())
    assert "error: Consumer group 'absent' does not exist.\n" in result.stderr


@pytest.mark.usefixtures("settings")
def test_delete(admin: MemoryAdmin) -> None:
    admin.commit("a", orders={0: 4})
    admin.commit("b", orders={0: 4})

    some = run("--delete", "--group", "a", "--group", "absent")
    rest = run("--delete", "--all-groups", "--output", "json")

    assert (1, 0) == (some.exit_code, rest.exit_code)
    assert some.stdout == "\nThese consumer groups were deleted successfully: 'a'\n"
    assert (
        some.stderr == "\nerror: Group 'absent' could not be deleted due to: The group id does not exist.\n"
    )
    assert json.loads(rest.stdout) == [{"group": "b", "status": "Successful"}]


@pytest.mark.usefixtures("settings")
def test_delete_offsets(admin: MemoryAdmin) -> None:
    admin.commit("g", orders={0: 4, 1: 5}, refunds={0: 0})

    result = run("--delete-offsets", "--group", "g", "--topic", "orders:1", "--topic", "refunds")

    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout == (
        "Request succeeded for deleting offsets from group g.\n"
        "\n"
        "TOPIC           PARTITION  STATUS\n"
        "orders          1          Successful\n"
        "refunds         0          Successful\n"
    )
    assert {("orders", 0): 4} == admin.committed("g")


@pytest.mark.usefixtures("settings")
def test_remove_member(admin: MemoryAdmin, make_member: Callable[..., GroupMember]) -> None:
    make_member("busy", units=["u"], group_instance_id="w1")

    nobody = run("--remove-member", "--group", "busy", "--member-id", "nobody")
    result = run(
        *("--remove-member", "--group", "busy", "--group-instance-id", "w1", "--reason", "moved"),
        *("--output", "csv"),
    )

    assert (1, 0) == (nobody.exit_code, result.exit_code)
    assert result.stdout_bytes == b"GROUP,MEMBER,STATUS\r\nbusy,w1,Successful\r\n"
    assert "Empty" == admin.describe_groups(["busy"])["busy"].group_state


# -- reset -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-current"], 4),
        (["--to-offset", "0"], 0),
        (["--to-offset", "-7"], 0),
        (["--shift-by", "-3"], 1),
        (["--to-datetime", "2023-11-14T22:13:25.000"], 5),
        (["--to-datetime", "1969-12-31T23:59:59.998"], 0),
        (["--by-duration", "P365000D"], 0),
        (["--by-duration", "PT0S"], 10),
    ],
)
def test_targets(admin: MemoryAdmin, target: list[str], expected: int) -> None:
    assert FIRST_TIMESTAMP_MS == 1_700_000_000_000  # 2023-11-14T22:13:20Z
    admin.commit("g", orders={0: 4})

    reset = ["--reset-offsets", "--group", "g", "--topic", "orders:0", *target]
    planned = run(*reset, "--dry-run", "--output", "json")
    committed = admin.committed("g")
    done = run(*reset, "--execute")

    head = {"group": "g", "topic": "orders", "partition": 0, "new_offset": expected, "old_offset": 4}
    change = {"read_again": max(0, 4 - expected), "skipped": max(0, expected - 4), "age_seconds": None}
    assert [head | change] == json.loads(planned.stdout)
    assert {("orders", 0): 4} == committed
    assert {("orders", 0): expected} == admin.committed("g")
    assert (0, 0) == (planned.exit_code, done.exit_code)


@pytest.mark.usefixtures("settings")
def test_that_nothing_is_done_is_said_unless_it_is_asked_for(admin: MemoryAdmin) -> None:
    reset = ["--reset-offsets", "--group", "g", "--topic", "orders", "--to-latest"]

    assert run(*reset).stderr.startswith(
        "warning: No action will be performed as the --execute option is missing."
    )
    assert run(*reset, "--dry-run").stderr == ""
    assert run(*reset, "--execute").stderr == ""


@pytest.mark.usefixtures("settings")
def test_what_is_exported_can_be_reset_to(admin: MemoryAdmin, tmp_path: Path) -> None:
    admin.commit("a", orders={0: 4, 1: 6})
    admin.commit("b", orders={0: 5})
    before = {group: admin.committed(group) for group in ("a", "b")}
    plan = tmp_path / "offsets.csv"

    export = run("--reset-offsets", "--all-groups", "--all-topics", "--to-current", "--export", "--dry-run")
    plan.write_text(export.stdout)
    run("--reset-offsets", "--all-groups", "--all-topics", "--to-latest", "--execute")
    moved = admin.committed("a")
    back = run("--reset-offsets", "--all-groups", "--from-file", str(plan), "--execute")

    assert export.stdout == "a,orders,0,4\na,orders,1,6\nb,orders,0,5\n"
    assert {("orders", 0): 10, ("orders", 1): 20} == moved
    assert before == {group: admin.committed(group) for group in ("a", "b")}
    assert 0 == back.exit_code


@pytest.mark.usefixtures("settings")
def test_file_without_groups_is_for_one_group(admin: MemoryAdmin, tmp_path: Path) -> None:
    plan = tmp_path / "offsets.csv"
    plan.write_text("orders,0,4\n")
    reset = ["--reset-offsets", "--from-file", str(plan), "--execute", "--group", "a"]

    assert 0 == run(*reset).exit_code
    assert {("orders", 0): 4} == admin.committed("a")
    for group in (["--group", "b"], ["--all-groups"]):
        result = run(*(reset if group == ["--group", "b"] else reset[:-2]), *group)
        assert 2 == result.exit_code
        assert "--from-file: the lines name no group, so exactly one --group is needed" in result.stderr


# -- watching ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settings")
def test_watch_shows_what_changes_until_it_is_interrupted(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            admin.commit("g", orders={0: 9})
            monkeypatch.setattr(admin, "describe_groups_and_offsets", unreachable)
        elif len(pauses) == 2:
            monkeypatch.undo()
            monkeypatch.setattr(doing, "AdminClient", lambda **_: admin)
            monkeypatch.setattr(doing.time, "sleep", pause)
        else:
            raise KeyboardInterrupt

    def unreachable(_group_ids: object) -> None:
        raise KafkaTimeoutError("Kafka is away")

    monkeypatch.setattr(doing.time, "sleep", pause)
    admin.commit("g", orders={0: 4})
    result = run("--describe", "--group", "g", "--watch", "0.5")

    assert (0, [0.5] * 3) == (result.exit_code, pauses)
    assert ["4", "9"] == re.findall(r"^g +orders +0 +(\d)", result.stdout, re.MULTILINE)
    assert "\nerror: Kafka is away\n" in result.stdout
    assert 3 == len(re.findall(r"^\d\d:\d\d:\d\d$", result.stdout, re.MULTILINE))


@pytest.mark.usefixtures("settings")
def test_watch_without_seconds_and_ctrl_c_in_a_question(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_filters: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(admin, "list_groups", interrupted)

    assert 0 == run("--list", "--watch").exit_code


# -- where the coordinator is ------------------------------------------------------------------------


def test_defaults_of_the_connection(settings: list[dict[str, Any]]) -> None:
    run("--list")

    assert [
        {
            "bootstrap_servers": "localhost:9092",
            "request_timeout_ms": 30_000,
            "request_topic": "coordinator.requests",
            "response_topic": ("coordinator.responses",),
            "groups_topic": "coordinator.groups",
            "lag_topic": "coordinator.lag",
            "bootstrap_timeout_ms": 10_000,
        }
    ] == settings


def test_connection_from_options_and_from_the_coordinators_environment(
    settings: list[dict[str, Any]], tmp_path: Path
) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SSL\n")
    names = {
        "GROUP_COORDINATOR_BOOTSTRAP_SERVERS": "k:1",
        "GROUP_COORDINATOR_TOPICS_REQUESTS": "a",
        "GROUP_COORDINATOR_TOPICS_RESPONSES": "b b.tenant",
        "GROUP_COORDINATOR_TOPICS_GROUPS": "c",
    }
    run("--list", **names)
    run("--list", "--bootstrap-server", "k:2", "--timeout", "5", "--command-config", str(properties))

    topics = ("bootstrap_servers", "request_topic", "response_topic", "groups_topic")
    assert ["k:1", "a", ("b", "b.tenant"), "c"] == [settings[0][name] for name in topics]
    assert (["k:2"], 5, "SSL") == (
        settings[1]["bootstrap_servers"],
        settings[1]["request_timeout_ms"],
        settings[1]["security_protocol"],
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KafkaConnectionError("nobody there"), "cannot use Kafka at localhost:9092: nobody there"),
        (NodeNotReadyError(), "cannot use Kafka at localhost:9092: NodeNotReadyError"),
        (MissingTopicError("coordinator.requests"), "topic 'coordinator.requests' does not exist."),
    ],
)
def test_what_keeps_it_from_connecting_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def connect(**_: Any) -> None:
        raise error

    monkeypatch.setattr(doing, "AdminClient", connect)
    result = run("--list")

    assert 1 == result.exit_code
    assert result.stderr.startswith(f"error: {message}")
    assert 1 == result.stderr.count("\n")


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    "error",
    [
        NoAnswerError(["g"], 1, 30_000, changes=False),
        MissingTopicError("coordinator.groups"),
        KafkaConnectionError("lost"),
    ],
)
def test_what_goes_wrong_later_is_one_line(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_filters: object) -> None:
        raise error

    monkeypatch.setattr(admin, "list_groups", fail)
    result = run("--list")

    assert 1 == result.exit_code
    assert result.stdout == ""
    assert result.stderr == f"error: {error.args[0]}\n"
    assert 1 == admin.closes


# -- wrong usage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one of these is needed: --list, --describe,"),
        (["--describe"], "--describe needs one of these options: --group, --all-groups"),
        (["--describe", "--group", "g", "--lag", "5"], "Invalid value for '--lag': '5' is not a condition"),
        (
            ["--list", "--state", "x"],
            "Invalid value for '--state': Invalid state list 'x'. Valid states are: ",
        ),
        (["--list", "--nonsense"], "No such option"),
        (["--list", "--timeout", "0"], "0 is not in the range"),
        (["--list", "--command-config", "/nothing"], "/nothing cannot be read: No such file or directory"),
        (
            ["--delete-offsets", "--group", "g", "--topic", "t", "--topic", "t:x"],
            "Invalid value for '--topic': invalid partition 'x' in 't:x'",
        ),
        (
            ["--reset-offsets", "--group", "g", "--from-file", "/nothing"],
            "Invalid value for '--from-file': /nothing cannot be read: No such file or directory",
        ),
        (
            ["--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "x"],
            "Invalid value for '--to-datetime': 'x' is not a time",
        ),
        (
            ["--reset-offsets", "--group", "g", "--topic", "t", "--by-duration", "x"],
            "Invalid value for '--by-duration': 'x' is not a duration",
        ),
    ],
)
def test_wrong_usage_is_told_before_anything_happens(arguments: list[str], message: str) -> None:
    # A port where nobody listens: what is wrong has to show before anything is sent.
    result = run("--bootstrap-server", "127.0.0.1:1", *arguments)

    assert 2 == result.exit_code
    assert message in result.stderr


def test_help_has_examples_and_exit_codes() -> None:
    result = run("--help")

    assert "\n  group-coordinator groups --describe --all-groups --lag '>0' --watch\n" in result.output
    assert "  1  something was not done, " in result.output
    for option in ("--to-current", "--remove-member", "--watch [SECONDS]", "--topic TOPIC[:0,1]"):
        assert option in result.output


def test_groups_at_the_brokers_are_asked_of_the_brokers(
    admin: MemoryAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []

    def connect(**settings: Any) -> MemoryAdmin:
        made.append(settings)
        return admin

    monkeypatch.setattr(doing, "BrokersAdmin", connect)
    for environment in ({}, {"GROUP_COORDINATOR_OF": "brokers"}):
        side = [] if environment else ["--of", "brokers"]
        assert (
            run("--list", *side, "--bootstrap-server", "k:1", "--timeout", "5", **environment).exit_code == 0
        )

    (settings, again) = made
    assert re.match(r"admin-.+@.+", settings.pop("client_id"))
    assert settings == {"request_timeout_ms": 5, "bootstrap_servers": "k:1", "bootstrap_timeout_ms": 10_000}
    assert again.keys() == {*settings, "client_id"}


# -- the history -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settings", "own_environment")
def test_undo_with_a_history_of_either_side(
    admin: MemoryAdmin, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[dict[str, Any]] = []

    class Reader:
        has_caught_up = True

        def __init__(self, **given: Any) -> None:
            opened.append(given)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(doing, "EventReader", Reader)
    monkeypatch.setattr(doing, "BrokersAdmin", lambda **_: admin)
    admin.commit("g", orders={0: 3})
    admin.commit("g", orders={0: 0})
    told = [event for body in coordinator.events if (event := read_event(body)) is not None]
    # The first one was a member's.
    told = [
        replace(it, member_id="c1") if isinstance(it, OffsetsCommitted) and "-0-0-" in it.event_id else it
        for it in told
    ]
    write_plain_tables(tmp_path, told)
    undo = ["--reset-offsets", "--group", "g", "--undo", "--execute"]

    missing = run(*undo)
    done = run(*undo, "--history-path", str(tmp_path), "--output", "json")
    admin.commit("g", orders={0: 0})
    of_brokers = run(*undo, "--of", "brokers", GROUP_COORDINATOR_BROKERS_HISTORY_PATH=str(tmp_path))

    assert missing.stderr.startswith("error: history.path is not set: give --history-path")
    assert json.loads(done.stdout)[0]["new_offset"] == 3
    assert (done.exit_code, of_brokers.exit_code) == (0, 0)
    assert [(each["events_topic"], each["begins"]) for each in opened] == [
        ("coordinator.events", {0: len(told)}),
        ("brokers.events", {0: len(told)}),
    ]
