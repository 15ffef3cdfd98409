"""Who was in, and who owned what, from when to when."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from group_coordinator.coordinator_state.events import MemberReconciled
from group_coordinator.history.rows import time_of
from group_coordinator.history.spans import Assignment, Membership, Spans, Wait
from tests.coordinator_state.scenario import Scenario
from tests.history import consumers
from tests.history.consumers import Consumers, a_day_of_troubles, a_handover
from tests.history.scripts import TOPIC, a_day, events, share

if TYPE_CHECKING:
    from collections.abc import Callable


def told(s: Scenario, before: Spans | None = None) -> Spans:
    spans = before or Spans()
    for event in events(s):
        spans.take(event)
    return spans


def last(spans: Spans) -> list[Membership | Assignment | Wait]:
    """Each span as it was left."""
    return list({id(each): each for each in spans.changed}.values())


def ms(time: object) -> int | None:
    return None if time is None else next(it for it in range(0, 100_000, 100) if time_of(it) == time)


def members(s: Scenario, spans: Spans) -> list[tuple[str, int | None, int | None, str | None]]:
    names = {member_id: client for client, member_id in s.ids.items()}
    return [
        (names.get(each.member_id, each.member_id), ms(each.since), ms(each.until), each.reason)
        for each in last(spans)
        if isinstance(each, Membership)
    ]


def owners(s: Scenario, spans: Spans) -> list[tuple[int | None, str, int, int | None, int | None]]:
    names = {member_id: client for client, member_id in s.ids.items()}
    return [
        (each.partition, names[each.member_id], each.generation_id, ms(each.since), ms(each.until))
        for each in last(spans)
        if isinstance(each, Assignment)
    ]


def test_a_day_of_a_group() -> None:
    s = a_day()
    spans = told(s)

    assert members(s, spans) == [("c1", 1_000, 20_000, "left"), ("c2", 1_000, 11_000, "session_expired")]
    assert owners(s, spans) == [
        (0, "c1", 2, 1_000, 13_000),
        # Nobody has it until the next assignment.
        (1, "c2", 2, 1_000, 11_000),
        (0, "c1", 3, 13_000, 20_000),
        (1, "c1", 3, 13_000, 20_000),
    ]


def test_every_span_names_the_events_that_began_and_ended_it() -> None:
    s = a_day()
    by_id = {event["event_id"]: event for event in s.events}
    for each in last(told(s)):
        began, ended = by_id[each.begun_by], by_id[each.ended_by or ""]
        assert (time_of(began["at_ms"]), time_of(ended["at_ms"])) == (each.since, each.until)
        expected = "member_added" if isinstance(each, Membership) else "assignment_propagated"
        assert began["event"] == expected


def test_wherever_it_is_cut_it_is_the_same_day() -> None:
    s = a_day()
    whole = events(s)
    expected = {repr(each) for each in last(told(s))}
    for cut in range(len(whole) + 1):
        first = Spans()
        for event in whole[:cut]:
            first.take(event)
        ended = [each for each in last(first) if each.until is not None]
        lasting = [each for each in last(first) if each.until is None]
        second = Spans(
            [each for each in lasting if isinstance(each, Membership)],
            [each for each in lasting if isinstance(each, Assignment)],
        )
        for event in whole[cut:]:
            second.take(event)
        both = {id(each): each for each in itertools.chain(ended, lasting, second.changed)}
        assert {repr(each) for each in both.values()} == expected


def test_a_static_member_that_starts_again_keeps_its_work() -> None:
    s = Scenario()
    s.at(1_000)
    s.static("c1")
    s.form("c1")
    s.sync("c1", {"c1": share(0, 1)})
    old = s.ids["c1"]
    s.at(5_000)
    s.restart("c1")
    spans = told(s)

    assert members(s, spans) == [(old, 1_000, 5_000, "replaced"), ("c1", 5_000, None, None)]
    s.ids["old"] = old
    assert owners(s, spans) == [
        (0, "old", 1, 1_000, 5_000),
        (1, "old", 1, 1_000, 5_000),
        (0, "c1", 1, 5_000, None),
        (1, "c1", 1, 5_000, None),
    ]


def test_a_partition_that_is_assigned_twice_is_owned_once() -> None:
    s = Scenario()
    s.at(1_000)
    s.form("c1")
    s.sync("c1", {"c1": share(3, 3)})
    assert owners(s, told(s)) == [(3, "c1", 1, 1_000, None)]


def test_work_of_a_kind_of_their_own_is_owned_too() -> None:
    s = Scenario()
    s.at(1_000)
    s.form("c1", protocol_type="connect")
    s.sync("c1", {"c1": b"tasks"}, protocol_type="connect")
    assert owners(s, told(s)) == [(None, "c1", 1, 1_000, None)]


def test_a_member_without_work_owns_nothing() -> None:
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c1", {"c1": share(0)})
    assert [owner for _, owner, *_ in owners(s, told(s))] == ["c1"]


def test_a_history_that_begins_late_learns_who_is_there() -> None:
    s = a_day()
    spans = Spans()
    # From c2's expiry on: nobody saw them join.
    late = [event for event in events(s) if event.at_ms >= 11_000]
    for event in late:
        spans.take(event)

    assert members(s, spans) == [("c2", None, 11_000, "session_expired"), ("c1", None, 20_000, "left")]
    (c2, c1) = [each for each in last(spans) if isinstance(each, Membership)]
    # Their names are told when they go.
    assert (c2.client_id, c1.client_id) == ("c2", "c1")


@pytest.mark.parametrize("kind", ["generation_completed", "group_deleted"])
def test_who_went_when_nobody_took_notes_is_not_there_for_ever(kind: str) -> None:
    s = a_day()
    s.send("delete_group", "admin")
    spans = Spans([Membership(group_id="g", member_id="x", since=time_of(0), begun_by="a")])
    for event, body in zip(events(s), s.events, strict=True):
        if body["event"] == kind:
            spans.take(event)

    assert members(s, spans)[0] == ("x", 0, 1_000 if kind == "generation_completed" else 20_000, "unknown")


def test_offsets_are_of_the_topic_that_is_committed() -> None:
    assert {each.topic for each in last(told(a_day())) if isinstance(each, Assignment)} == {TOPIC}


# -- the consumer protocol -----------------------------------------------------------------------------


def told_by(group: Consumers) -> Spans:
    spans = Spans()
    for event in consumers.events(group):
        spans.take(event)
    return spans


def held(spans: Spans, topic: str = TOPIC) -> list[tuple[int | None, str, int, int | None, int | None]]:
    return [
        (each.partition, each.member_id, each.generation_id, ms(each.since), ms(each.until))
        for each in last(spans)
        if isinstance(each, Assignment) and each.topic == topic
    ]


def waits(spans: Spans) -> list[tuple[int, str, str, int | None, int | None]]:
    """What, who has it, and who waits for it, from when to when."""
    return [
        (each.partition, each.holder_id, each.member_id, ms(each.since), ms(each.until))
        for each in last(spans)
        if isinstance(each, Wait) and each.topic == TOPIC
    ]


def test_a_member_owns_what_it_has_not_given_up_and_the_other_one_waits() -> None:
    spans = told_by(a_handover())

    assert held(spans) == [
        (0, "m1", 2, 1_000, 20_000),
        (1, "m1", 2, 1_000, 20_000),
        (2, "m1", 2, 1_000, 8_000),
        (3, "m1", 2, 1_000, 8_000),
        (2, "m2", 3, 9_000, None),
        (3, "m2", 3, 9_000, None),
        (0, "m2", 4, 21_000, None),
        (1, "m2", 4, 21_000, None),
    ]
    assert waits(spans) == [(2, "m1", "m2", 5_000, 8_000), (3, "m1", "m2", 5_000, 8_000)]
    told = [ms(each.revoking_since) for each in last(spans) if isinstance(each, Assignment)]
    assert told[:4] == [None, None, 6_000, 6_000]


def test_a_member_that_gives_nothing_up_is_waited_for_until_it_is_removed() -> None:
    spans = told_by(a_day_of_troubles())

    assert [each for each in waits(spans) if each[3] == 10_000] == [(2, "m1", "m3", 10_000, 10_000)]
    (wait,) = [each for each in last(spans) if isinstance(each, Wait) and each.holder_id == "m2"]
    assert (wait.topic, wait.partition, wait.member_id) == ("refunds", 1, "m3")
    assert (ms(wait.since), ms(wait.until), wait.assignment_epoch) == (10_000, 40_000, 4)


def test_a_static_member_that_is_back_was_never_out_and_one_that_joins_again_is_in_twice() -> None:
    spans = told_by(a_day_of_troubles())

    assert [
        (each.member_id, ms(each.since), ms(each.until), each.reason)
        for each in last(spans)
        if isinstance(each, Membership)
    ] == [
        ("m1", 1_000, 80_000, "left"),
        ("m2", 1_000, 40_000, "not_revoked"),
        ("m3", 10_000, 80_000, "left"),
        ("m2", 70_000, 80_000, "left"),
    ]
    assert [each for each in held(spans) if each[:2] == (0, "m1")] == [(0, "m1", 2, 1_000, 80_000)]


def test_what_a_static_member_was_to_give_up_is_nobodys_while_it_is_away() -> None:
    group = Consumers({TOPIC: 4})
    group.join("m1", instance="worker-1")
    group.at(1_000)
    group.join("m2")
    group.beat("m1")
    group.at(2_000)
    group.leave("m1", for_good=False)
    group.at(3_000)
    group.beat("m2")
    spans = told_by(group)

    assert waits(spans) == [(2, "m1", "m2", 1_000, 2_000), (3, "m1", "m2", 1_000, 2_000)]
    assert held(spans)[:4] == [
        *((number, "m1", 2, 0, None) for number in (0, 1)),
        *((number, "m1", 2, 0, 2_000) for number in (2, 3)),
    ]
    assert held(spans)[4:] == [(2, "m2", 3, 3_000, None), (3, "m2", 3, 3_000, None)]


def test_a_static_member_that_starts_again_under_another_id_keeps_what_it_has_and_waits_for() -> None:
    group = Consumers({TOPIC: 4})
    group.join("m1")
    group.at(1_000)
    group.join("m2", instance="worker-2")
    group.at(2_000)
    group.leave("m2", for_good=False)
    group.join("m3", instance="worker-2")
    spans = told_by(group)

    assert waits(spans) == [
        *((number, "m1", "m2", 1_000, 2_000) for number in (2, 3)),
        *((number, "m1", "m3", 2_000, None) for number in (2, 3)),
    ]


def test_nobody_waits_any_more_for_what_another_target_gives_to_another() -> None:
    group = Consumers({TOPIC: 4})
    group.join("m1")
    group.at(1_000)
    group.join("m2")
    group.at(2_000)
    group.leave("m2")
    group.at(3_000)
    group.beat("m1")
    spans = told_by(group)

    assert {each[4] for each in waits(spans)} == {2_000}
    assert held(spans) == [(number, "m1", 2, 0, None) for number in range(4)]


def test_a_target_that_changes_again_ends_the_wait() -> None:
    group = Consumers({TOPIC: 4, "refunds": 4})
    group.join("m1")
    group.at(1_000)
    group.join("m2")
    group.at(2_000)
    group.subscribe("m2", "orders")
    found = [each for each in last(told_by(group)) if isinstance(each, Wait)]

    assert {(each.topic, ms(each.until)) for each in found} == {("refunds", 2_000), ("orders", None)}
    assert all(each.holder_id == "m1" and each.member_id == "m2" for each in found)


@pytest.mark.parametrize("script", [a_handover, a_day_of_troubles])
def test_wherever_it_is_cut_it_is_the_same_day_of_consumers(script: Callable[[], Consumers]) -> None:
    whole = consumers.events(script())
    expected = {repr(each) for each in last(told_by(script()))}
    for cut in range(len(whole) + 1):
        first = Spans()
        for event in whole[:cut]:
            first.take(event)
        before = [each for each in last(first) if each.until is None]
        ended = {repr(each) for each in last(first) if each.until is not None}
        second = Spans(*([each for each in before if isinstance(each, kind)] for kind in KINDS))
        for event in whole[cut:]:
            second.take(event)
        open_ = {repr(each) for each in before if each.until is None}
        assert ended | open_ | {repr(each) for each in last(second)} == expected


KINDS = (Membership, Assignment, Wait)


def test_what_a_stranger_writes_in_place_of_partitions_is_nothing() -> None:
    spans = Spans()
    spans.take(
        MemberReconciled(event_id="e", at_ms=1, group_id="g", member_id="m", member_epoch=1, assignment=b"?")
    )
    (member,) = spans.changed
    assert isinstance(member, Membership)
    assert (member.member_id, member.since) == ("m", None)
