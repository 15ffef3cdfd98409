"""What is kept of the events that the tables do not have yet."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import msgspec

from group_coordinator.coordinator_state.events import GroupCreated
from group_coordinator.history.past import Past

if TYPE_CHECKING:
    from collections.abc import Iterator

    from group_coordinator.history.reader import HistoryReader

EVENTS = 20_000


class Tables:
    """Tables without any row."""

    def events_since(self, _at: datetime) -> set[str]:
        return set()

    def reaches_to(self) -> None:
        return None

    def first_events(self, _groups: object) -> dict[str, datetime]:
        return {}


def events() -> Iterator[tuple[int, bytes]]:
    for number in range(EVENTS):
        group_id = "orders" if number == 7 else f"other-{number}"
        event = GroupCreated(event_id=f"{number}", at_ms=number * 1_000, group_id=group_id, generation_id=0)
        yield number, msgspec.json.encode(event)


def test_of_a_long_time_without_tables_only_the_events_of_the_groups_are_kept() -> None:
    tracemalloc.start()
    past = Past(cast("HistoryReader", Tables()), {"orders"}, events())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * EVENTS
    assert past.reaches_to() == datetime.fromtimestamp(EVENTS - 1, UTC)
    assert past.begins() == {"orders": datetime.fromtimestamp(7, UTC)}
