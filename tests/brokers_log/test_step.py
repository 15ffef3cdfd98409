"""Batches about a group at the brokers: commits, pictures, replays, and any cut of the log."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.brokers_log.state import ObservedGroup, decode_group, encode_group
from group_coordinator.brokers_log.step import step
from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel
from tests.brokers_log.kafka import GROUP, PARTITION, TOPIC, Log, M
from tests.brokers_log.watching import ALL, Watching, kinds, without_commits
from tests.depth import cases

MINUTE = 60_000
DAY_MS = 86_400_000


def commits(events: list[dict[str, Any]]) -> list[tuple[int, dict[int, int]]]:
    """When something was committed, and which offsets."""
    return [
        (
            event["at_ms"],
            {
                each["partition_index"]: each["committed_offset"]
                for topic in event["topics"]
                for each in topic["partitions"]
            },
        )
        for event in events
        if event["event"] == "offsets_committed"
    ]


def offsets(watching: Watching) -> dict[int, int | None]:
    """The newest pictures of offsets of the topic t; None for a tombstone."""
    return {
        int((key or b"").decode().rpartition(",")[2].strip("]")): value and value["committed_offset"]
        for key, value in watching.newest(Channel.OFFSETS).items()
    }


# -- what is told of commits -----------------------------------------------------------------------------


def test_all_commits_are_told_if_somebody_wants_that() -> None:
    log, watching = Log(), Watching(ALL)
    watching.read([log.stable(3, M("a", [0]))])
    events = watching.read([log.commit(0, 5), log.commit(1, 6, ms=0, metadata="é"), log.commit(0, 7)])
    assert commits(events) == [
        (log.now_ms - 1, {0: 5}),
        (log.now_ms - 1, {1: 6}),
        (log.now_ms, {0: 7}),
    ]
    assert {each["generation_id"] for each in events} == {3}
    assert events[1]["topics"][0]["partitions"][0]["metadata"] == "é"
    assert offsets(watching) == {0: 7, 1: 6}


def test_a_commit_is_told_with_the_id_of_its_topic_if_the_log_has_it() -> None:
    log, watching = Log(), Watching(MINUTE)
    watching.read([log.commit(0, 5)])
    topic_id = UUID("c6dcd658-de1b-4e38-ada4-bde47ddf6ce6")
    tag = b"\1\0\x10" + topic_id.bytes
    value = struct.pack(">hqi", 4, 6, -1) + b"\1" + struct.pack(">q", log.now_ms) + tag
    watching.read([log.write(log.offset_key("t", 1), value, 0)])
    (event,) = watching.read([], batch_ms=log.now_ms + 60_000)
    told = [
        (each.get("topic_id"), [it["partition_index"] for it in each["partitions"]])
        for each in event["topics"]
    ]
    assert told == [(None, [0]), (str(topic_id), [1])]


def test_nobody_says_which_member_commits() -> None:
    log, watching = Log(), Watching(ALL)
    simple = watching.read([log.commit(0, 1)])
    watching.read([log.stable(3, M("a", [0]))])
    of_members = watching.read([log.commit(0, 2)])
    watching.read([log.empty(4)])
    by_hand = watching.read([log.commit(0, 3)])
    told = [each["member_id"] for events in (simple, of_members, by_hand) for each in events]
    assert told == [None, None, ""]


def test_one_event_a_partition_and_minute_with_the_newest() -> None:
    log, watching = Log(now_ms=0), Watching(MINUTE)
    watching.read([log.stable(1, M("a", [0, 1]))])
    begin_ms = log.now_ms
    for second in range(1, 121):
        watching.read([log.commit(0, second, ms=1_000), log.commit(1, second, ms=0)])
    watching.read([], batch_ms=begin_ms + 200_000)
    # A client commits all partitions at once: that is one event.
    assert commits(watching.events) == [
        (begin_ms + 60_000, {0: 60, 1: 60}),
        (begin_ms + 120_000, {0: 120, 1: 120}),
    ]
    assert offsets(watching) == {0: 120, 1: 120}


def test_a_commit_is_told_with_its_own_time_and_id() -> None:
    log, watching = Log(now_ms=0), Watching(MINUTE)
    log.commit(1, 1, ms=1_000)
    second, third = log.commit(0, 1, ms=1_000), log.commit(1, 2, ms=1_000)
    assert watching.read(log.records) == []
    assert watching.deadline_ms == 61_000
    assert watching.read([], batch_ms=60_999) == []
    events = watching.read([], batch_ms=61_000)
    assert commits(events) == [(2_000, {0: 1}), (3_000, {1: 2})]
    assert [each["event_id"] for each in events] == [f"{second}-0", f"{third}-0"]
    assert watching.deadline_ms is None


def test_what_was_committed_is_told_before_the_group_changes() -> None:
    log, watching = Log(), Watching(MINUTE)
    watching.read([log.stable(1, M("a", [0])), log.commit(0, 1), log.commit(0, 2)])
    events = watching.read([log.stable(2, M("a", [0]))])
    assert kinds(events)[:2] == ["offsets_committed", "Stable>PreparingRebalance"]
    assert commits(events)[0][1] == {0: 2}
    watching.read([log.commit(0, 3)])
    assert kinds(watching.read([log.forget(0)])) == ["offsets_committed", "offsets_deleted"]
    assert offsets(watching) == {0: None}
    assert watching.deadline_ms is None


def test_each_reset_of_an_empty_group_is_told() -> None:
    """Whoever undoes the second one needs what the first one has committed."""
    log, watching = Log(now_ms=0), Watching(MINUTE)
    watching.read([log.stable(1, M("a", [0, 1])), log.commit(0, 100, ms=997), log.empty(2)])
    log.commit(0, 0, ms=1_000)
    log.commit(1, 0, ms=0)
    log.commit(0, 5_000, ms=25_000)
    events = watching.read(log.records)
    assert commits(events) == [(1_999, {0: 0, 1: 0})]
    assert events[0]["member_id"] == ""
    assert commits(watching.read([], batch_ms=log.now_ms + 60_000)) == [(26_999, {0: 5_000})]


def test_an_offset_that_was_not_there_is_not_deleted() -> None:
    log, watching = Log(), Watching(ALL)
    watching.read([log.commit(0, 1)])
    assert watching.read([log.forget(1)]) == []


def test_the_time_of_a_commit_that_expires_is_in_its_picture() -> None:
    log, watching = Log(), Watching(ALL)
    value = b"\0\1" + (5).to_bytes(8) + b"\0\0" + (1_000).to_bytes(8) + (9_000).to_bytes(8)
    watching.read([log.write(log.offset_key("t", 0), value)])
    (picture,) = watching.newest(Channel.OFFSETS).values()
    assert picture["expire_timestamp_ms"] == 9_000
    assert "topic_id" not in picture


# -- groups without a record of their own ----------------------------------------------------------------


def test_a_group_of_offsets_alone_has_a_picture() -> None:
    """A program that divides its work by itself commits without a group of members."""
    log, watching = Log(), Watching()
    watching.read([log.commit(0, 1), log.commit(1, 1)])
    since_ms = log.now_ms - 1
    assert (watching.picture["state"], watching.picture["generation_id"]) == ("Empty", 0)
    assert (watching.picture["state_timestamp_ms"], watching.picture["protocol_type"]) == (since_ms, None)
    watching.read([log.commit(0, 2)])
    assert [each.channel for each in watching.results[-1].outputs] == [Channel.EVENTS, Channel.OFFSETS]
    watching.read([log.forget(0)])
    assert [each.channel for each in watching.results[-1].outputs] == [Channel.EVENTS, Channel.OFFSETS]
    watching.read([log.forget(1)])
    assert watching.picture is None


def test_a_group_of_a_newer_protocol_has_no_picture() -> None:
    log, watching = Log(), Watching()
    watching.read([log.commit(0, 1)])
    watching.read([log.of_kind(11), log.of_kind(10), log.of_kind(10)])
    assert watching.picture is None
    assert watching.skipped == {11: 1, 10: 2}
    watching.read([log.of_kind(10), log.of_kind(10, None)])
    assert watching.results[-1].outputs == []
    assert kinds(watching.read([log.commit(0, 2)])) == ["offsets_committed"]
    assert watching.picture is None
    watching.read([log.of_kind(11, None)])
    assert watching.picture["state"] == "Empty"
    watching.read([log.of_kind(17), log.stable(4, M("a"))])
    assert watching.picture["state"] == "Stable"
    # Its offsets are left.
    watching.read([log.delete(ms=500), log.commit(0, 3)])
    assert (watching.picture["state"], watching.picture["state_timestamp_ms"]) == ("Empty", log.now_ms - 1)


def test_a_group_is_forgotten_when_nothing_is_left_of_it() -> None:
    log, watching = Log(), Watching(ALL)
    watching.read([log.stable(1, M("a")), log.commit(0, 1), log.empty(2), log.forget(0)])
    assert watching.deadline_ms is None
    watching.read([log.delete()], batch_ms=5_000)
    assert watching.deadline_ms == 65_000
    assert watching.state is not None, "it may be made again at once, and places must not go back"
    watching.read([], batch_ms=64_999)
    assert watching.state is not None
    watching.read([], batch_ms=65_000)
    assert (watching.state, watching.deadline_ms) == (None, None)


@pytest.mark.parametrize("ms", [0, -30_000])
def test_places_do_not_go_back_when_a_group_is_made_again(ms: int) -> None:
    """An observer that catches up reads old records, and a new leader's clock may be behind."""
    log, watching = Log(), Watching(ALL)
    for number, record in enumerate((log.commit(0, 1), log.forget(0, ms=0), log.commit(0, 2, ms=ms))):
        watching.read([record], batch_ms=log.now_ms + DAY_MS + number)
    assert offsets(watching) == {0: 2}


