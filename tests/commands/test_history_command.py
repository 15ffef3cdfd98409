"""`group-coordinator history`: questions on the command line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from group_coordinator.commands.cli import main
from group_coordinator.commands.history import explaining
from group_coordinator.commands.history.command import _VIEWS
from group_coordinator.commands.times import parse_time
from group_coordinator.history.questions import QUESTIONS
from tests.coordinator_state.scenario import Scenario
from tests.history import consumers
from tests.history.consumers import Consumers
from tests.history.plain import lag_rows, write_plain_tables
from tests.history.scripts import a_day, events

NOW = datetime(2026, 3, 1, 14, 5, tzinfo=UTC)
WHOLE = ("--from", "1970-01-01", "--to", "1970-01-02")
REACH = "The tables reach to 1970-01-01T00:00:20.000Z."
RESET = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 0}]}]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("history")
    write_plain_tables(path, events(a_day()), lag=lag_rows("orders", (5, 7)))
    return path


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group of the consumer protocol, in which one member waits for another one."""
    path = tmp_path_factory.mktemp("moving")
    group = Consumers({"orders": 2})
    group.at(1_000)
    group.join("m1")
    group.at(2_000)
    group.join("m2")
    write_plain_tables(path, consumers.events(group))
    return path


def ask(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["history", "--history-path", str(path), *words])


def answer(path: Path, *words: str) -> str:
    result = ask(path, *words)
    assert (result.exit_code, result.stderr.strip()[:20]) == (0, "The tables reach to ")
    return result.stdout


# -- answers ---------------------------------------------------------------------------------------------


def test_rebalances_are_what_is_asked_first(path: Path) -> None:
    lines = [line.split() for line in answer(path, "orders", *WHOLE).splitlines()]
    assert lines[0] == [
        *("BEGAN", "TOOK-MS", "ENDED-IN", "CAUSE", "REASON", "GENERATION-ID", "MEMBERS", "LAST-TO-JOIN"),
        "JOINED-AFTER-MS",
    ]
    assert [line[:4] for line in lines[1:]] == [
        ["1970-01-01T00:00:01.000Z", "0", "Stable", "member_joined"],
        ["1970-01-01T00:00:11.000Z", "2000", "Stable", "session_expired"],
        ["1970-01-01T00:00:20.000Z", "0", "Empty", "member_left"],
    ]


def test_the_rebalance_of_a_moment_and_the_one_before(path: Path) -> None:
    rows = json.loads(answer(path, "orders", "--at", "1970-01-01T00:00:12", "--output", "json"))
    assert [row["cause"] for row in rows] == ["session_expired", "member_joined"]


def test_who_owned_a_partition_at_a_moment(path: Path) -> None:
    asked = ("orders", "--partition", "orders:1", "--at", "1970-01-01T00:00:05", "--output", "json")
    (row,) = json.loads(answer(path, *asked))
    assert (row["client_id"], row["generation_id"]) == ("c2", 2)
    assert (row["since"], row["until"]) == ("1970-01-01T00:00:01.000Z", "1970-01-01T00:00:11.000Z")


def test_one_member(path: Path) -> None:
    rows = answer(path, "orders", "--members", "--member", "c2", *WHOLE, "--output", "csv").splitlines()
    assert rows[0].startswith("CLIENT-ID,GROUP-INSTANCE-ID,MEMBER-ID,CLIENT-HOST,SINCE,UNTIL,REASON")
    assert [row.split(",")[0] for row in rows[1:]] == ["c2"]


def test_who_reset_these_offsets(path: Path, tmp_path: Path) -> None:
    rows = json.loads(answer(path, "orders", "--offsets", *WHOLE, "--output", "json"))
    assert [(row["partition"], row["committed_offset"], row["principal"]) for row in rows] == [
        (0, 7, "alice"),
        (1, 9, "alice"),
    ]
    hostile = Scenario()
    hostile.send("offset_commit", "tool", topics=RESET, principal="\x1b[2Jal\nice")
    write_plain_tables(tmp_path, events(hostile))
    assert r"  \x1b[2Jal\nice  " in answer(tmp_path, "orders", "--offsets", *WHOLE)


@pytest.mark.parametrize("view", _VIEWS)
def test_every_question_is_answered(path: Path, moving: Path, view: str) -> None:
    tables = moving if view == "waits" else path
    assert json.loads(answer(tables, "orders", f"--{view}", *WHOLE, "--output", "json"))


def test_who_still_holds_what_another_one_waits_for(moving: Path) -> None:
    at = ("--at", "1970-01-01T00:00:03", "--output", "json")
    (row,) = json.loads(answer(moving, "orders", "--waits", *at))
    assert (row["topic"], row["partition"], row["held_by"], row["waited_for_by"]) == (
        *("orders", 1),
        *("c-m1", "c-m2"),
    )
    assert (row["since"], row["until"]) == ("1970-01-01T00:00:02.000Z", None)
    told = answer(moving, "orders", "--explain", "--at", "1970-01-01T00:00:03")
    assert "c-m1 still holds orders 1, which c-m2 waits for, since 00:00:02." in told


