from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator.coordinator_state.clocks import Span
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.streaming.counts import REBALANCE_BOUNDS_MS, Counts, CountsParam
from tests.coordinator_state.scenario import Scenario
from tests.coordinator_state.test_step import PROTOCOL, call, join, request
from tests.history.consumers import a_handover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counted(*results: StepResult) -> dict[str, Any]:
    """What is counted of these calls, less what is not."""
    counts = Counts()
    for result in results:
        counts.take(result)
    found = {each.name: getattr(counts, each.name) for each in fields(counts) if each.compare}
    return {name: count for name, count in found.items() if count}


def test_a_first_join() -> None:
    assert counted(call(None, join(0, 5_000))) == {
        "requests": {"join_group": 1},
        "followed": 1,
        "events": {"group_created": 1, "member_added": 1, "state_changed": 1},
        "state_changes": {"PreparingRebalance": 1},
        "rebalances": {"member_joined": 1},
    }


def test_what_happens_several_times_is_counted_each_time() -> None:
    result = call(None, join(0, 5_000), join(1, 5_000, client_id="c2"), watermark_ms=60_000)
    found = counted(result)
    assert (found["requests"], found["responses"]) == ({"join_group": 2}, {("join_group", "NONE"): 2})
    assert (found["events"]["member_added"], found["members_removed"]) == (2, {"session_expired": 2})
    nonsense = join(0, 5_000)._replace(value=b"{")
    assert counted(call(None, nonsense, nonsense._replace(offset=1))) == {"rejected": 2, "followed": 2}


def test_a_record_that_is_no_request_is_counted_with_its_answer() -> None:
    assert counted(call(None, request(1, 6_000, api="fly"))) == {
        "rejected": 1,
        "followed": 1,
        "responses": {("unreadable", "INVALID_REQUEST"): 1},
    }


def test_a_call_in_which_nothing_happens() -> None:
    first = call(None, join(0, 5_000))
    assert counted(call(None), call(first.state, watermark_ms=7_999)) == {}


def test_a_rebalance_of_the_consumer_protocol_begins_once_and_ends_when_all_have_their_own() -> None:
    found = counted(*a_handover().results)

    assert found["state_changes"] == {"Assigning": 3, "Reconciling": 3, "Stable": 3}
    assert found["rebalances"] == {"member_joined": 2, "member_left": 1}
    # At once, 4 s, and 1 s.
    assert found["rebalance_durations"] == {
        ("member_joined", 0): 1,
        ("member_joined", REBALANCE_BOUNDS_MS.index(5_000)): 1,
        ("member_left", REBALANCE_BOUNDS_MS.index(1_000)): 1,
    }
    assert found["rebalance_ms"] == {"member_joined": 4_000, "member_left": 1_000}
    assert found["events"]["target_assigned"] == 3
    assert found["events"]["member_reconciled"] == 5


# -- heartbeats --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "generation_id", "followed"),
    [
        ("one that waits for the answer", 1, 1),
        ("one that does not", 1, 0),
        ("several together", 1, 0),
        # They join again.
        ("one that waits for the answer", 7, 2),
        ("one that does not", 7, 1),
        ("several together", 7, 1),
    ],
)
def test_heartbeats_that_others_may_follow_soon(way: str, generation_id: int, followed: int) -> None:
    joined = call(None, join(0, 5_000), watermark_ms=8_000)
    stable = call(joined.state, sync(1, 8_000, joined.state), watermark_ms=8_000)
    (member_id,) = decode_group(stable.state).members
    member = {"member_id": member_id, "generation_id": generation_id}
    how = {
        "one that waits for the answer": member,
        "one that does not": {**member, "quiet": True},
        "several together": {"members": [member, {"member_id": member_id, "generation_id": 1}]},
    }[way]
    result = call(stable.state, request(2, 9_000, api="heartbeat", **how), watermark_ms=9_000)
    found = counted(result)
    assert (found["requests"], found.get("followed", 0)) == ({"heartbeat": 1}, followed)