def test_a_group_of_a_newer_protocol_alone_is_forgotten_with_it() -> None:
    log, watching = Log(), Watching()
    watching.read([log.of_kind(17)])
    assert watching.state is not None
    watching.read([log.of_kind(17, None)])
    watching.read([], batch_ms=60_000)
    assert watching.state is None


def test_memory_does_not_grow_with_commits() -> None:
    log, watching = Log(), Watching(MINUTE)
    sizes = []
    for _ in range(20):
        watching.read([log.commit(partition, 1 << 40) for partition in range(50) for _ in range(5)])
        sizes.append(len(watching.state or b""))
    assert max(sizes) - min(sizes) < 200


# -- records that nobody should write --------------------------------------------------------------------


def test_what_cannot_be_read_is_told_and_changes_nothing() -> None:
    log, watching = Log(), Watching()
    watching.read([log.stable(1, M("a"))])
    before = watching.picture
    newer = log.write(log.group_key, b"\0\5")
    assert watching.read([newer]) == []
    (unreadable,) = watching.results[-1].unreadable
    assert unreadable.reason == "a value of version 5, and not of 0 to 4"
    assert watching.picture == before
    assert kinds(watching.read([log.stable(2, M("a"))]))[0] == "Stable>PreparingRebalance"


@pytest.mark.parametrize("at_ms", [-1, 0, 2**62])
def test_a_time_that_no_reader_takes(at_ms: int) -> None:
    log, watching = Log(), Watching(ALL)
    events = watching.read([log.stable(1, M("a"))._replace(timestamp_ms=at_ms), log.commit(0, 1)])
    assert all(0 <= each["at_ms"] <= MOST_MS for each in events)


