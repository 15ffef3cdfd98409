"""Storms for the whole system: some seeds each time, and proof that the simulation would notice."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

from group_coordinator.checkpoints import standing
from group_coordinator.checkpoints.known import Known
from group_coordinator.checkpoints.ledger import Begun, Ledger, Notes
from group_coordinator.client.membership import Membership
from group_coordinator.coordinator_state import near_expiry
from group_coordinator.coordinator_state.clocks import Span
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.offsets import offset_commit
from group_coordinator.coordinator_state.standstills import PartitionOutages
from group_coordinator.coordinator_state.step import step
from group_coordinator.coordinator_state.turn import Turn
from group_coordinator.streaming.timekeeper import Timekeeper
from group_coordinator.streaming.write_times import WriteTimes
from tests.coordinator_state import faults
from tests.depth import cases
from tests.simulation import __main__ as program
from tests.simulation import coordinator
from tests.simulation.clients import Client
from tests.simulation.conditions import NOTICED_MS
from tests.simulation.network import Log
from tests.simulation.world import Failed, Outcome, World

# About 200 ms each.
SEEDS = cases(100, deep=5_000)
PORTION = 100
# A fault need not show in every run.
TRIES = 60
# In this run a partition is away for longer than a gap, and comes back before it stands still.
AWAY = 9257


class Played(NamedTuple):
    """What has come of a run."""

    outcome: Outcome
    digest: str


def play(seed: int) -> Played:
    world = World(seed)
    return Played(world.run(), world.digest())


played = lru_cache(PORTION)(play)
"""Runs that several tests look at."""


@pytest.mark.drawn
@pytest.mark.parametrize("first", range(0, SEEDS, PORTION))
def test_storms_do_no_harm(first):
    for seed in range(first, first + PORTION):
        played(seed)


def test_program_that_is_about_to_be_started_again_survives():
    # The only one left is fenced by a request of the storm, just before anybody looks who is there.
    World(7569801).run()


@pytest.mark.parametrize(
    "seed", [1000626, 1001217, 1003143, 1003331, 1008364, 3024556, 3051587, 3063522, 3168525]
)
def test_what_was_held_back_or_waits_after_an_outage_is_no_wrong_clock(seed):
    # Partitions replicate again a moment before a batch, or a clock is put right in a backlog.
    World(seed).run()


def test_storms_are_storms():
    outcomes = [played(seed).outcome for seed in range(40)]
    assert sum(it.corrections for it in outcomes) > 20
    assert sum(it.standstills for it in outcomes) > 20
    assert sum(it.restarts for it in outcomes) > 40
    assert sum(it.reruns for it in outcomes) > sum(it.restarts for it in outcomes)
    assert sum(it.generations for it in outcomes) > 200
    assert sum(it.requests for it in outcomes) > 4_000


# -- determinism -----------------------------------------------------------------------------------


def test_seed_is_a_run():
    digests = [played(seed).digest for seed in range(20)]
    assert digests == [play(seed).digest for seed in range(20)]
    assert len(set(digests)) == 20


def test_seed_is_a_run_in_every_process():
    code = "from tests.simulation.world import World\nfor seed in range(8):\n    world = World(seed)\n"
    code += "    world.run()\n    print(world.digest())"
    expected = [played(seed).digest for seed in range(8)]
    for hash_seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode().split() == expected


# -- what the simulation notices -------------------------------------------------------------------


def first_failure(faulty_step=step, tries=TRIES, first=0) -> Failed:
    for seed in range(first, first + tries):
        try:
            World(seed, faulty_step).run()
        except Failed as failure:
            return failure
    pytest.fail("nobody has noticed")


@pytest.mark.parametrize(
    ("fault", "notice"),
    [
        (faults.forgets_a_member, "in agrees_with_group"),
        (faults.gives_units_twice, "in _assignment_propagated"),
        (faults.CountsItsCalls(), "ran again decided otherwise"),
        (faults.lets_time_pass_first, "nothing had passed"),
        (faults.counts_outages, "time went back"),
        (faults.never_expires, "in _nothing_was_due_before"),
        (faults.tells_other_assignments, "in _tells_assignment"),
        (faults.answers_joins_twice, "answers that nobody waited for"),
        (faults.never_answers_syncs, "no answer to Sync"),
        (faults.answers_somebody_else, "somebody else was answered"),
        (faults.forgets_offsets, "in _published_is_what_has_changed"),
        (faults.grants_all_commits, "in _take"),
        (faults.tells_no_offsets, "in agrees_with_fetch"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_coordinator_that_is_wrong_is_noticed(fault, notice):
    notices = set()
    for seed in range(TRIES):
        try:
            World(seed, fault).run()
        except Failed as failure:
            account = " ".join(str(failure).splitlines()[:2])
            if notice in account:
                return
            notices.add(account)
    pytest.fail(f"nobody has noticed, but: {notices}")


@pytest.mark.parametrize("wrong", [lambda ms: ms // 4, lambda ms: ms + 1], ids=["impatient", "too patient"])
def test_coordinator_whose_sessions_have_another_length_is_noticed(monkeypatch, wrong):
    def restart_session(turn, member_id, session_timeout_ms):
        at_ms = turn.now_ms + wrong(session_timeout_ms)
        turn.deadlines.set(DeadlineKind.SESSION, at_ms, member_id)

    monkeypatch.setattr(Turn, "restart_session", restart_session)
    assert "heard until" in str(first_failure().__cause__)


@pytest.mark.parametrize(
    ("name", "value", "notice"),
    [
        ("_PART", 4, "nobody came late"),
        ("_PART", 6, "a member came late, and nobody is told"),
        ("_SESSIONS", 9, "untold until"),
    ],
)
def test_coordinator_that_tells_of_other_near_misses_is_noticed(monkeypatch, name, value, notice):
    monkeypatch.setattr(near_expiry, name, value)
    assert notice in str(first_failure().__cause__)


def test_coordinator_that_keeps_commits_of_generations_that_have_ended_is_noticed(monkeypatch):
    monkeypatch.setattr(offset_commit, "_validate", lambda *_: Errors.NONE)
    assert "in _take" in str(first_failure())


# -- what the simulation notices of what keeps time ------------------------------------------------


def believes_every_clock(monkeypatch):
    monkeypatch.setattr(Span, "correction", lambda *_: None)


def counts_all_time_though_a_clock_has_jumped(monkeypatch):
    """Also what has passed since the watermark, before the request came."""
    correction = Span.correction

    def found(span, appended_ms, shift_ms):
        right = correction(span, appended_ms, shift_ms)
        return right and right._replace(skipped_ms=0)

    monkeypatch.setattr(Span, "correction", found)


def does_not_know_a_clock_again(monkeypatch):
    """Each request of a wrong clock is corrected anew, so that no time counts for its group."""
    monkeypatch.setattr(Turn, "shift_ms", lambda *_: 0)


def takes_what_waited_in_a_partition_for_wrong(monkeypatch):
    of = Span.of
    monkeypatch.setattr(Span, "of", lambda *arguments: of(*arguments[:4]))


def resumes_before_all_is_read(monkeypatch):
    """Time counts from when a query begins, and not from when it has read what came in the outage."""
    resume = Timekeeper.resume

    def resumed(keeper, now_ms):
        resume(keeper, now_ms)
        keeper._read_ms = now_ms

    monkeypatch.setattr(Timekeeper, "resume", resumed)


def lets_time_go_on_without_requests(monkeypatch):
    monkeypatch.setattr(WriteTimes, "silent", lambda _: {})
    does_not_wait_for_partitions(monkeypatch)


def does_not_wait_for_partitions(monkeypatch):
    """Until they stand still."""
    monkeypatch.setattr(Timekeeper, "coming_ms", with_arguments(unwritten_ms=0))


def does_not_wait_for_the_reader(monkeypatch):
    monkeypatch.setattr(Timekeeper, "coming_ms", with_arguments(read=1 << 62))


def takes_what_was_held_back_for_read(monkeypatch):
    """By a batch that was planned before a partition replicated again."""
    monkeypatch.setattr(coordinator, "_PACE", coordinator._PACE._replace(interval_ms=1 << 60))


def forgets_that_all_was_read_before_an_outage(monkeypatch):
    init = Known.__init__

    def knows(known, *arguments):
        init(known, *arguments)
        known._read_ms = 0

    monkeypatch.setattr(Known, "__init__", knows)


def notes_no_outage(monkeypatch):
    begin = Ledger.begin
    monkeypatch.setattr(Ledger, "begin", lambda ledger, begun, outage=None: begin(ledger, begun))


def lets_an_outage_begin_with_the_watermark(monkeypatch):
    """Requests that were read may be later."""
    monkeypatch.setattr(Begun, "latest_ms", lambda *_: 0)


def forgets_what_a_batch_knew(monkeypatch):
    """A batch that runs again takes a standstill for over that was not."""
    monkeypatch.setattr(Notes, "as_of", lambda notes, _: notes)


def takes_the_clock_of_another_machine(monkeypatch):
    """A batch that runs again is taken for one of the query in which it does."""
    monkeypatch.setattr(Notes, "begun_of", lambda notes, _: notes.begun[-1])


def lets_time_pass_in_a_standstill(monkeypatch):
    monkeypatch.setattr(PartitionOutages, "stands_for", lambda *_: None)


def notes_a_standstill_when_it_is_noticed(monkeypatch):
    monkeypatch.setattr(standing, "stands_since", lambda _times, asked_ms, *_: asked_ms + NOTICED_MS)


@pytest.mark.parametrize(
    ("fault", "notice", "first"),
    [
        # The seeds from `first` on: a search has found it, where the first ones show nothing.
        (believes_every_clock, "", 0),
        (counts_all_time_though_a_clock_has_jumped, "was put out although it works", 406),
        (does_not_know_a_clock_again, "", 0),
        (takes_what_waited_in_a_partition_for_wrong, "a clock was corrected that is right", 0),
        (resumes_before_all_is_read, "a clock was corrected that is right", 305),
        (lets_time_go_on_without_requests, "", 140),
        (does_not_wait_for_partitions, "", 145),
        (does_not_wait_for_the_reader, "was put out although it works", 406),
        (takes_what_was_held_back_for_read, "a clock was corrected that is right", 1003331),
        (forgets_that_all_was_read_before_an_outage, "was put out although it works", 1001217),
        (notes_no_outage, "was put out although it works", 104),
        (lets_an_outage_begin_with_the_watermark, "", 0),
        (forgets_what_a_batch_knew, "ran again decided otherwise", 0),
        (takes_the_clock_of_another_machine, "ran again decided otherwise", 0),
        (lets_time_pass_in_a_standstill, "", 0),
        (notes_a_standstill_when_it_is_noticed, "", 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_keeper_of_time_that_is_wrong_is_noticed(monkeypatch, fault, notice, first):
    fault(monkeypatch)
    assert notice in str(first_failure(first=first).__cause__)


def test_coordinator_that_counts_what_a_partition_was_away_for_is_noticed(monkeypatch):
    """Where that comes back before it stands still. It refuses requests meanwhile, so producers try again."""
    append, late = Log.append, Timekeeper._late

    def refuses(log, *request):
        if log.stuck_since is None:
            append(log, *request)
        else:
            log._world.at(log._world.now // 50 * 50 + 50, log.append, *request)

    monkeypatch.setattr(Log, "append", refuses)
    World(AWAY).run()
    monkeypatch.setattr(Timekeeper, "_late", lambda keeper, now_ms, _: late(keeper, now_ms, 0))
    assert "was put out although it works" in str(first_failure(first=AWAY, tries=1).__cause__)


def with_arguments(**changed):
    """`Timekeeper.coming_ms`, which is told that instead of what is so."""
    coming_ms = Timekeeper.coming_ms

    def told(keeper, now_ms, read, unwritten_ms, *, is_quiet):
        arguments = {"read": read, "unwritten_ms": unwritten_ms} | changed
        return coming_ms(keeper, now_ms, is_quiet=is_quiet, **arguments)

    return told


def test_replay_that_is_not_told_of_late_requests_is_noticed(monkeypatch):
    monkeypatch.setattr("tests.simulation.coordinator.late_times", lambda _: {})
    assert "a replay decides otherwise" in str(first_failure(tries=5 * TRIES).__cause__)


def test_member_that_does_not_ask_where_to_go_on_is_noticed(monkeypatch):
    def fetch(client):
        client.positions = dict.fromkeys(client.owned, 0)

    monkeypatch.setattr(Client, "_fetch", fetch)
    assert "goes back from" in str(first_failure().__cause__)


def test_member_that_does_not_come_back_is_noticed(monkeypatch):
    monkeypatch.setattr(Membership, "_on_heartbeat", lambda *_: None)
    assert "ms after the storm" in str(first_failure().__cause__)


def test_member_that_does_not_ask_again_is_noticed(monkeypatch):
    def send_and_await(membership, request, repeat_at):
        membership._requests.put(request)
        membership._awaited = request

    monkeypatch.setattr(Membership, "_send_and_await", send_and_await)
    assert "ms after the storm" in str(first_failure().__cause__)


# -- what people see -------------------------------------------------------------------------------


def test_failure_tells_the_seed_and_what_came_before():
    failure = first_failure(faults.gives_units_twice)
    text = str(failure)
    assert f"seed {failure.world.seed}: AssertionError(" in text
    assert f"python -m tests.simulation --trace {failure.world.seed}" in text
    assert " sends " in text
    assert " runs batch " in text


def run_main(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["simulation", *arguments])
    return program.main()


def test_long_run_tells_what_it_did(monkeypatch, capsys):
    monkeypatch.setattr(program, "_PORTION", 2)
    assert run_main(monkeypatch, "--seeds", "5", "--first", "7", "--jobs", "2", "--kind", "classic") == 0
    told = capsys.readouterr().out
    assert told.startswith("5 runs in ")
    assert "; 0 failures" in told


def test_long_run_that_fails_tells_where(monkeypatch, capsys):
    monkeypatch.setattr(World.__init__, "__defaults__", (faults.answers_joins_twice,))
    assert run_main(monkeypatch, "--seeds", "2") == 1
    told = capsys.readouterr().out
    assert "2 failures" in told
    assert "seeds that go wrong: 0, 1" in told


def test_trace_is_shown(monkeypatch, capsys):
    assert run_main(monkeypatch, "--trace", "5") == 0
    told = capsys.readouterr().out
    assert "all is as it should be" in told
    assert "Outcome(seed=5" in told
