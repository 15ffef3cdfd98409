"""How requests count that were late or had a wrong clock, as events tell it to a replay."""

from __future__ import annotations

from typing import Any, Self

import msgspec
import pytest

from group_coordinator.checkpoints import late
from group_coordinator.checkpoints.late import late_times, read_late_times, told_late
from group_coordinator.coordinator_state.clocks import Correction
from group_coordinator.coordinator_state.events import AnyEvent, ClockCorrected, GroupCreated, RequestLate
from group_coordinator.coordinator_state.log import Record


def place(partition: int, offset: int) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "appended_ms": 5_000, "group_id": "g"}


CREATED = GroupCreated(event_id="created", at_ms=4_000, group_id="g")
LATE = RequestLate(event_id="late", at_ms=7_000, **place(0, 3))
CORRECTED = ClockCorrected(event_id="clock", at_ms=4_200, shift_ms=-800, skipped_ms=90, **place(1, 0))
BOTH = (
    ClockCorrected(event_id="clock-2", at_ms=9_000, shift_ms=3_000, skipped_ms=0, **place(1, 3)),
    RequestLate(event_id="late-2", at_ms=9_000, **place(1, 3)),
)
TOLD = {
    (0, 3): {"late_ms": 7_000},
    (1, 0): {"correction": Correction(-800, 90)},
    (1, 3): {"correction": Correction(3_000, 0), "late_ms": 9_000},
}


def built(*events: AnyEvent) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(it) for it in events]


def test_events_tell_how_each_request_counts() -> None:
    assert late_times(built(CREATED, LATE, CORRECTED, *BOTH)) == TOLD
    # In whatever order, and some of them again, as after a crash.
    assert late_times(built(*BOTH[::-1], CORRECTED, LATE, BOTH[0])) == TOLD
    assert late_times(built(BOTH[1], CORRECTED, LATE, BOTH[0], LATE)) == TOLD
    assert late_times(built(CREATED)) == {}


def test_records_say_so() -> None:
    records = [Record("requests", partition, offset, 5_000, b"g", b"") for partition, offset in TOLD]
    other = Record("requests", 0, 4, 5_000, b"g", b"")
    assert list(told_late([*records, other], TOLD)) == [
        records[0]._replace(late_ms=7_000),
        records[1]._replace(correction=Correction(-800, 90)),
        records[2]._replace(correction=Correction(3_000, 0), late_ms=9_000),
        other,
    ]


class Topics:
    """The topics of requests and events. `polls`: what each poll of the events gives."""

    def __init__(self, *polls: list[AnyEvent]) -> None:
        self.polls = [*polls]
        self.times: dict[int, list[int]] = {}
        self.looked_at: Any = None
        self.asked: dict[str, Any] = {}

    def append_times(self, _config: Any, topic: str, begins: Any, ends: Any) -> Any:
        self.looked_at = topic, begins, ends
        return self.times

    def reader(self, **settings: Any) -> Topics:
        self.asked = settings
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def has_caught_up(self) -> bool:
        return not self.polls

    def poll(self, _timeout_ms: int) -> list[dict[str, Any]]:
        return built(*self.polls.pop(0))

    def read(self, start: dict[int, int], end: dict[int, int]) -> Any:
        return read_late_times({"bootstrap_servers": "h:1"}, "requests", start, end, "events")


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    topics = Topics()
    monkeypatch.setattr(late, "append_times", topics.append_times)
    monkeypatch.setattr(late, "EventReader", topics.reader)
    return topics


def test_all_events_are_read_that_may_be_of_the_requests(topics: Topics) -> None:
    """They come after the first request, and clocks may differ by a minute."""
    topics.times = {0: [300_000, 200_000], 1: [250_000]}
    topics.polls = [[CREATED, LATE], [], [CORRECTED, *BOTH]]
    assert topics.read({0: 7}, {0: 500, 1: 20}) == TOLD
    assert topics.looked_at == ("requests", {0: 7, 1: 0}, {0: 107, 1: 20})
    assert topics.asked == {"since_ms": 140_000, "events_topic": "events", "bootstrap_servers": "h:1"}


@pytest.mark.parametrize("times", [{}, {0: [59_000]}])
def test_without_requests_and_of_old_ones_all_events_are_read(topics: Topics, times: Any) -> None:
    topics.times = times
    assert topics.read({}, {0: 5}) == {}
    assert topics.asked["since_ms"] == 0


def test_all_that_is_told_of_a_request_counts_also_if_it_is_read_in_parts(topics: Topics) -> None:
    topics.polls = [[BOTH[0]], [BOTH[1]]]
    assert topics.read({}, {1: 5}) == {(1, 3): TOLD[1, 3]}