def test_time_does_not_go_back() -> None:
    log, watching = Log(), Watching(ALL)
    watching.read([log.commit(0, 1)])
    (event,) = watching.read([log.commit(0, 2, ms=-5_000)])
    assert event["at_ms"] == log.now_ms + 5_000


# -- the same records again, and any cut -----------------------------------------------------------------


def story() -> list[Record]:
    log = Log()
    log.new()
    log.commit(7, 1)
    log.stable(1, M("a", [0, 1]), ms=3_000)
    for second in range(1, 40):
        log.commit(second % 3, second, ms=7_000)
        log.commit(3, second, ms=0)
    log.stable(2, M("a", [0]), M("i-1", [1], instance="i"))
    log.stable(2, M("a", [0]), M("i-2", [1], instance="i"), ms=900)
    log.of_kind(10)
    log.write(log.group_key, b"\0\x09")
    log.stable(5, M("i-2", [0, 1], instance="i"), ms=60_000)
    log.commit(0, 99)
    log.empty(6)
    log.commit(0, 3)
    for partition in (0, 1, 2, 3, 7):
        log.forget(partition)
    log.delete()
    log.stable(1, M("b", [0]), ms=0)
    log.commit(0, 4)
    return log.records


@pytest.mark.parametrize("interval_ms", [ALL, MINUTE])
def test_records_that_were_read_before_change_nothing(interval_ms: int) -> None:
    records, watching = story(), Watching(interval_ms)
    watching.read(records)
    state, count = watching.state, len(watching.outputs)
    watching.read(records)
    watching.read(records[10:40])
    assert (watching.state, len(watching.outputs)) == (state, count)


