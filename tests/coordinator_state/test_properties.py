"""What holds for every log, however it came about and however it was cut into batches."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.member_ids import member_id_of
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.step import Channel, Output, step
from group_coordinator.coordinator_state.stored import decode_group
from group_coordinator.coordinator_state.wire import Rejection, read_request
from tests.coordinator_state import invariants
from tests.coordinator_state.simulation import (
    ACTIONS,
    BENDS,
    GROUP,
    SECRET,
    SETBACKS_MS,
    WAITS_MS,
    Move,
    play,
    random_moves,
)
from tests.depth import cases

pytestmark = pytest.mark.drawn

DAY_MS = 86_400_000
RETENTION_MINUTES = 10_080

bounded = settings(max_examples=cases(60, deep=600))

configs = st.builds(
    GroupConfig,
    group_initial_rebalance_delay_ms=st.sampled_from([0, 500, 3_000]),
    group_max_size=st.sampled_from([2, 3, 1_000, 1_000]),
    offsets_retention_check_interval_ms=st.sampled_from([1_000, 20_000]),
    new_member_join_timeout_ms=st.sampled_from([4_000, 300_000]),
    max_group_bytes=st.sampled_from([2_000, 1_000_000]),
    offsets_retention_minutes=st.sampled_from([1, 1, RETENTION_MINUTES]),
    max_group_offsets=st.sampled_from([2, 20_000, 20_000]),
    offset_metadata_max_bytes=st.sampled_from([4, 4_096]),
)


def moves(waits: tuple[int, ...] = (*WAITS_MS, *SETBACKS_MS)) -> st.SearchStrategy[list[Move]]:
    move = st.builds(
        Move, st.integers(0, 3), st.sampled_from(ACTIONS), st.sampled_from(waits), st.sampled_from(BENDS)
    )
    # Left alone, hypothesis draws mostly short lists, which a group hardly gets Stable in.
    return st.lists(move, min_size=1, max_size=60) | st.lists(move, min_size=40, max_size=60)


class Batch(NamedTuple):
    records: list[Record]
    watermark_ms: int


class Outcome(NamedTuple):
    responses: list[Output]
    events: list[Output]
    rejected: list[Output]
    picture: Output | None
    offsets: dict[bytes, bytes]
    state: bytes | None
    deadline_ms: int | None


def run(batches: list[Batch], config: GroupConfig, outages: Iterable[Outage] = ()) -> Outcome:
    outputs: list[Output] = []
    state, deadline_ms = None, None
    newest_ms = 0
    for records, watermark_ms in batches:
        newest_ms = max([newest_ms, watermark_ms, *(record.timestamp_ms for record in records)])
        # Of an outage it is not known before it is over.
        known = Outages(outage for outage in outages if outage.start_ms < newest_ms)
        result = step(GROUP, state, records, watermark_ms, config, SECRET, known)
        invariants.check(state, result, watermark_ms, config, known)
        outputs += result.outputs
        state, deadline_ms = result.state, result.deadline_ms

    def of(channel: Channel) -> list[Output]:
        return [output for output in outputs if output.channel is channel]

    # A compacted topic keeps the newest of each key only, and tombstones not for ever.
    picture = (of(Channel.GROUPS) or [None])[-1]
    offsets = {output.key: output.value for output in of(Channel.OFFSETS)}
    return Outcome(
        of(Channel.RESPONSES),
        of(Channel.EVENTS),
        of(Channel.REJECTED),
        picture,
        {key: value for key, value in offsets.items() if value is not None},
        state,
        deadline_ms,
    )


@st.composite
def batches_of(draw: st.DrawFn, log: list[Record], last_watermark_ms: int) -> list[Batch]:
    """Cut `log`; each watermark keeps its promise that nothing earlier comes any more."""
    cuts = sorted(draw(st.sets(st.integers(1, len(log)), max_size=12)) | {len(log)})
    batches: list[Batch] = []
    begin, watermark_ms = 0, 0
    for cut in cuts:
        # None of the records that are still to come is earlier than this.
        limit = min((record.timestamp_ms for record in log[cut:]), default=last_watermark_ms)
        records = log[begin:cut]
        for _ in range(draw(st.integers(1, 3))):
            near = draw(st.sampled_from([0, 0, 1, 500, 5_000, 10**9]))
            watermark_ms = max(watermark_ms, limit - near)
            # Spark gives a group's rows in any order.
            batches.append(Batch(draw(st.permutations(records)), watermark_ms))
            records = []
        begin = cut
    return [*batches, Batch([], last_watermark_ms)]


@st.composite
def logs(draw: st.DrawFn, **kwargs) -> tuple[GroupConfig, list[Record]]:
    config = draw(configs)
    return config, play(draw(moves(**kwargs)), config, draw(st.sampled_from([1, 1, 2])))


def latest(log: list[Record]) -> int:
    return max(record.timestamp_ms for record in log)


# -- batches ---------------------------------------------------------------------------------------


@bounded
@given(st.data())
def test_how_the_log_is_cut_into_batches_makes_no_difference(data):
    config, log = data.draw(logs())
    last = latest(log) + data.draw(st.sampled_from([0, 1, 7_000, 50_000, 70_000, DAY_MS]))
    in_one = run([Batch(log, last)], config)
    in_many = run(data.draw(batches_of(log, last)), config)
    # Field by field, for a readable failure.
    assert in_many.responses == in_one.responses
    assert in_many.events == in_one.events
    assert in_many.rejected == in_one.rejected
    assert in_many.picture == in_one.picture
    assert in_many.offsets == in_one.offsets
    assert in_many.state == in_one.state
    assert in_many.deadline_ms == in_one.deadline_ms


@st.composite
def outages_of(draw: st.DrawFn, log: list[Record]) -> list[Outage]:
    times = draw(st.lists(st.integers(0, latest(log) + 60_000), max_size=8, unique=True).map(sorted))
    pairs = zip(times[::2], times[1::2], strict=False)
    return [Outage(*pair, closed=draw(st.sampled_from([False, False, True]))) for pair in pairs]


@bounded
@given(st.data())
def test_how_it_is_cut_makes_no_difference_with_outages_either(data):
    config, log = data.draw(logs())
    outages = data.draw(outages_of(log))
    last = latest(log) + data.draw(st.sampled_from([0, 1, 7_000, 50_000, DAY_MS]))
    assert run(data.draw(batches_of(log, last)), config, outages) == run([Batch(log, last)], config, outages)


@bounded
@given(logs())
def test_batch_that_runs_twice_gives_the_same_bytes(drawn):
    config, log = drawn
    batches = [Batch([record], 0) for record in log]
    assert run(batches, config) == run(batches, config)


DIGESTS = """
import hashlib, sys
import msgspec
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import step
for log in msgspec.msgpack.decode(sys.stdin.buffer.read(), type=list[list[Record]]):
    result = step(b"orders", None, log, 10**9, GroupConfig(), b"secret")
    print(hashlib.sha256(repr((result.state, result.outputs)).encode()).hexdigest())
