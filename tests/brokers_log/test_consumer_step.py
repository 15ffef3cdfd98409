"""Batches about a group of the consumer protocol at the brokers: replays, and any cut of any log."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.brokers_log.state import decode_group, encode_group
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel
from tests.brokers_log.consumers import AWAY, ConsumerLog
from tests.brokers_log.kafka import PARTITION, TOPIC, M
from tests.brokers_log.test_step import DAY_MS
from tests.brokers_log.watching import Watching, partitions, without_commits
from tests.depth import cases


def story() -> list[Record]:
    log = ConsumerLog()
    log.stable(1, M("c-1", [0]))
    log.commit(0, 3)
    log.empty(2)
    log.delete(ms=500)
    log.member("a-1", "t", instance="i", ms=0)
    log.epoch(2)
    log.divided(2, {"a-1": [0, 1]})
    log.share("a-1", 2, t=[0, 1])
    log.joins("b-1", 3, {"a-1": [0], "b-1": [1]})
    log.share("b-1", 3, state=2)
    log.share("a-1", 2, state=1, t=[0], pending={"t": [1]}, ms=300)
    log.commit(1, 4)
    log.share("a-1", 3, t=[0], ms=20)
    log.share("b-1", 3, t=[1], ms=50)
    log.share("a-1", AWAY, t=[0], ms=2_000)
    log.gone("a-1", ms=900)
    log.member("a-2", "t", "u", instance="i")
    log.epoch(4, metadata_hash=7)
    log.target("a-2", t=[0], u=[0, 1])
    log.assigned(4)
    log.share("a-2", 4, t=[0], u=[0, 1])
    log.share("b-1", 4, t=[1])
    log.member("b-1", pattern="t.*", ms=1_000)
    log.pattern("t.*", "t", ms=100)
    log.epoch(5, metadata_hash=7)
    log.leaves("a-2", 6, ms=45_000)
    log.divided(6, {"b-1": [0, 1]})
    log.share("b-1", 6, t=[0, 1])
    log.no_more_consumers("b-1", ms=10)
    log.stable(6, M("b-1", [0, 1]), ms=0)
    log.empty(7)
    log.forget(0)
    log.forget(1)
    log.delete()
    log.joins("z-1", 2, {"z-1": [0]})
    log.share("z-1", 2, t=[0])
    log.leaves("z-1", 3)
    log.no_more_consumers(ms=60_000)
    return log.records


def without_epochs(pictures: dict[bytes | None, Any]) -> dict[bytes | None, Any]:
    """Pictures of groups. A member's epoch that advances alone makes none, so that one may be older."""
    found = {}
    for key, picture in pictures.items():
        if picture is not None:
            members = [{**each, "member_epoch": None} for each in picture["members"]]
            found[key] = {**picture, "members": members}
    return found


def check_cuts(records: list[Record], cuts: list[int], *, catches_up: bool = False) -> None:
    """Any cut gives the same events in the same order, the same newest pictures, and the same state.

    `catches_up`: the batches come one upon the other, a day after the records.
    """
    whole, cut = Watching(), Watching()
    last_ms = records[-1].timestamp_ms + catches_up * DAY_MS
    whole.read(records, batch_ms=last_ms)
    for begin, end in pairwise([0, *sorted(cuts), len(records)]):
        batch_ms = last_ms if catches_up else records[end - 1].timestamp_ms if end else 0
        cut.read(records[begin:end], batch_ms=batch_ms)
    assert cut.events == whole.events
    assert cut.state == whole.state
    assert without_epochs(cut.newest(Channel.GROUPS)) == without_epochs(whole.newest(Channel.GROUPS))


@pytest.mark.parametrize("catches_up", [False, True])
@pytest.mark.parametrize("records", [story(), without_commits(story())], ids=["all", "without commits"])
def test_one_record_at_a_time(records: list[Record], catches_up: bool) -> None:
    check_cuts(records, list(range(1, len(records))), catches_up=catches_up)


