from __future__ import annotations

import json

import pytest

from group_coordinator.coordinator_state.events import GroupCreated
from group_coordinator.history.rows import read_event

BODY = {"event": "group_created", "event_id": "r-0-1-0", "at_ms": 5, "group_id": "orders", "generation_id": 0}


def test_an_event_is_read() -> None:
    expected = GroupCreated(event_id="r-0-1-0", at_ms=5, group_id="orders", generation_id=0)
    assert read_event(json.dumps(BODY)) == expected


@pytest.mark.parametrize(
    "body",
    [
        "{",
        '{"a":' + "[" * 100_000,
        json.dumps(BODY | {"at_ms": "now"}),
        json.dumps(BODY | {"event": "group_renamed"}),
        json.dumps({name: value for name, value in BODY.items() if name != "event_id"}),
    ],
)
def test_what_is_no_event_of_this_version_is_none(body: str) -> None:
    assert read_event(body) is None
