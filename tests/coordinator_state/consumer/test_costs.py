"""A consumer group must cost as much for each member in a large group as in a small one.

Work is counted, not timed: how often an assignor runs, what is decoded, how many functions are called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.consumer import advance, assignors, member
from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, StepResult, step
from group_coordinator.coordinator_state.stored import decode_group, encode_group
from tests.coordinator_state import invariants
from tests.coordinator_state.test_scaling import Calls

KEY = b"g"
START_MS = 1_000_000


def record(offset: int, at_ms: int, api: str = "consumer_group_heartbeat", **fields: Any) -> Record:
    body = {"api": api, "request_id": f"r{offset}", "client_id": "c", "group_id": "g"} | fields
    return Record("requests", 0, offset, at_ms, KEY, msgspec.json.encode(body))


def joins(members: int, partitions: int) -> list[Record]:
    """All join within one second; each knows the topic."""
    fields = {
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": [],
        "topics": [{"name": "orders", "topic_id": "A" * 22, "partitions": partitions}],
    }
    return [
        record(number, START_MS + number * 999 // members, member_id=f"m{number:04}", **fields)
        for number in range(members)
    ]


def run(state: bytes | None, records: list[Record], **config: Any) -> StepResult:
    at_ms = max((each.timestamp_ms for each in records), default=START_MS)
    return step(KEY, state, records, at_ms, GroupConfig(**config), b"secret")


def epochs(state: bytes | None) -> dict[str, int]:
    return {each.member_id: each.epoch for each in decode_group(state or b"").members.values()}


def alive(state: bytes | None, at_ms: int, offset: int) -> Record:
    of_all = [{"member_id": name, "member_epoch": epoch} for name, epoch in epochs(state).items()]
    return record(offset, at_ms, members=of_all)


def settled(members: int, partitions: int) -> bytes:
    """A Stable group of so many members."""
    state = run(None, joins(members, partitions)).state
    at_ms, offset = START_MS, members
    for _ in range(4):
        at_ms, offset = at_ms + 5_000, offset + 1
        state = run(state, [alive(state, at_ms, offset)]).state
        group = decode_group(state or b"")
        acks = [
            record(
                offset + 1 + number,
                at_ms,
                member_id=name,
                member_epoch=each.epoch,
                topic_partitions=[
                    {"topic_id": "A" * 22, "partitions": sorted(each.share.assigned.get(0, ()))}
                ],
            )
            for number, (name, each) in enumerate(group.members.items())
        ]
        state, offset = run(state, acks).state, offset + len(acks)
    assert decode_group(state or b"").state == "Stable"
    return state or b""


@pytest.fixture
def assigned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of members of all runs of the assignor."""
    runs: list[int] = []
    uniform = assignors.ASSIGNORS["uniform"]

    def counted(group: assignors.GroupSpec) -> Any:
        runs.append(len(group.targets))
        return uniform(group)

    monkeypatch.setitem(advance.ASSIGNORS, "uniform", counted)
    return runs


@pytest.mark.drawn
def test_joins_of_one_batch_are_few_assignments(assigned):
    result = run(None, joins(1_000, 1_000))
    assert assigned == [1]
    group = decode_group(result.state or b"")
    assert (len(group.members), str(group.state)) == (1_000, "Assigning")
    # One more when the interval is over, with all of them.
    run(result.state, [alive(result.state, START_MS + 1_000, 1_000)])
    assert assigned == [1, 1_000]


@pytest.mark.drawn
def test_members_that_change_their_mind_cost_an_assignment_in_an_interval(assigned):
    state = settled(20, 40)
    assigned.clear()
    names = [["orders"], ["orders", "other"]]
    for beat in range(100):
        group = decode_group(state)
        asked = [
            record(
                10_000 + 20 * beat + number,
                START_MS + 22_000 + beat * 100,
                member_id=name,
                member_epoch=each.epoch,
                subscribed_topic_names=names[(beat + number) % 2],
            )
            for number, (name, each) in enumerate(group.members.items())
        ]
        state = run(state, asked).state or b""
    # 2,000 heartbeats in ten seconds.
    assert 8 <= len(assigned) <= 11


