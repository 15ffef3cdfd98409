from __future__ import annotations

import random

from group_coordinator.history.story import Story
from tests.coordinator_state.scenario import Scenario
from tests.history.scripts import GROUP, a_day, events


def test_the_rows_of_a_group_in_order_wherever_they_come_from() -> None:
    story = Story.of_events(GROUP, enumerate(events(a_day())))
    rows = [
        *story.transitions,
        *story.joins,
        *story.generations,
        *story.memberships,
        *story.assignments,
    ]
    random.Random(1).shuffle(rows)

    assert Story.of_rows(GROUP, rows).transitions == story.transitions
    assert [each.to_state for each in story.transitions][:3] == [
        "PreparingRebalance",
        "CompletingRebalance",
        "PreparingRebalance",
    ]
    assert [each.client_id for each in story.memberships] == ["c1", "c2"]
    assert [(each.generation_id, each.partition) for each in story.assignments] == [
        (2, 0),
        (2, 1),
        (3, 0),
        (3, 1),
    ]
    assert {each.group_id for each in rows} == {story.group_id}


def test_signs_of_life_are_joins_commits_of_members_and_what_came_late() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.wait(9_000)
    s.heartbeat("c1")
    s.commit("c2", {"orders": {0: 1, 1: 2}})
    for client in ("c1", "c2"):
        s.leave(client)
    s.send(
        "offset_commit",
        "tool",
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
    )
    story = Story.of_events(GROUP, enumerate(events(s)))

    late = ("nearly_expired", 1_000, 10_000)
    assert [
        (each.member_id, each.what, each.remaining_ms, each.session_timeout_ms)
        for each in story.signs
        if each.what != "joined"
    ] == [(s.ids["c1"], *late), (s.ids["c2"], *late), (s.ids["c2"], "committed", None, None)]
    assert [each.event_id for each in story.signs if each.what == "joined"] == [
        each.event_id for each in story.joins
    ]