def test_the_help_knows_all_questions() -> None:
    assert list(_VIEWS) == [question.name for question in QUESTIONS]


def test_every_example_of_the_help_is_a_question() -> None:
    shown = CliRunner().invoke(main, ["history", "--help"]).stdout
    examples = re.findall(r"^ +group-coordinator (history .*)$", shown, re.MULTILINE)
    assert len(examples) >= 10
    for example in examples:
        if "--timeline" not in example and "--explain" not in example:
            result = CliRunner().invoke(main, [*example.split(), "--sql"])
            assert (result.exit_code, result.stdout[:4]) in {(0, "WITH"), (0, "SELE")}, example


def test_a_rebalance_in_plain_words(path: Path) -> None:
    text = answer(path, "orders", "--explain", "--at", "1970-01-01T00:00:12")
    first, sign, evidence_of_sign, second, evidence, *_ = text.splitlines()
    assert first == "Rebalance at 1970-01-01 00:00:11 UTC: session expired, for 2 s, 1 member in the end"
    assert sign == "  00:00:01.000  c2 joined."
    assert "member c2-" in evidence_of_sign
    assert second == "  00:00:11.000  c2 was removed, because no heartbeat came for a whole session."
    assert re.fullmatch(r" {6}\[event orders@11000-0, member c2-\S+\]", evidence)
    rows = json.loads(answer(path, "orders", "--explain", *WHOLE, "--output", "json"))
    assert [row["cause"] for row in rows if row["at"] == row["began"]][-1] == "member_left"
    expired = next(row for row in rows if row["event_id"] == "orders@11000-0")
    assert (expired["took_ms"], expired["member_id"][:3], expired["at"]) == (
        *(2_000, "c2-"),
        "1970-01-01T00:00:11.000Z",
    )
    assert {"text", "log_offset", "ended"} <= set(expired)
    nothing = ask(path, "orders", "--explain", "--from", "1969-01-01", "--to", "1969-01-02")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "Nothing of that kind is known of group 'orders' in that time." in nothing.stderr
    assert ask(path, "nobody", "--explain", *WHOLE).exit_code == 1


def test_near_misses_without_a_rebalance(tmp_path: Path) -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    for at_ms in (5_000, 14_500, 24_499, 30_000):
        s.at(at_ms)
        s.heartbeat_of("c1", "c2")
    write_plain_tables(tmp_path, events(s))
    text = answer(tmp_path, "orders", "--explain", "--at", "1970-01-01T00:00:20")
    rebalance, near = text.split("Sessions that had nearly expired, without a rebalance\n")
    assert "sign of life" not in rebalance
    first, evidence, second, _ = near.splitlines()
    assert (
        first
        == "  00:00:14.500  c1 showed a sign of life 500 ms before its session of 10 s would have expired."
    )
    assert re.fullmatch(r" {6}\[event requests-0-9-0, log offset \d+, member c1-\S+\]", evidence)
    assert second.startswith("  00:00:14.500  c2 showed a sign of life")
    rows = json.loads(answer(tmp_path, "orders", "--explain", *WHOLE, "--output", "json"))
    assert [(row["began"], row["cause"]) for row in rows if "sign of life" in row["text"]] == [
        (None, None)
    ] * 2
    # Nothing of it is known a little earlier.
    assert "sign of life" not in answer(tmp_path, "orders", "--explain", "--at", "1970-01-01T00:00:14.1")


def test_so_many_are_explained_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "_MOST", 2)
    result = ask(path, "orders", "--explain", *WHOLE)
    assert result.stdout.count("Rebalance at ") == 2
    assert "The newest 2 of 3 rebalances. Ask for a shorter time?" in result.stderr


def test_all_groups(path: Path) -> None:
    heading, row, *_ = answer(path, *WHOLE).splitlines()
    # A column without anything in it is not shown, such as that of the lag.
    assert heading.split() == [
        *("GROUP-ID", "REBALANCES", "LAST-CAUSE", "NOT-STABLE-MS", "NOT-STABLE-PERCENT", "LONGEST-MS"),
        "LAST-MOVE",
    ]
    share = "0.002"  # of the 86,400 s of that day
    assert row.split() == ["orders", "3", "member_left", "2000", share, "2000", "1970-01-01T00:00:20.000Z"]
    (found,) = json.loads(answer(path, *WHOLE, "--output", "json"))
    assert found["trend"] is None


