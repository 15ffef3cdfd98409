"""A load of real members, of whom some die, and what the tables tell of it: the same as the members saw."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from group_coordinator.commands.cli import main
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import Story
from tests.faults.checker import check
from tests.faults.notes import Owned, Sent
from tests.faults.told import expected_tables
from tests.history.crew import PARTITIONS, SLOW_MS, Played, play
from tests.history.proof import compare, seen, told

# The load takes a minute, but not on a busy machine.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200), pytest.mark.verify]

EVER = (time_of(0), datetime.fromisoformat("2100-01-01T00:00:00Z"))
# The members of each generation, and why each rebalance began; the last one left nobody.
CREWS = ["a", "a b", "a b c", "a b c d", "a b c d slow", "b c d slow", "c d slow", "d slow", "slow"]
CAUSES = [*["member_joined"] * 5, *["session_expired"] * 3, *["member_left"] * 2]


@pytest.fixture(scope="module")
def played(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Played:
    directory = tmp_path_factory.mktemp("crew")
    # What it says is seen if it fails.
    return play(bootstrap_servers, directory, seed=8, kills=2, max_events=500, say=print)


@pytest.fixture(scope="module")
def story(played: Played) -> Story:
    return HistoryReader(str(played.writer.path)).story(played.group_id, *EVER)


def partitions(played: Played) -> list[str]:
    return [f"{played.topic}-{number}" for number in range(PARTITIONS)]


def clients(played: Played) -> dict[str, str]:
    """Member id -> client id, by what the members say."""
    return {it.member_id: it.client_id for it in played.history.notes if isinstance(it, Owned)}


# -- what the members saw --------------------------------------------------------------------------------


def test_generations_are_what_the_members_saw(played: Played, story: Story) -> None:
    assert compare(story, played.history.notes, partitions(played)) == []
    assert told(story) == seen(played.history.notes)

    names, generations = clients(played), told(story)
    assert sorted(generations) == list(range(1, 1 + len(CREWS)))
    assert [" ".join(sorted(names[it] for it in crew)) for crew in generations.values()] == CREWS
    assert all(sorted(set().union(*each.values())) == partitions(played) for each in generations.values())


def test_each_rebalance_has_its_cause(played: Played, story: Story) -> None:
    ends = [each for each in story.transitions if each.rebalance_ms is not None]
    assert [each.cause for each in ends] == CAUSES
    assert [each.to_state for each in ends] == ["Stable"] * 9 + ["Empty"]


def test_members_went_as_they_did(played: Played, story: Story) -> None:
    went = {each.client_id: (each.reason, each.until) for each in story.memberships}
    assert {name: reason for name, (reason, _) in went.items()} == {
        "a": "session_expired",
        "b": "session_expired",
        "c": "session_expired",
        "d": "left",
        "slow": "left",
    }
    assert all(went[name][1] > time_of(died_ms) for name, died_ms in played.died_ms.items())


def test_a_coordinator_that_is_killed_is_nobodys_death(played: Played, story: Story) -> None:
    killed, back = played.away_ms
    # Nothing happened while it was away; what came then is due to who died meanwhile.
    before = [each for each in story.transitions if each.at <= time_of(killed)]
    after = [each for each in story.transitions if each.at > time_of(killed)]
    (dead,) = [each for each in story.memberships if each.client_id == "b"]
    assert before[-1].to_state == "Stable"
    assert (after[0].to_state, after[0].at) == ("PreparingRebalance", dead.until)
    assert any(it.start_ms <= back and it.end_ms >= killed for it in played.history.outages)


def test_the_slow_one_is_named(played: Played, story: Story) -> None:
    came = next(it.at for it in story.transitions if (it.to_state, it.generation_id) == ("Stable", 5))
    slowest, *others = ask(played, "--joins", "--from", came.isoformat())
    # Three rebalances with others, and one, when the last of them had left, alone.
    assert (slowest["client_id"], slowest["joins"], slowest["last_to_join"]) == ("slow", 4, 3)
    assert {each["last_to_join"] for each in others} == {0}
    assert slowest["average_ms"] >= SLOW_MS

    # It joined after it had sent that, by its own clock, and before it knew what came of it.
    notes = [it for it in played.history.notes if it.client_id == "slow"]
    sent = [it.at_ms for it in notes if isinstance(it, Sent) and it.api == "join_group"][-4:]
    heard = [it.at_ms for it in notes if isinstance(it, Owned)][-4:]
    began = [it.at for it in story.transitions if it.at > came and it.to_state == "PreparingRebalance"][:4]
    joins = [it for it in story.joins if it.at > came and it.client_id == "slow"]
    for join, sent_ms, heard_ms, since in zip(joins, sent, heard, began, strict=True):
        assert time_of(sent_ms) <= join.at <= time_of(heard_ms)
        assert join.join_phase_ms == (join.at - since) / timedelta(milliseconds=1) >= SLOW_MS


# -- each event once -------------------------------------------------------------------------------------


def test_every_row_is_there_once_although_the_job_was_killed(played: Played) -> None:
    assert played.writer.kills == 2
    expected = expected_tables(played.history)
    assert {name: len(rows) for name, rows in played.history.tables.items()} == {
        name: len(rows) for name, rows in expected.items()
    }
    ids = [row["event_id"] for row in played.history.tables["events"]]
    assert len(set(ids)) == len(ids)
    # Row by row; and what the coordinator answered and told is what the core decides about the log.
    assert [str(violation) for violation in check(played.history)] == []


# -- asked on the command line ---------------------------------------------------------------------------


def ask(played: Played, *words: str) -> list[dict[str, Any]]:
    where = ("--history-path", str(played.writer.path), "--output", "json")
    result = CliRunner().invoke(main, ["history", played.group_id, *where, *words])
    assert result.exit_code == 0
    assert re.fullmatch(r"The tables reach to \S+Z\.\n", result.stderr)
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def test_why_there_were_ten_rebalances(played: Played) -> None:
    rows = ask(played, "--rebalances")
    assert [row["cause"] for row in rows] == CAUSES
    assert [row["members"] for row in rows] == [*(len(crew.split()) for crew in CREWS), 0]
    assert [row["last_to_join"] for row in rows][5:8] == ["slow"] * 3


def test_who_was_in_when_the_coordinator_was_away(played: Played) -> None:
    at = time_of(sum(played.away_ms) // 2).isoformat()
    assert sorted(row["client_id"] for row in ask(played, "--members", "--at", at)) == ["b", "c", "d", "slow"]


@pytest.mark.parametrize("number", [0, PARTITIONS - 1])
def test_who_owned_a_partition_when_its_owner_was_dead_and_when_the_coordinator_was(
    played: Played, number: int
) -> None:
    names, unit = clients(played), f"{played.topic}-{number}"
    for at_ms in (*played.died_ms.values(), played.away_ms[0]):
        # The newest generation that anybody knew of.
        generation_id = max(
            it.generation_id for it in played.history.notes if isinstance(it, Owned) and it.at_ms <= at_ms
        )
        shares = seen(played.history.notes)[generation_id]
        (owner,) = (names[member_id] for member_id, units in shares.items() if unit in units)
        when = ("--at", time_of(at_ms).isoformat())
        (row,) = ask(played, "--assignments", "--partition", f"{played.topic}:{number}", *when)
        assert (row["client_id"], row["generation_id"]) == (owner, generation_id)


# -- that it could fail ----------------------------------------------------------------------------------


def lose_a_member(story: Story) -> None:
    del story.generations[3]


def lose_an_assignment(story: Story) -> None:
    del story.assignments[0]


def lose_a_generation(story: Story) -> None:
    story.generations = [each for each in story.generations if each.generation_id != 4]
    story.assignments = [each for each in story.assignments if each.generation_id != 4]


def lose_a_membership(story: Story) -> None:
    del story.memberships[1]


def change_an_owner(story: Story) -> None:
    one, other = (each for each in story.assignments if each.generation_id == 2 and each.partition in (0, 5))
    one.member_id = other.member_id


def let_an_owner_keep_it(story: Story) -> None:
    story.assignments[0].until = story.assignments[0].until + timedelta(milliseconds=1)


def let_an_owner_lose_it(story: Story) -> None:
    story.assignments[-1].until = story.assignments[-1].until - timedelta(milliseconds=1)


def leave_the_work_of_the_dead(story: Story) -> None:
    (late,) = (each for each in story.assignments if each.generation_id == 6 and each.partition == 0)
    late.since = late.since + timedelta(milliseconds=1)


def assign_it_late(story: Story) -> None:
    for each in story.assignments:
        if each.generation_id == 3:
            each.since = each.since + timedelta(seconds=60)


def assign_it_early(story: Story) -> None:
    for each in story.assignments:
        if each.generation_id == 9:
            each.until = each.until - timedelta(seconds=60)


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lose_a_member, "members saw another generation"),
        (lose_an_assignment, "members saw another generation"),
        (lose_a_generation, "nobody owns a partition"),
        (lose_a_membership, "who is no member takes part"),
        (change_an_owner, "members saw another generation"),
        (let_an_owner_keep_it, "two own one partition"),
        (let_an_owner_lose_it, "nobody owns a partition"),
        (leave_the_work_of_the_dead, "nobody owns a partition"),
        (assign_it_late, "a member owned it before"),
        (assign_it_early, "a member owned it longer"),
    ],
    ids=lambda it: getattr(it, "__name__", ""),
)
def test_tables_that_are_wrong_are_found(
    played: Played, story: Story, spoil: Callable[[Story], None], rule: str
) -> None:
    spoiled = deepcopy(story)
    spoil(spoiled)
    found = compare(spoiled, played.history.notes, partitions(played))
    assert rule in {violation.rule for violation in found}
