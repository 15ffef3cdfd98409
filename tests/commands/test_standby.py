"""Several coordinators of the same topics: one answers, the others give up or wait for their turn."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from group_coordinator import GroupMember
from tests.commands.job import Job
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = [pytest.mark.spark, pytest.mark.verify]

# While others start beside it, a machine with two cores may be as slow; that is not to be taken for dead.
SESSION_MS = GAP_MS = 12_000
GAP = ("--set", f"clock.max.gap.ms={GAP_MS}")
PATIENT = ("--set", "clock.max.gap.ms=60000")


def answers(bootstrap_servers: str, topic: str) -> Counter[tuple[bytes, bytes]]:
    """How often each answer is there."""
    with Reader({"bootstrap_servers": bootstrap_servers}, topic) as reader:
        return Counter((record.key, record.value) for record in reader.read_to_end())


def test_a_commit_of_one_that_was_superseded_is_not_the_end(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    # One that is paused and goes on ends its batch before it learns that another one has taken over; that one
    # then finds its batch committed.
    job = start(*PATIENT)
    job.wait_for("the coordinator is running")
    # Spark looks for the newest commit when a query begins, and this query has begun when it has one.
    caught_up = job.batches("commits")
    job.wait_until(lambda: job.batches("commits") > caught_up)
    taken = commit_ahead(job)
    job.wait_for("restarting the query: another coordinator has written to the checkpoint")
    job.wait_until(lambda: max(map(int, job.batches("commits"))) > taken)

    job.terminate()
    assert job.exit_code() == 0

    # In a checkpoint that nobody can go on from it does not try at all.
    ahead = commit_ahead(job)
    error = start(*PATIENT).error()
    assert f"has no batch {ahead}: it has" in error


def commit_ahead(job: Job) -> int:
    """Commit a batch that is still to come, and return which."""
    commits = job.checkpoint / "commits"
    newest = max(map(int, job.batches("commits")))
    (commits / str(newest + 20)).write_bytes((commits / str(newest)).read_bytes())
    return newest + 20


def test_one_of_several_is_the_coordinator(
    start: Callable[..., Job], bootstrap_servers: str, tmp_path: Path
) -> None:
    first = start(*GAP)
    first.wait_for("the coordinator is running")
    topics = first.topics
    with GroupMember(
        group_id="g",
        bootstrap_servers=bootstrap_servers,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        request_topic=topics["requests"],
        response_topic=topics["responses"],
    ) as member:
        member.subscribe(units=["north", "south"])
        wait_for(lambda: member.poll(timeout_ms=100))
        was = member.member_id, member.generation_id

        mistaken = start(*GAP, "--checkpoint", str(tmp_path / "another"))
        second = start(*GAP, "--standby")
        # One that was started by mistake, with a checkpoint of its own, ends and says why.
        error = mistaken.error()
        assert error.startswith("another coordinator of these topics is running")
        assert "--standby" in error

        # One that stands by takes over from one that stands still.
        second.wait_for("standing by: ")
        first.pause()
        stood_still = time.monotonic()
        second.wait_for("the coordinator is running")
        took_s = time.monotonic() - stood_still
        assert took_s > SESSION_MS / 1000
        third = start(*GAP, "--standby")
        # When that one goes on, it finds that it is not the coordinator any more.
        first.resume()
        assert first.error().startswith("another coordinator of these topics is running")

        # And from one whose Java process is killed, which ends then, and says why.
        third.wait_for("standing by: ")
        second.kill_java()
        killed = time.monotonic()
        third.wait_for("the coordinator is running")
        assert second.error() == "Spark's Java process has ended: start again, to go on from here"
        print(f"taken over {took_s:.1f} s after SIGSTOP, {time.monotonic() - killed:.1f} s after SIGKILL")

        # Nobody was put out by any of that, though a session is shorter than it took.
        beats = "group_coordinator_requests_total", "heartbeat"
        wait_for(lambda: third.metrics().get(beats, 0) > 3)
        assert member.poll(timeout_ms=100) == {"north", "south"}
        assert (member.member_id, member.generation_id) == was

    different = answers(bootstrap_servers, topics["responses"])
    ids = Counter(json.loads(value)["request_id"] for _, value in different)
    assert max(ids.values()) == 1, "an answer that is repeated is the same"


def test_a_coordinator_that_nobody_asks_ticks_seldom_and_keeps_its_place(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    first = start(*GAP)
    first.wait_for("the coordinator is running")
    with Reader({"bootstrap_servers": bootstrap_servers}, first.topics["clock"]) as ticks:
        # Deadlines of before are known after a minute.
        ticks.until(lambda told: told and told[-1].get("leeway_ms") == GAP_MS // 2)
        second = start(*GAP, "--standby")
        second.wait_for("standing by: ")
        seldom = len(ticks.read_to_end())
        newest = ticks.until(lambda told: len(told) >= seldom + 5)[seldom:]
        assert {tick.get("leeway_ms") for tick in newest} == {GAP_MS // 2}
        # A busy machine makes them later, and nothing makes them come sooner.
        times = [record.timestamp for record in ticks.records[seldom - 1 :]]
        assert min(after - before for before, after in pairwise(times)) >= 2_000

        with GroupMember(
            group_id="g",
            bootstrap_servers=bootstrap_servers,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            request_topic=first.topics["requests"],
            response_topic=first.topics["responses"],
        ) as member:
            member.subscribe(units=["north"])
            wait_for(lambda: member.poll(timeout_ms=100))
            ticks.until(lambda told: "leeway_ms" not in told[-1])
    assert not any(line.startswith(("restarting", "standing by")) for line in first.said)
    assert not any("taking over" in line for line in second.said)