@pytest.mark.parametrize(
    ("words", "is_found"),
    [
        (("--cause", "session_expired", "--member", "c2", "--partition", "orders"), True),
        (("--cause", "leader_rejoined"), False),
        (("--member", "c3"), False),
        (("--partition", "orders:1"), True),
        (("--partition", "orders:2"), False),
    ],
)
def test_groups_are_chosen(path: Path, words: tuple[str, ...], is_found: bool) -> None:
    result = ask(path, *WHOLE, *words)
    assert ("orders" in result.stdout) is is_found
    assert ("There was no such group in that time." in result.stderr) is not is_found


def test_the_query_itself_needs_no_tables() -> None:
    result = CliRunner().invoke(main, ["history", "o'clock", "--joins", "--sql"])
    assert result.exit_code == 0
    assert "WHERE group_id = 'o''clock' AND" in result.stdout
    assert result.stdout.rstrip().endswith(";")


def test_as_of_before_something_was_written(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, [])
    between = datetime.now(UTC).isoformat()
    write_plain_tables(tmp_path, events(a_day()))

    assert "orders" in answer(tmp_path, *WHOLE)
    assert "There was no such group" in ask(tmp_path, *WHOLE, "--as-of", between).stderr


def test_as_of_asks_for_the_day_before_it() -> None:
    shown = CliRunner().invoke(main, ["history", "--as-of", "2026-01-30T12:00", "--sql"]).stdout
    assert f"at_ms >= {round(datetime(2026, 1, 29, 12, tzinfo=UTC).timestamp()) * 1_000} AS is_in" in shown
    assert "at < TIMESTAMP '2026-01-30 12:00:00.000+00:00'" in shown


def test_where_the_tables_are_may_be_in_the_settings(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_environment: None
) -> None:
    config = tmp_path / "coordinator.toml"
    config.write_text(f'history.path = "{path}"\n')
    for environment in (
        {"GROUP_COORDINATOR_CONFIG": str(config)},
        {"GROUP_COORDINATOR_HISTORY_PATH": str(path)},
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            result = CliRunner().invoke(main, ["history", "orders", *WHOLE])
            assert (result.exit_code, result.stderr.strip()) == (0, REACH)


@pytest.mark.parametrize(("name", "begin"), [("t.svg", "<svg"), ("t.html", "<!DOCTYPE html>")])
def test_a_timeline(path: Path, tmp_path: Path, name: str, begin: str) -> None:
    file = tmp_path / name
    result = ask(
        path, "orders", "--timeline", str(file), "--from", "1970-01-01", "--to", "1970-01-01T00:00:30"
    )
    assert (result.exit_code, result.stderr) == (0, f"{file} has the timeline of group orders\n")
    text = file.read_text()
    assert text.startswith(begin)
    assert "session_expired" in text or "session expired" in text


# -- nothing to answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("orders",),
            "Nothing of that kind is known of group 'orders' in that time. Look further back with --from?",
        ),
        (("orders", "--at", "1969-12-31"), "Nothing of that kind is known of group 'orders' at that time."),
        ((), "There was no such group in that time."),
    ],
)
def test_nothing_is_found_and_why(path: Path, words: tuple[str, ...], said: str) -> None:
    result = ask(path, *words)
    # No headings either: there is nothing below them.
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.strip().split("\n\n") == [said, REACH]


def test_an_unknown_group_is_an_error_as_in_groups(path: Path) -> None:
    result = ask(path, "nobody", *WHOLE)
    assert (result.exit_code, result.stdout) == (1, "")
    said = ["error: The history knows no group 'nobody'.", REACH]
    assert result.stderr.strip().split("\n\n") == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("orders", "--at", "14:05", "--from", "1h"), "--at cannot be used with --from and --to"),
        (("orders", "--from", "1h", "--to", "2h"), "--from is later than --to"),
        (("orders", "--causes", "--member", "c1"), "--member cannot be used with --causes"),
        (("orders", "--joins", "--at", "14:05"), "--at cannot be used with --joins"),
        (("orders", "--members", "--partition", "orders:1"), "--partition cannot be used with --members"),
        (("orders", "--partition", "orders:1,2"), "--partition takes one partition"),
        (("orders", "--partition", "orders:x"), "invalid partition 'x' in 'orders:x'"),
        (("--timeline", "x.svg"), "--timeline takes a group, --from and --to, and nothing else"),
        (("orders", "--timeline", "x.png"), "--timeline wants a file called .svg or .html"),
        (("--explain",), "--explain takes a group, and --at or --from and --to, and no other question"),
        (("orders", "--explain", "--states"), "--explain takes a group, and --at or --from and --to"),
        (("--members",), "name a group, or ask for all groups without --at and questions"),
        (("--at", "14:05"), "name a group, or ask for all groups without --at and questions"),
        (("--cause", "bad luck"), "--cause must be one of member_joined, member_left, member_replaced,"),
        (("orders", "--cause", "unknown"), "--cause is for all groups: --causes shows those of a group"),
        (
            ("orders", "--from", "soon"),
            "'soon' is no time: write 2026-01-31T14:05, 14:05, now, or 24h",
        ),
    ],
)
def test_questions_that_make_no_sense(path: Path, words: tuple[str, ...], said: str) -> None:
    result = ask(path, *words)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    result = ask(tmp_path, "orders")
    said = f"there is no table {tmp_path}/events: is it where `group-coordinator write-history` writes?"
    assert (result.exit_code, result.stderr) == (1, f"error: {said}\n")