def test_records_that_were_read_before_change_nothing() -> None:
    records, watching = story(), Watching()
    watching.read(records[:-1])
    state, count = watching.state, len(watching.outputs)
    watching.read(records[:-1])
    watching.read(records[10:40])
    assert (watching.state, len(watching.outputs)) == (state, count)


def test_the_same_batch_gives_the_same() -> None:
    records = story()
    first, again = Watching(), Watching()
    first.read(records)
    again.read(reversed(records))
    assert first.results[0].outputs == again.results[0].outputs
    assert first.state == again.state


def test_ids_are_of_the_records() -> None:
    watching = Watching()
    watching.read(story())
    ids = [each["event_id"] for each in watching.events]
    assert len(set(ids)) == len(ids)
    assert {each.rpartition("-")[0] for each in ids} <= {f"{TOPIC}-{PARTITION}-{it.offset}" for it in story()}


def test_the_state_is_read_as_it_was_written() -> None:
    watching = Watching()
    for record in story():
        watching.read([record])
        if watching.state is not None:
            assert encode_group(decode_group(watching.state)) == watching.state


def test_the_size_of_a_member() -> None:
    """A member of a group of 1,000 with 10 partitions and a name of 50 letters."""
    log, watching = ConsumerLog(), Watching()
    log.member("m-0", "t")
    log.epoch(1)
    for number in range(1_000):
        name = f"m-{number:048}"
        log.member(name, "t")
        log.epoch(number + 2)
        log.target(name, t=range(number * 10, number * 10 + 10))
        log.share(name, number + 2, t=range(number * 10, number * 10 + 10))
    log.assigned(1_001)
    watching.read(log.records)
    assert len(watching.state or b"") < 250 * 1_000


# -- logs that nobody has written ------------------------------------------------------------------------

MEMBERS = st.sampled_from(["a-1", "b-1", "c-1"])
NUMBERS = st.sets(st.integers(0, 3), max_size=2)
EPOCHS = st.integers(0, 5)
MS = st.sampled_from([0, 0, 0, 5, 20_000])
CHANGES = st.one_of(
    st.tuples(st.just("member"), MEMBERS, st.sampled_from(["t", "u"]), st.sampled_from([None, "i"]), MS),
    st.tuples(st.just("gone"), MEMBERS, MS),
    st.tuples(st.just("epoch"), EPOCHS, st.integers(0, 1), MS),
    st.tuples(st.just("assigned"), EPOCHS, MS),
    st.tuples(st.just("target"), MEMBERS, NUMBERS, MS),
    st.tuples(st.just("share"), MEMBERS, st.integers(-2, 5), st.integers(0, 2), NUMBERS, NUMBERS, MS),
    st.tuples(st.just("pattern"), st.sampled_from([None, "t", "u"]), MS),
    st.tuples(st.just("end"), MS),
    st.tuples(st.just("commit"), st.integers(0, 3), MS),
    st.tuples(st.just("forget"), st.integers(0, 3), MS),
    st.tuples(st.just("stable"), st.integers(0, 4), st.sets(MEMBERS, min_size=1), MS),
    st.tuples(st.just("empty"), st.integers(0, 4), MS),
    st.tuples(st.just("delete"), MS),
    st.tuples(st.just("other"), MS),
)