@pytest.mark.parametrize(
    ("way", "epoch", "followed"),
    [
        ("one that waits for the answer", 2, 1),
        ("one that does not", 2, 0),
        ("several together", 2, 0),
        # One is fenced, and joins again.
        ("one that waits for the answer", 7, 2),
        ("one that does not", 7, 1),
        ("several together", 7, 1),
        # One is told again what it has.
        ("several together", 1, 1),
    ],
)
def test_heartbeats_of_consumers_that_others_may_follow_soon(way: str, epoch: int, followed: int) -> None:
    says = {"rebalance_timeout_ms": 9_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    hint = {"topics": [{"name": "t", "partitions": 2}]}
    api = "consumer_group_heartbeat"
    joined = call(None, request(0, 5_000, api=api, member_id="m", member_epoch=0, **says, **hint))
    assert counted(joined)["followed"] == 2
    member = {"member_id": "m", "member_epoch": epoch}
    how = {
        "one that waits for the answer": member,
        "one that does not": {**member, "quiet": True},
        "several together": {"members": [member]},
    }[way]
    found = counted(call(joined.state, request(1, 9_000, api=api, **how), watermark_ms=9_000))
    assert (found["requests"], found.get("followed", 0)) == ({api: 1}, followed)


# -- offsets -----------------------------------------------------------------------------------------


def test_offsets_are_counted() -> None:
    partitions = [{"partition_index": each, "committed_offset": 5} for each in range(4)]
    topics = [{"name": "t", "partitions": partitions[:3]}, {"name": "u", "partitions": partitions}]
    gone = [{"name": name, "partitions": [{"partition_index": 0}, {"partition_index": 9}]} for name in "tu"]
    result = call(
        None,
        request(0, 0, api="offset_commit", topics=topics[:1]),
        request(1, 0, api="offset_commit", topics=topics[1:]),
        request(2, 1, api="offset_delete", topics=gone[:1]),
        request(3, 1, api="offset_delete", topics=gone[1:]),
        watermark_ms=8 * 86_400_000,
    )
    assert counted(result)["offsets"] == {"committed": 7, "deleted": 2, "expired": 5}


# -- rebalances --------------------------------------------------------------------------------------


def of_rebalances(result: StepResult) -> dict[str, Any]:
    return {name: count for name, count in counted(result).items() if name.startswith("rebalance")}


def sync(offset: int, at_ms: int, state: bytes) -> Record:
    (member_id,) = decode_group(state).members
    assignments = [{"member_id": member_id, "assignment": ""}]
    who = {"member_id": member_id, "generation_id": 1, "assignments": assignments}
    return request(offset, at_ms, api="sync_group", **who, **PROTOCOL)


@pytest.mark.parametrize(
    ("duration_ms", "bucket"),
    [(0, 0), (200, 0), (201, 1), (3_000, 4), (3_001, 5), (300_000, 11), (300_001, 12), (900_000, 12)],
)
def test_completed_rebalance_is_counted_by_its_cause_and_duration(duration_ms: int, bucket: int) -> None:
    config = GroupConfig(group_initial_rebalance_delay_ms=0)
    patient = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 1_000_000}
    joined = call(None, join(0, 5_000, **patient), watermark_ms=5_000, config=config)
    result = call(joined.state, sync(1, 5_000 + duration_ms, joined.state), config=config)
    assert of_rebalances(joined) == {"rebalances": {"member_joined": 1}}
    assert of_rebalances(result) == {
        "rebalance_durations": {("member_joined", bucket): 1},
        "rebalance_ms": {"member_joined": duration_ms},
    }
    assert bucket <= len(REBALANCE_BOUNDS_MS)


def test_rebalances_of_one_call_are_counted_together() -> None:
    s = Scenario()
    s.stabilise("c1")
    before, already = s.state, len(s.log)
    for topics in (b"t", b"u"):
        s.join("c1", protocols={"range": topics})
        s.wait(300)
        s.sync("c1")
    assert of_rebalances(step(b"orders", before, s.log[already:], s.now, s.config, b"secret")) == {
        "rebalances": {"subscription_changed": 2},
        "rebalance_durations": {("subscription_changed", 1): 2},
        "rebalance_ms": {"subscription_changed": 600},
    }