def test_the_same_batch_gives_the_same() -> None:
    records = story()
    first, again = Watching(MINUTE), Watching(MINUTE)
    first.read(records, batch_ms=records[-1].timestamp_ms)
    again.read(reversed(records), batch_ms=records[-1].timestamp_ms)
    assert first.results[0].outputs == again.results[0].outputs
    assert first.state == again.state


def test_ids_are_of_the_records() -> None:
    watching = Watching(MINUTE)
    watching.read(story())
    ids = [each["event_id"] for each in watching.events]
    assert len(set(ids)) == len(ids)
    places = {f"{TOPIC}-{PARTITION}-{each.offset}" for each in story()}
    assert {each.rpartition("-")[0] for each in ids} <= places


def check_cuts(records: list[Record], cuts: list[int], interval_ms: int, *, catches_up: bool = False) -> None:
    """Any cut gives the same events in the same order, the same newest pictures, and the same state.

    `catches_up`: the batches come one upon the other, a day after the records.
    """
    whole, cut = Watching(interval_ms), Watching(interval_ms)
    last_ms = records[-1].timestamp_ms + catches_up * DAY_MS
    whole.read(records, batch_ms=last_ms)
    bounds = [0, *sorted(cuts), len(records)]
    for begin, end in pairwise(bounds):
        batch_ms = last_ms if catches_up else records[end - 1].timestamp_ms if end else 0
        cut.read(records[begin:end], batch_ms=batch_ms)
    assert cut.events == whole.events
    assert cut.state == whole.state
    for channel in (Channel.GROUPS, Channel.OFFSETS):
        assert {key: value for key, value in cut.newest(channel).items() if value is not None} == {
            key: value for key, value in whole.newest(channel).items() if value is not None
        }


@pytest.mark.parametrize("interval_ms", [ALL, MINUTE])
@pytest.mark.parametrize("records", [story(), without_commits(story())], ids=["all", "without commits"])
def test_one_record_at_a_time(records: list[Record], interval_ms: int) -> None:
    check_cuts(records, list(range(1, len(records))), interval_ms)


def test_a_record_of_a_group_that_is_not_known_says_nothing_of_later_times() -> None:
    log = Log()
    log.delete(ms=1_000)
    log.stable(1, M("a"), ms=20, joined_ms=500)
    check_cuts(log.records, [1], ALL)


@pytest.mark.parametrize("records", [story(), without_commits(story())], ids=["all", "without commits"])
def test_one_record_at_a_time_long_after_it_was_written(records: list[Record]) -> None:
    check_cuts(records, list(range(1, len(records))), ALL, catches_up=True)


CHANGES = st.one_of(
    st.tuples(st.just("commit"), st.integers(0, 3), st.integers(0, 99), st.sampled_from([0, 5, 40_000])),
    st.tuples(st.just("forget"), st.integers(0, 3)),
    st.tuples(st.just("stable"), st.integers(0, 4), st.sets(st.sampled_from("abc"), min_size=1)),
    st.tuples(st.just("static"), st.integers(0, 4), st.integers(0, 3)),
    st.tuples(st.just("empty"), st.integers(0, 4)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("new")),
    st.tuples(st.just("kind"), st.sampled_from([11, 10]), st.booleans()),
)