@pytest.mark.drawn
def test_heartbeats_of_a_group_at_rest_decode_nothing_but_numbers(monkeypatch):
    state = settled(1_000, 1_000)
    beats = [alive(state, START_MS + 50_000, 90_000)]
    beats += [
        record(90_001 + number, START_MS + 50_000, member_id=name, member_epoch=epoch)
        for number, (name, epoch) in enumerate(epochs(state).items())
    ]

    def unexpected(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(member, "unpack_held", unexpected)
    monkeypatch.setattr(advance, "unpack", unexpected)
    monkeypatch.setattr(TopicTable, "__init__", unexpected)
    # The bulk one touches neither topics nor subscriptions.
    result = run(state, beats[:1])
    (answer,) = [it.value or b"" for it in result.outputs if it.channel is Channel.RESPONSES]
    assert msgspec.json.decode(answer)["members"] == []
    assert len(result.outputs) == 1


def calls_of(members: int, ask: Callable[[bytes], list[Record]]) -> float:
    """How many functions are called for each member."""
    state = settled(members, members)
    records = ask(state)
    with Calls() as calls:
        run(state, records)
    return calls.count / members


def beats(state: bytes) -> list[Record]:
    return [
        record(90_000 + number, START_MS + 50_000, member_id=name, member_epoch=epoch)
        for number, (name, epoch) in enumerate(epochs(state).items())
    ]


def one_joins_and_all_beat(state: bytes) -> list[Record]:
    fields = {"member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": ["orders"]}
    newcomer = record(89_999, START_MS + 50_000, member_id="new", topic_partitions=[], **fields)
    return [newcomer, *beats(state)]


@pytest.mark.drawn
@pytest.mark.parametrize("ask", [beats, one_joins_and_all_beat])
def test_a_heartbeat_costs_as_much_in_a_large_group(ask):
    assert calls_of(400, ask) <= 1.2 * calls_of(100, ask)


@pytest.mark.drawn
def test_stored_bytes_of_a_member():
    """With ten partitions, ids as clients make them, and a topic of Kafka's longest usual name."""
    few, many = (len(settled(members, 10 * members)) for members in (100, 200))
    assert (many - few) / 100 <= 250


def test_epochs_that_advance_alone_make_no_picture_and_no_event():
    state = settled(100, 10)
    result = run(state, one_joins_and_all_beat(state)[:1])
    state = result.state or b""
    offset = 95_000
    written: list[StepResult] = []
    for round_ in range(3):
        at_ms = START_MS + 52_000 + round_ * 5_000
        result = run(state, [alive(state, at_ms, offset + round_)])
        written.append(result)
        state = result.state or b""
    group = decode_group(state)
    assert {each.epoch for each in group.members.values()} == {group.generation_id}
    reconciled = [event for result in written for event in result.events]
    assert len(reconciled) < 10
    assert [it for it in written[-1].outputs if it.channel is not Channel.RESPONSES] == []


# -- the largest -----------------------------------------------------------------------------------


@pytest.mark.drawn
def test_hints_of_very_many_partitions_cost_nothing():
    def ask(partitions: int) -> tuple[int, StepResult]:
        with Calls() as calls:
            result = run(None, joins(1, partitions))
        return calls.count, result

    few, _ = ask(1)
    many, result = ask(2**31 - 1)
    assert many <= 2 * few
    assert result.state is None


@pytest.mark.drawn
def test_one_member_and_very_many_partitions():
    config: dict[str, Any] = {"max_group_bytes": 20_000_000}
    result = run(None, joins(1, 100_000), **config)
    group = invariants.check(None, result, START_MS, GroupConfig(**config))
    (only,) = group.members.values()
    assert len(only.share.assigned[0]) == 100_000
    assert len(result.state or b"") < 1_000
    # Two share them, and the first reports the half that it keeps.
    newcomer = joins(2, 100_000)[1]._replace(timestamp_ms=START_MS + 2_000, offset=5)
    result = run(result.state, [newcomer], **config)
    invariants.check(None, result, START_MS, GroupConfig(**config))
    first = record(6, START_MS + 2_000, member_id="m0000", member_epoch=2)
    result = run(result.state, [first], **config)
    member_of = decode_group(result.state or b"").members
    assert len(member_of["m0000"].share.pending[0]) == 50_000
    assert len(encode_group(decode_group(result.state or b""))) < 1_000


@pytest.mark.drawn
def test_heartbeat_of_very_many_that_nobody_knows():
    state = settled(3, 10)
    strangers = [{"member_id": f"s{number}", "member_epoch": 1} for number in range(10_000)]
    with Calls() as calls:
        result = run(state, [record(900, START_MS + 60_000, members=strangers)])
    assert calls.count < 40 * len(strangers)
    (answer,) = [it.value or b"" for it in result.outputs if it.channel is Channel.RESPONSES]
    assert {each["error_code"] for each in msgspec.json.decode(answer)["members"]} == {25}
    assert len(answer) <= GroupConfig().max_record_bytes
    too_many = record(901, START_MS + 60_000, members=[*strangers, strangers[0]])
    assert len(run(state, [too_many]).rejections) == 1


def told_of(result: StepResult, of: Callable[[Any], bool]) -> int:
    """How many of the answers are such; at first all are."""
    are_such = [of(each.response) for each in result.replies]
    assert are_such == sorted(are_such, reverse=True)
    return sum(are_such)


def test_member_that_asks_for_all_very_often_in_one_batch_is_told_to_ask_again():
    """One heartbeat of 200 bytes asks for all partitions of its member, which may be very many."""
    state = run(None, joins(1, 50_000)).state
    asked = [
        record(
            10 + number,
            START_MS,
            member_id="m0000",
            member_epoch=2,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        for number in range(255)
    ]
    result = run(state, asked)
    told = told_of(result, lambda response: response.assignment is not None)
    assert {each.response.error for each in result.replies[told:]} == {"COORDINATOR_LOAD_IN_PROGRESS"}
    assert sum(len(each.value or b"") for each in result.outputs) < 2 * GroupConfig().max_read_bytes
    assert told_of(run(state, asked[-1:]), lambda response: response.assignment is not None) == 1


def test_member_that_is_alive_very_often_in_one_batch_is_told_with_a_later_beat():
    """What it is to give up is said with each beat until it has."""
    state = run(None, joins(1, 50_000)).state
    newcomer = joins(2, 50_000)[1]._replace(timestamp_ms=START_MS + 2_000, offset=5)
    state = run(state, [newcomer]).state
    beat = {"members": [{"member_id": "m0000", "member_epoch": 2}]}
    asked = [record(10 + number, START_MS + 3_000, **beat) for number in range(255)]
    result = run(state, asked)
    assert 0 < told_of(result, lambda response: bool(response.members)) < 255
    assert sum(len(each.value or b"") for each in result.outputs) < 2 * GroupConfig().max_read_bytes
    assert told_of(run(result.state, asked[-1:]), lambda response: bool(response.members)) == 1


@pytest.mark.drawn
def test_member_that_changes_its_mind_beside_one_that_names_very_many_topics():
    def calls(topics: int) -> int:
        names = [f"topic-{number}" for number in range(topics)]
        known = [{"name": name, "topic_id": name, "partitions": 1} for name in names]
        fields = {"member_epoch": 0, "rebalance_timeout_ms": 1, "topic_partitions": []}
        big = record(0, START_MS, member_id="big", subscribed_topic_names=names, topics=known, **fields)
        small = record(1, START_MS, member_id="small", subscribed_topic_names=["x"], **fields)
        state = run(None, [big, small]).state
        epoch = epochs(state)["small"]
        asked = [
            record(
                10 + number,
                START_MS + 1,
                member_id="small",
                member_epoch=epoch,
                subscribed_topic_names=["xy"[number % 2]],
            )
            for number in range(100)
        ]
        with Calls() as few:
            run(state, asked[:2])
        with Calls() as many:
            assert {each.response.error for each in run(state, asked).replies} == {"NONE"}
        return many.count - few.count

    assert calls(2_000) <= 1.2 * calls(20)


def test_commit_of_an_older_epoch_by_one_that_has_very_many_partitions(monkeypatch):
    """Those that it names are looked up, and the others are not even unpacked."""
    state = run(None, joins(1, 50_000)).state
    topics = [{"name": "orders", "partitions": [{"partition_index": 49_999, "committed_offset": 1}]}]

    def unexpected(*_: object) -> Any:
        raise AssertionError

    monkeypatch.setattr(member, "unpack_held", unexpected)
    for epoch, code in ((1, 113), (2, 0)):
        asked = record(9, START_MS, "offset_commit", member_id="m0000", generation_id=epoch, topics=topics)
        (reply,) = run(state, [asked]).replies
        assert reply.response.error_code == code


@pytest.mark.drawn
def test_very_many_subscriptions():
    """Each member names other topics. Each change is small, and the group's time is the assignor's."""

    def ask(number: int) -> Record:
        names = [f"topic-{number}", f"topic-{number + 1}"]
        return record(
            number,
            START_MS + number,
            member_id=f"m{number}",
            member_epoch=0,
            rebalance_timeout_ms=1,
            topic_partitions=[],
            subscribed_topic_names=names,
            topics=[{"name": name, "topic_id": name, "partitions": 1} for name in names],
        )

    def calls(members: int) -> float:
        with Calls() as counted:
            result = run(None, [ask(number) for number in range(members)])
        assert len(decode_group(result.state or b"").subscriptions.all_names()) == members + 1
        return counted.count / members

    # Each new epoch looks at all topics that are named, as in Kafka; nothing else may.
    assert calls(800) <= 2 * calls(200)


@pytest.mark.drawn
def test_group_that_is_full_of_what_its_members_name():
    """Names as long as may be, each partition another member's: all that is written fits into a record."""
    config = {
        "max_group_bytes": 30_000,
        "max_request_bytes": 5_000,
        "group_consumer_assignment_interval_ms": 0,
    }
    state, offset, refused = None, 0, 0
    for name in ("\0" * 249, '"' * 249, "a" * 249, "é" * 249):
        for number in range(60):
            fields = {"member_id": f"{name[:100]}{number}", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
            topic = {"name": name, "topic_id": "I" * 22, "partitions": number + 1}
            asked = record(
                offset,
                START_MS,
                **fields,
                topic_partitions=[],
                subscribed_topic_names=[name],
                topics=[topic],
                rack_id=name,
                client_host=name,
            )
            result = run(state, [asked], **config)
            invariants.check(state, result, START_MS, GroupConfig(**config))
            refused += result.replies[0].response.error == "GROUP_MAX_SIZE_REACHED"
            if result.state is not None:
                described = record(offset + 1, START_MS, "consumer_group_describe")
                told = run(result.state, [described], **config)
                invariants.check(result.state, told, START_MS, GroupConfig(**config))
            state, offset = result.state, offset + 2
    assert refused > 100
    assert decode_group(state or b"").bytes_held <= 30_000


def test_member_does_not_grow_beyond_the_limit_by_what_it_says_of_itself():
    config: dict[str, Any] = {"max_group_bytes": 1_200}
    state = run(None, joins(1, 1), **config).state
    for field in ("client_id", "client_host", "rack_id"):
        asked = record(9, START_MS, member_id="m0000", member_epoch=2, **{field: "x" * 1_000})
        result = step(KEY, state, [asked], START_MS, GroupConfig(**config, max_id_length=2_000), b"secret")
        assert [reply.response.error for reply in result.replies] == ["GROUP_MAX_SIZE_REACHED"]
    # Nor by names, while it leaves out what was counted before.
    state = run(
        state, [record(9, START_MS, member_id="m0000", member_epoch=2, rack_id="r" * 200)], **config
    ).state
    names = ["orders"]
    for number in range(10):
        names.append(f"{number}" * 150)
        sent = {"member_id": "m0000", "member_epoch": epochs(state)["m0000"]}
        result = run(state, [record(10 + number, START_MS, **sent, subscribed_topic_names=names)], **config)
        state = result.state
    assert result.replies[0].response.error == "GROUP_MAX_SIZE_REACHED"
    assert decode_group(state or b"").bytes_held <= 1_200