def test_rebalance_that_nobody_is_left_of_is_not_completed() -> None:
    joined = call(None, join(0, 5_000), watermark_ms=8_000)
    result = call(joined.state, watermark_ms=20_000)
    assert counted(result)["state_changes"]["Empty"] == 1
    assert of_rebalances(result) == {"rebalances": {"session_expired": 1}}


# -- clocks ------------------------------------------------------------------------------------------


def corrected(before: bytes | None, *times_ms: int, partition: int = 0) -> StepResult:
    """A call whose requests came between 6,000 and 13,550, if their times are right."""
    span = Span(watermark_ms=9_000, earliest_ms=6_000, latest_ms=13_550, planned_ms=10_050)
    asked = [
        join(offset, time_ms, client_id=f"c{offset}")._replace(partition=partition)
        for offset, time_ms in enumerate(times_ms)
    ]
    return step(b"orders", before, asked, 9_000, GroupConfig(), b"secret", span=span)


def test_clocks_that_are_wrong_or_right_again_are_counted() -> None:
    counts = Counts()
    right = corrected(None, 9_500)
    behind = corrected(right.state, 1_050)
    # The second one is as wrong as the first, and the third is right.
    ahead = corrected(None, 22_050, 22_060, 9_900, partition=3)
    for result, expected in (
        (right, {}),
        (behind, {(0, -90): 1}),
        (behind, {(0, -90): 2}),
        (ahead, {(0, -90): 2, (3, 120): 1, (3, 0): 1}),
    ):
        counts.take(result)
        assert counts.clocks == expected
    assert counts.events["clock_corrected"] == 4


@pytest.mark.parametrize(
    ("time_ms", "ahead"),
    [(22_010, 120), (22_090, 120), (22_110, 121), (13_551, 35), (5_999, -41), (1_099, -90)],
)
def test_by_how_much_a_clock_is_ahead_is_counted_to_a_tenth_of_a_second(time_ms: int, ahead: int) -> None:
    """Of a request that came at that time by its clock, and counts as of 10,050."""
    counts = Counts()
    counts.take(corrected(None, time_ms))
    assert counts.clocks == {(0, ahead): 1}


def test_clocks_of_several_tasks_are_added_up() -> None:
    """Also those that are behind."""
    driver, task = Counts(), Counts()
    task.take(corrected(None, 22_050, partition=3))
    for _ in range(2):
        CountsParam().addInPlace(driver, pickle.loads(pickle.dumps(task)))
    assert driver.clocks == {(3, 120): 2}
    other = Counts()
    other.take(corrected(None, 1_050, partition=3))
    CountsParam().addInPlace(driver, other)
    assert driver.clocks == {(3, 120): 2, (3, -90): 1}


# -- on its way to the driver -------------------------------------------------------------------------


def test_counts_are_added_up() -> None:
    first = call(None, join(0, 5_000))
    here, there = (CountsParam().addInPlace(Counts(), first) for _ in range(2))
    CountsParam().addInPlace(here, pickle.loads(pickle.dumps(there)))

    assert here == CountsParam().addInPlace(there, first)
    assert here.requests == {"join_group": 2}


def test_zero_is_counts_of_its_own() -> None:
    start = Counts(rejected=1)
    CountsParam().addInPlace(CountsParam().zero(start), start)

    assert (start, CountsParam().zero(start)) == (Counts(rejected=1), Counts())


@pytest.mark.spark
def test_what_the_executors_count_arrives_at_the_driver(spark: SparkSession) -> None:
    counts = spark.sparkContext.accumulator(Counts(), CountsParam())
    numbers = spark.sparkContext.parallelize(range(10), 3)
    numbers.foreach(
        lambda number: counts.add(Counts(rejected=number, events=Counter({str(number % 2): number})))
    )

    assert counts.value == Counts(rejected=45, events=Counter({"1": 25, "0": 20}))
