"""The limit of groups."""

from __future__ import annotations

from group_coordinator.streaming.group_limit import GroupLimit


def test_no_group_is_created_until_a_tenth_is_free() -> None:
    limit = GroupLimit(100)
    limit.is_closed = False
    told = [limit.look(groups) for groups in (100, 101, 101, 91, 90, 91, 100, 101)]
    closes, opens = "so no new ones are created", "so new ones are created again"
    assert told == [
        *(None, f"there are 101 groups, {closes}", None, None),
        *(f"there are 90 groups, {opens}", None, None, f"there are 101 groups, {closes}"),
    ]