def test_a_timeline_that_cannot_be_written(path: Path, tmp_path: Path) -> None:
    result = ask(path, "orders", *WHOLE, "--timeline", str(tmp_path / "none" / "t.svg"))
    assert (result.exit_code, result.stderr) == (
        1,
        f"error: cannot write {tmp_path}/none/t.svg: No such file or directory\n",
    )


def test_a_timeline_of_nobody(path: Path, tmp_path: Path) -> None:
    result = ask(path, "nobody", *WHOLE, "--timeline", str(tmp_path / "t.svg"))
    assert (result.exit_code, result.stderr) == (1, "error: The history knows no group 'nobody'.\n")


def test_nobody_says_where_they_are(own_environment: None) -> None:
    result = CliRunner().invoke(main, ["history", "orders"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: history.path is not set: give --history-path, ")


# -- times -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "time"),
    [
        ("2026-01-31T14:05", datetime(2026, 1, 31, 14, 5, tzinfo=UTC)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T14:05:06.5+02:00", datetime(2026, 1, 31, 12, 5, 6, 500_000, tzinfo=UTC)),
        ("14:05", NOW),
        ("now", NOW),
        ("14:06", datetime(2026, 2, 28, 14, 6, tzinfo=UTC)),
        ("00:00:01", datetime(2026, 3, 1, 0, 0, 1, tzinfo=UTC)),
        ("90s", datetime(2026, 3, 1, 14, 3, 30, tzinfo=UTC)),
        ("2w", datetime(2026, 2, 15, 14, 5, tzinfo=UTC)),
    ],
)
def test_times(words: str, time: datetime) -> None:
    assert parse_time(words, NOW) == time


@pytest.mark.parametrize(
    ("since", "words", "time"),
    [
        # Asked at 14:05, and in the night itself.
        ("22:00", "06:00", datetime(2026, 3, 1, 6, tzinfo=UTC)),
        ("13:00", "14:00", datetime(2026, 3, 1, 14, tzinfo=UTC)),
        ("13:00", "06:00", datetime(2026, 3, 2, 6, tzinfo=UTC)),
        ("2026-02-01T23:30+02:00", "22:00", datetime(2026, 2, 1, 22, tzinfo=UTC)),
        ("22:00", "1h", datetime(2026, 3, 1, 13, 5, tzinfo=UTC)),
    ],
)
def test_a_period_ends_at_the_first_such_time_after_it_began(since: str, words: str, time: datetime) -> None:
    assert parse_time(words, NOW, after=parse_time(since, NOW)) == time


def test_the_end_of_a_period_is_after_its_beginning_in_whatever_order_they_come() -> None:
    words = ["history", "orders", "--to", "06:00", "--from", "2026-01-30T22:00", "--sql"]
    shown = CliRunner().invoke(main, words).stdout
    assert "TIMESTAMP '2026-01-31 06:00:00.000+00:00'" in shown


@pytest.mark.parametrize("words", ["", "25:00", "5", "1y", "yesterday", "9999999999w"])
def test_what_is_no_time(words: str) -> None:
    with pytest.raises(ValueError, match="is no time: write"):
        parse_time(words, NOW)


def test_the_tables_of_groups_at_the_brokers_are_found_by_their_own_setting(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROUP_COORDINATOR_BROKERS_HISTORY_PATH", raising=False)
    config = tmp_path / "settings.toml"
    config.write_text('history.path = "/nowhere"\n')
    words = ["history", "orders", *WHOLE, "--of", "brokers", "--config", str(config)]
    missing = CliRunner().invoke(main, words)
    assert missing.exit_code == 1
    assert missing.stderr.startswith("error: brokers.history.path is not set: give --history-path, set ")

    config.write_text(f'history.path = "/nowhere"\nbrokers.history.path = "{path}"\n')
    assert "session_expired" in CliRunner().invoke(main, words).stdout
    both = CliRunner().invoke(
        main, [*words[:-4], "--config", str(config)], env={"GROUP_COORDINATOR_OF": "both"}
    )
    assert both.stderr == "error: of must be coordinator or brokers, and is 'both'\n"