def drawn(changes: list[Any]) -> list[Record]:
    log = Log()
    for change in changes:
        match change:
            case ("commit", partition, offset, ms):
                log.commit(partition, offset, ms=ms)
            case ("forget", partition):
                log.forget(partition)
            case ("stable", generation, members):
                log.stable(generation, *(M(each, [0]) for each in sorted(members)))
            case ("static", generation, run):
                log.stable(generation, M("a", [0]), M(f"i-{run}", [1], instance="i"))
            case ("empty", generation):
                log.empty(generation)
            case ("delete",):
                log.delete()
            case ("new",):
                log.new()
            case ("kind", kind, has_value):
                log.of_kind(kind, b"\0\0" if has_value else None)
    return log.records


@pytest.mark.drawn
@settings(max_examples=cases(200, deep=5_000))
@given(st.lists(CHANGES, min_size=1, max_size=30), st.data())
def test_any_cut_of_any_log(changes: list[Any], data: st.DataObject) -> None:
    records = drawn(changes)
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=5))
    interval_ms = data.draw(st.sampled_from([ALL, MINUTE]))
    # Batch time may tell earlier of sampled commits.
    check_cuts(records, cuts, interval_ms, catches_up=interval_ms == ALL and data.draw(st.booleans()))


@pytest.mark.drawn
@settings(max_examples=cases(200, deep=5_000))
@given(st.lists(CHANGES, min_size=1, max_size=30))
def test_members_and_states_follow_from_the_events(changes: list[Any]) -> None:
    """A reader that knows no more than the events comes to what the picture has."""
    watching = Watching()
    members: set[str] = set()
    state = ""
    for record in drawn(changes):
        for event in watching.read([record]):
            match event["event"]:
                case "member_added":
                    assert event["member_id"] not in members
                    members.add(event["member_id"])
                case "member_removed":
                    members.remove(event["member_id"])
                case "member_fenced":
                    members.remove(event["member_id"])
                    members.add(event["replaced_by"])
                case "generation_completed":
                    # Of a group that is older than the log nobody has said who joined.
                    assert members in (set(), set(event["members"]))
                    members = set(event["members"])
                case "state_changed":
                    # "": it is older than the log; Empty: it is new.
                    assert event["from"] == state or (state == "" and event["from"] in {"", "Empty"})
                    state = event["to"]
                case "group_deleted":
                    members, state = set(), ""
        picture = watching.picture
        assert members == {each["member_id"] for each in (picture or {"members": []})["members"]}
        if state and picture is not None:
            assert picture["state"] == state


# -- the state -------------------------------------------------------------------------------------------


def test_the_state_is_read_as_it_was_written() -> None:
    watching = Watching(MINUTE)
    watching.read(story())
    assert watching.state is not None
    group = decode_group(watching.state)
    assert encode_group(group) == watching.state
    assert (group.group_id, group.read) == (GROUP, {PARTITION: story()[-1].offset})


def test_a_state_of_another_version_is_refused() -> None:
    state = encode_group(ObservedGroup("g"))
    with pytest.raises(ValueError, match="schema version 9, this program reads 1"):
        decode_group(state[:1] + b"\x09" + state[2:])


def test_a_group_id_that_is_not_utf_8() -> None:
    key = b"\0\2\0\2\xff\xfe"
    result = step(b"\xff\xfe", None, [Record(TOPIC, 0, 0, 5, key, None)], 0, ALL, {})
    assert result.outputs == []
    value = Log.group_value("consumer", 1, "range", "a", [M("a")], 5)
    result = step(b"\xff\xfe", None, [Record(TOPIC, 0, 0, 5, key, value)], 0, ALL, {})
    assert {each.key for each in result.outputs} == {"\ufffd\ufffd".encode()}
