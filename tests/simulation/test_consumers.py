"""Storms for groups of the consumer protocol, and proof that the simulation would notice what is wrong."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import pytest

from group_coordinator.coordinator_state.step import step
from tests.coordinator_state import faults
from tests.depth import cases
from tests.simulation import consumer_faults
from tests.simulation.plays import CONSUMER
from tests.simulation.test_simulation import run_main
from tests.simulation.world import Failed, Outcome, World

# About 350 ms each.
SEEDS = cases(40, deep=2_000)
PORTION = 40
# A fault need not show in every run.
TRIES = 60


class Played(NamedTuple):
    """What has come of a run."""

    outcome: Outcome
    digest: str
    text: str


def play(seed, faulty_step=step):
    world = World(seed, faulty_step, kind=CONSUMER)
    return Played(world.run(), world.digest(), "\n".join(world.lines()))


played = lru_cache(PORTION)(play)
"""Runs that several tests look at."""


@pytest.mark.drawn
@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_storms_do_no_harm(first):
    for seed in range(first, first + PORTION):
        played(seed)


def test_storms_are_storms():
    runs = [played(seed) for seed in range(15)]
    outcomes = [it.outcome for it in runs]
    text = "\n".join(it.text for it in runs)
    assert sum(it.restarts for it in outcomes) > 15
    assert sum(it.reruns for it in outcomes) > sum(it.restarts for it in outcomes)
    assert sum(it.generations for it in outcomes) > 150
    for told in (
        "ends, because another program has its place",
        "session_expired",
        "not_revoked",
        "MemberFenced",
        "MemberAway",
        "gone=['",
        "has given up",
        "topic-watcher",
        "FENCED_MEMBER_EPOCH",
    ):
        assert told in text, told


def test_seed_is_a_run_of_each_kind():
    digests = [played(seed).digest for seed in range(4)]
    assert digests == [play(seed).digest for seed in range(4)]
    classic = World(0)
    classic.run()
    assert len({*digests, classic.digest()}) == 5


# -- what the simulation notices -------------------------------------------------------------------


def first_failure(faulty_step=step, tries=TRIES, first=0) -> Failed:
    for seed in range(first, first + tries):
        try:
            play(seed, faulty_step)
        except Failed as failure:
            return failure
    pytest.fail("nobody has noticed")


@pytest.mark.parametrize(
    ("fault", "notice", "first"),
    [
        # The seeds from `first` on: a search has found it, where the first ones show nothing, or little.
        (consumer_faults.frees_partitions_before_they_are_given_up, "is in two hands", 0),
        (consumer_faults.waits_for_no_acknowledgement, "which it has given up", 0),
        (consumer_faults.forgets_what_is_pending, "", 0),
        (consumer_faults.fences_the_epoch_before, "was fenced though all that it sends arrives", 4),
        (consumer_faults.takes_the_epoch_before_that, "", 19),
        (consumer_faults.goes_on_before_it_has_heard, "", 0),
        (consumer_faults.hears_no_sign_of_life, "is heard until", 0),
        (consumer_faults.divides_the_work_at_once, "divided again too soon", 1),
        (consumer_faults.gives_time_without_end_to_revoke, "has not given up in time", 5),
        (consumer_faults.believes_every_hint, "", 41),
        (consumer_faults.grants_every_commit, "", 0),
        (consumer_faults.tells_nobody_what_has_changed, "and is not told", 0),
        (consumer_faults.divides_by_how_often_it_was_called, "ran again decided otherwise", 3),
        (consumer_faults.looks_late_for_what_expires, "", 79),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_core_that_is_wrong_is_noticed(monkeypatch, fault, notice, first):
    fault(monkeypatch)
    assert notice in str(first_failure(first=first).__cause__)


@pytest.mark.parametrize(
    ("fault", "notice", "first"),
    [
        (consumer_faults.acknowledges_before_it_has_given_up, "which it has given up", 1),
        (consumer_faults.keeps_what_it_has_when_it_is_put_out, "", 4),
        (consumer_faults.goes_on_when_it_is_put_out, "ms after the storm", 1),
        (consumer_faults.takes_every_answer_for_the_newest, "goes back to", 3),
        (consumer_faults.is_silent_when_nothing_changes, "was put out although it works", 4),
        (consumer_faults.begins_at_nothing, "goes back from", 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_member_that_is_wrong_is_noticed(monkeypatch, fault, notice, first):
    fault(monkeypatch)
    assert notice in str(first_failure(first=first).__cause__)


@pytest.mark.parametrize(
    ("fault", "notice"),
    [
        (faults.counts_outages, ""),
        (faults.lets_time_pass_first, ""),
        (faults.never_expires, "a deadline has passed"),
        (faults.grants_all_commits, ""),
        (faults.tells_no_offsets, ""),
        (faults.answers_somebody_else, "somebody else was answered"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_call_that_is_wrong_is_noticed(fault, notice):
    assert notice in str(first_failure(fault).__cause__)


# -- what people see -------------------------------------------------------------------------------


def test_trace_is_shown(monkeypatch, capsys):
    assert run_main(monkeypatch, "--trace", "5", "--kind", CONSUMER) == 0
    told = capsys.readouterr().out
    assert "takes a-0/01" in told
    assert "Outcome(seed=5, kind='consumer'" in told


def test_long_run_plays_both_kinds(monkeypatch, capsys):
    assert run_main(monkeypatch, "--seeds", "2") == 0
    told = capsys.readouterr().out
    assert "of classic groups: " in told
    assert "of consumer groups: " in told


def test_failure_tells_how_to_play_it_again():
    failure = first_failure(faults.never_expires)
    assert f"python -m tests.simulation --trace {failure.world.seed} --kind consumer" in str(failure)
