"""Who was in, and who owned what, from when to when."""

from __future__ import annotations

import itertools

import pytest

from group_coordinator.history.rows import time_of
from group_coordinator.history.spans import Assignment, Membership, Spans
from tests.coordinator_state.scenario import Scenario
from tests.history.scripts import TOPIC, a_day, events, share


def told(s: Scenario, before: Spans | None = None) -> Spans:
    spans = before or Spans()
    for event in events(s):
        spans.take(event)
    return spans


def last(spans: Spans) -> list[Membership | Assignment]:
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
