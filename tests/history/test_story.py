from __future__ import annotations

import random

from group_coordinator.history.story import Story
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