def drawn(changes: list[Any]) -> list[Record]:  # noqa: C901, PLR0912 - one for each kind of change
    log = ConsumerLog()
    for name, *given_, ms in changes:
        log.now_ms += ms
        match name, *given_:
            case "member", member_id, topic, instance:
                log.member(member_id, topic, instance=instance, pattern=topic if instance else None)
            case "gone", member_id:
                log.gone(member_id)
            case "epoch", epoch, metadata_hash:
                log.epoch(epoch, metadata_hash=metadata_hash)
            case "assigned", epoch:
                log.assigned(epoch)
            case "target", member_id, numbers:
                log.target(member_id, t=numbers)
            case "share", member_id, epoch, state, held, pending:
                log.share(member_id, epoch, state=state, t=held, pending={"u": pending})
            case "pattern", topic:
                log.no_pattern("t") if topic is None else log.pattern("t", topic)
            case ("end",):
                log.no_more_consumers()
            case "commit", partition:
                log.commit(partition, 1, ms=0)
            case "forget", partition:
                log.forget(partition, ms=0)
            case "stable", generation, members:
                log.stable(generation, *(M(each, [0]) for each in sorted(members)), ms=0, joined_ms=0)
            case "empty", generation:
                log.empty(generation, ms=0)
            case ("delete",):
                log.delete(ms=0)
            case _:
                log.of_kind(17, ms=0)
    return log.records


def test_records_of_a_third_protocol_in_between() -> None:
    records = drawn([("assigned", 0, 0), ("other", 0), ("commit", 0, 0), ("member", "a-1", "t", None, 0)])
    check_cuts(records, [3])


def test_a_target_without_its_epoch() -> None:
    records = drawn([("member", "c-1", "t", None, 0), ("epoch", 0, 0, 0), ("target", "c-1", {0}, 0)])
    check_cuts(records, [2])


@pytest.mark.drawn
@settings(max_examples=cases(300, deep=5_000))
@given(st.lists(CHANGES, min_size=1, max_size=30), st.data())
def test_any_cut_of_any_log(changes: list[Any], data: st.DataObject) -> None:
    records = drawn(changes)
    if data.draw(st.booleans()):
        records = without_commits(records) or records
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=5))
    check_cuts(records, cuts, catches_up=data.draw(st.booleans()))


class Reader:
    """Knows no more of a group than its events."""

    def __init__(self) -> None:
        self.state, self.kind = "", ""
        self.held: dict[str, str] = {}
        """What each member has, as far as it is told."""

    def hear(self, event: dict[str, Any]) -> None:  # noqa: C901 - one for each kind of event
        name = event.get("member_id", "")
        match event["event"]:
            case "member_added":
                assert name not in self.held
                self.held[name] = ""
            case "member_removed":
                del self.held[name]
            case "member_fenced":
                self.held[event["replaced_by"]] = self.held.pop(name)
            case "member_reconciled":
                self.held[name] = partitions(event["assignment"])
            case "member_away" | "subscription_changed":
                assert name in self.held
            case "target_assigned":
                assert {each["member_id"] for each in event["assignments"]} <= self.held.keys()
            case "generation_completed":
                self.held = dict.fromkeys(event["members"], "")
            case "group_type_changed":
                self.kind = event["to"]
            case "state_changed":
                assert event["from"] == self.state or (self.state == "" and event["from"] in {"", "Empty"})
                self.state = event["to"]
            case "group_deleted":
                self.held, self.state, self.kind = {}, "", ""


def test_what_members_have_follows_from_the_events() -> None:
    watching, reader = Watching(), Reader()
    seen = 0
    for record in story():
        for event in watching.read([record]):
            reader.hear(event)
        picture = watching.picture
        if picture is not None and picture["group_type"] == "consumer" and "a-1" not in reader.held:
            members = {it["member_id"]: partitions(it["member_assignment"]) for it in picture["members"]}
            assert reader.held == members
            seen += 1
    assert seen


@pytest.mark.drawn
@settings(max_examples=cases(300, deep=5_000))
@given(st.lists(CHANGES, min_size=1, max_size=30))
def test_members_and_states_follow_from_the_events(changes: list[Any]) -> None:
    watching, reader = Watching(), Reader()
    for record in drawn(changes):
        for event in watching.read([record]):
            reader.hear(event)
        picture = watching.picture
        assert reader.held.keys() == {it["member_id"] for it in (picture or {"members": []})["members"]}
        if reader.state and picture is not None:
            assert picture["state"] == reader.state
            assert picture["group_type"] == (reader.kind or picture["group_type"])