"""


def test_every_process_gives_the_same_bytes_whatever_its_hash_seed():
    rng = random.Random(1)
    logs_played = [play(random_moves(rng, 60), GroupConfig(), 2) for _ in range(30)]
    results = [step(GROUP, None, log, 10**9, GroupConfig(), SECRET) for log in logs_played]
    expected = [hashlib.sha256(repr((it.state, it.outputs)).encode()).hexdigest() for it in results]
    assert len(set(expected)) > 25, "the logs are not all alike"
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS],
            input=msgspec.msgpack.encode(logs_played),
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode().split() == expected


# -- answers ---------------------------------------------------------------------------------------


def member_id_meant(request: JoinGroupRequest | SyncGroupRequest, record: Record) -> str:
    prefix = request.group_instance_id or request.client_id
    return request.member_id or member_id_of(SECRET, prefix, record)


@bounded
@given(logs())
def test_every_request_is_answered_exactly_once_or_parked_or_given_up_by_its_member(drawn):
    config, log = drawn
    outcome = run([Batch([record], 0) for record in log], config)
    answers = Counter(
        msgspec.json.decode(output.value)["request_id"]
        for output in outcome.responses
        if b'"INVALID_REQUEST"' not in output.value
    )
    group = decode_group(outcome.state) if outcome.state is not None else None
    left = {
        event["member_id"]
        for event in (msgspec.json.decode(output.value) for output in outcome.events)
        if event["event"] == "member_removed" and event["reason"] == "left"
    }
    requests: list[tuple[AnyRequest, Record]] = [
        (request, record)
        for record in log
        if not isinstance(request := read_request(record, config), Rejection)
    ]
    for i, (request, record) in enumerate(requests):
        if answers[request.request_id] == 1:
            continue
        assert answers[request.request_id] == 0, "answered twice"
        assert isinstance(request, JoinGroupRequest | SyncGroupRequest), "only these are ever parked"
        member_id = member_id_meant(request, record)
        is_parked = group is not None and request.request_id in parked(group, member_id)
        is_replaced = any(
            type(later) is type(request) and later.member_id == member_id for later, _ in requests[i + 1 :]
        )
        has_left = isinstance(request, SyncGroupRequest) and member_id in left
        assert is_parked or is_replaced or has_left, request


def parked(group: ClassicGroup, member_id: str) -> set[str]:
    if (member := group.members.get(member_id)) is None:
        return set()
    return {it.request_id for it in (member.awaiting_join, member.awaiting_sync) if it is not None}


@bounded
@given(logs())
def test_record_that_cannot_be_read_is_kept_and_answered_if_its_sender_can_be(drawn):
    config, log = drawn
    outcome = run([Batch([record], 0) for record in log], config)
    rejections = [it for it in (read_request(record, config) for record in log) if isinstance(it, Rejection)]
    answered = [output for output in outcome.responses if b'"INVALID_REQUEST"' in output.value]
    assert len(outcome.rejected) == len(rejections)
    assert len(answered) == sum(it.response is not None for it in rejections)


# -- what the history says -------------------------------------------------------------------------


def members_after(event: dict[str, Any], before: set[str]) -> set[str]:
    member_id = event["member_id"]
    assert (event["event"] == "member_added") == (member_id not in before)
    match event["event"]:
        case "member_added":
            return before | {member_id}
        case "member_removed":
            return before - {member_id}
        case _:
            return before - {member_id} | {event["replaced_by"]}


@bounded
@given(logs())
def test_history_is_consistent(drawn):
    config, log = drawn
    outcome = run([Batch(log, latest(log) + 50_000)], config)
    events = [msgspec.json.decode(output.value) for output in outcome.events]
    ids = [event["event_id"] for event in events]
    assert len(ids) == len(set(ids))

    state, members, generation, is_assigned = "Dead", set(), 0, False
    for event in events:
        match event["event"]:
            case "group_created":
                assert state == "Dead"
                state, generation = "Empty", 0
            case "state_changed":
                assert event["from"] == state
                state = event["to"]
            case "member_added" | "member_removed" | "member_fenced":
                members = members_after(event, members)
            case "generation_completed":
                assert event["generation_id"] > generation, "generations only grow"
                generation, is_assigned = event["generation_id"], False
                assert set(event["members"]) == members
                assert event["leader"] in members
            case "assignment_propagated":
                # Two assignments in one generation could give one partition two owners.
                assert (event["generation_id"], is_assigned) == (generation, False)
                is_assigned = True
                assert {each["member_id"] for each in event["assignments"]} == members
            case "offsets_expired":
                assert state in ("Empty", "Stable"), "a group that rebalances loses nothing"
            case "group_deleted":
                assert (state, members) == ("Dead", set())
    if outcome.state is None:
        assert state == "Dead"
    else:
        group = decode_group(outcome.state)
        assert (state, members) == (group.state, set(group.members))


@bounded
@given(logs())
def test_newest_picture_is_the_group(drawn):
    config, log = drawn
    outcome = run([Batch([record], 0) for record in log], config)
    if outcome.state is not None:
        assert outcome.picture.value == msgspec.json.encode(decode_group(outcome.state).picture())
    elif outcome.picture is not None:
        assert outcome.picture.value is None


@bounded
@given(logs(waits=WAITS_MS))
def test_time_of_events_does_not_go_back(drawn):
    config, log = drawn
    outcome = run([Batch(log, latest(log) + 50_000)], config)
    times = [msgspec.json.decode(output.value)["at_ms"] for output in outcome.events]
    assert times == sorted(times)


@bounded
@given(logs())
def test_nobody_lives_for_ever(drawn):
    config, log = drawn
    silent_ms = RETENTION_MINUTES * 60_000 + DAY_MS
    outcome = run([Batch(log, 0), Batch([], latest(log) + silent_ms)], config)
    assert (outcome.state, outcome.deadline_ms, outcome.offsets) == (None, None, {})


# -- offsets ---------------------------------------------------------------------------------------


class Told(NamedTuple):
    """A request, its answer if it has one at once, and what else was written since the request before."""

    request: AnyRequest
    answer: Any
    events: list[dict[str, Any]]
    offsets: list[Output]


def told_one_by_one(log: list[Record], config: GroupConfig) -> Iterator[Told]:
    state = None
    events: list[dict[str, Any]] = []
    offsets: list[Output] = []
    for record in log:
        result = step(GROUP, state, [record], 0, config, SECRET)
        state = result.state
        answers = {}
        for output in result.outputs:
            if output.channel is Channel.RESPONSES:
                answer = msgspec.json.decode(output.value)
                answers[answer["request_id"]] = answer
            elif output.channel is Channel.EVENTS:
                events.append(msgspec.json.decode(output.value))
            elif output.channel is Channel.OFFSETS:
                offsets.append(output)
        request = read_request(record, config)
        if not isinstance(request, Rejection):
            yield Told(request, answers.get(request.request_id), events, offsets)
            events, offsets = [], []


def committed_by(told: Told) -> dict[tuple[str, int], tuple[int, int, str]]:
    """What was granted, as a fetch has to tell it: offset, leader epoch and metadata."""
    request, granted = told.request, {}
    if not isinstance(request, OffsetCommitRequest) or told.answer["error"] == "UNSUPPORTED_VERSION":
        return {}
    for asked, answered in zip(request.topics, told.answer["topics"], strict=True):
        for each, result in zip(asked.partitions, answered["partitions"], strict=True):
            if result["error_code"] == 0:
                epoch = each.committed_leader_epoch if request.version >= 6 else -1
                it = (each.committed_offset, epoch, each.committed_metadata or "")
                granted[asked.name, each.partition_index] = it
    return granted


def fetched_by(told: Told) -> dict[tuple[str, int], tuple[int, int, str]]:
    return {
        (topic["name"], it["partition_index"]): (
            it["committed_offset"],
            it["committed_leader_epoch"],
            it["metadata"],
        )
        for topic in told.answer["topics"]
        for it in topic["partitions"]
    }


@bounded
@given(logs())
def test_fetch_tells_what_the_newest_granted_commit_said(drawn):
    config, log = drawn
    kept: dict[tuple[str, int], tuple[int, int, str]] = {}
    for told in told_one_by_one(log, config):
        for event in told.events:
            if event["event"] in ("offsets_expired", "offsets_deleted"):
                for topic in event["topics"]:
                    for partition in topic["partition_indexes"]:
                        del kept[topic["name"], partition]
        kept |= committed_by(told)
        assert len(kept) <= config.max_group_offsets
        if isinstance(told.request, OffsetFetchRequest) and told.answer["error"] == "NONE":
            fetched = fetched_by(told)
            topics = told.request.topics
            asked = (
                kept
                if topics is None
                else {(it.name, each) for it in topics for each in it.partition_indexes}
            )
            told_of = {key: kept.get(key, (-1, -1, "")) for key in asked}
            if told.request.version < 5:
                told_of = {key: (offset, -1, metadata) for key, (offset, _, metadata) in told_of.items()}
            assert told_of == fetched


@bounded
@given(logs())
def test_only_members_of_the_newest_generation_commit_and_nobody_else_beside_them(drawn):
    config, log = drawn
    state, generation = "Dead", 0
    members: set[str] = set()
    for told in told_one_by_one(log, config):
        for event in told.events:
            generation = event["generation_id"]
            match event["event"]:
                case "group_created":
                    state = "Empty"
                case "state_changed":
                    state = event["to"]
                case "member_added" | "member_removed" | "member_fenced":
                    members = members_after(event, members)
        if committed_by(told):
            assert isinstance(told.request, OffsetCommitRequest)
            if told.request.generation_id < 0:
                assert (state, members) == ("Empty", set())
            else:
                assert state in ("Stable", "PreparingRebalance")
                assert told.request.member_id in members
                assert told.request.generation_id == generation


@bounded
@given(logs())
def test_what_is_granted_is_told_as_an_event(drawn):
    config, log = drawn
    for told in told_one_by_one(log, config):
        events = [event for event in told.events if event["event"] == "offsets_committed"]
        committed = {
            (topic["name"], it["partition_index"]): (
                it["committed_offset"],
                it["committed_leader_epoch"],
                it["metadata"],
            )
            for event in events
            for topic in event["topics"]
            for it in topic["partitions"]
        }
        assert committed == committed_by(told)
        assert len(events) == bool(committed)


@bounded
@given(logs())
def test_what_is_published_is_what_was_granted_and_what_has_gone(drawn):
    config, log = drawn
    keys: set[bytes] = set()
    for told in told_one_by_one(log, config):
        granted = {msgspec.json.encode((GROUP.decode(), *each)) for each in committed_by(told)}
        assert granted == {output.key for output in told.offsets if output.value is not None}
        gone = {output.key for output in told.offsets if output.value is None}
        assert gone <= keys, "a tombstone for what was not there"
        keys = keys - gone | granted
