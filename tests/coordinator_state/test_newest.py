"""The rule for readers of compacted topics, and the places that the coordinator gives them to go by."""

from __future__ import annotations

from typing import Any

import pytest

from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.newest import Newest, header, place_in
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.step import Channel
from tests.coordinator_state.scenario import Scenario


def places(s: Scenario, channel: Channel = Channel.GROUPS) -> list[Any]:
    return [output.place for output in s.outputs if output.channel is channel]


def at(time_ms: int, changes: int = 0) -> int:
    return time_ms * 2**21 + changes


# -- where a record is from ------------------------------------------------------------------------------


def test_a_place_is_log_time_and_each_change_has_its_own():
    s = Scenario()
    s.now = 1_000
    s.commit("tool", {"t": {0: 5}})
    s.commit("tool", {"t": {0: 6}})
    s.now = 1_001
    s.delete_offsets({"t": [0]})
    assert places(s, Channel.OFFSETS) == [at(1_000), at(1_000, 1), at(1_001)]
    # What its picture shows has not changed since it was made.
    assert places(s) == [at(1_000)]


def test_a_deadline_and_a_tombstone_have_places():
    s = Scenario()
    s.now = 1_000
    s.commit("tool", {"t": {0: 5}})
    s.wait(s.config.offsets_retention_ms + s.config.offsets_retention_check_interval_ms)
    assert not s.exists
    (_, expired), (made, ended) = places(s, Channel.OFFSETS), places(s)
    assert made == at(1_000)
    assert expired == ended == at(1_000 + s.config.offsets_retention_ms)


def test_places_go_on_where_a_clock_was_set_back_and_after_an_outage():
    s = Scenario()
    s.outages = Outages([Outage(2_000, 9_000)])
    for s.now in (1_000, 500, 3_000, 4_000):
        s.commit("tool", {"t": {0: s.now}})
    assert places(s, Channel.OFFSETS) == [at(1_000), at(1_000, 1), at(9_000), at(9_000, 1)]


@pytest.mark.parametrize(
    "times", [(3_000, 4_000, 5_000), (1_900, 1_100, 1_000)], ids=["outage", "clock set back"]
)
def test_a_group_that_is_deleted_and_made_again_has_later_places(times: tuple[int, ...]):
    """In an outage all of it counts as of one time."""
    s = Scenario()
    s.outages = Outages([Outage(2_000, 9_000)])
    for s.now in times:
        s.commit("tool", {"t": {0: s.now}})
        s.commit("tool", {"t": {0: s.now + 1}})
        s.send("delete_group", "admin")
    for channel in Channel.GROUPS, Channel.OFFSETS:
        assert len(places(s, channel)) >= 6
        assert places(s, channel) == sorted(set(places(s, channel)))


@pytest.mark.parametrize("now_ms", [LATEST_MS - 1, 1 << 42])
def test_the_latest_places_can_be_stored(now_ms: int):
    s = Scenario()
    s.now = now_ms
    s.commit("tool", {"t": {0: 5}})
    s.commit("tool", {"t": {0: 6}})
    first, second = places(s, Channel.OFFSETS)
    assert first < second < 1 << 63


# -- what a reader makes of it ---------------------------------------------------------------------------


def test_a_reader_never_goes_back():
    newest = Newest()
    taken = [newest.take(b"g", [header(place)]) for place in (5, 7, 6, 7, 5, 8)]
    assert taken == [True, True, False, True, False, True]


def test_places_of_different_keys_are_not_compared():
    newest = Newest()
    assert newest.take(b"g", [header(5)])
    assert newest.take(b"h", [header(1)])
    assert newest.take(None, [header(1)])


def test_records_without_a_place_count_as_they_come():
    newest = Newest()
    assert newest.take(b"g", [header(5)])
    assert newest.take(b"g", [])
    assert newest.take(b"g", [header(3)])
    assert newest.take(b"g", [("place", b"garbage")])


def test_a_reader_remembers_the_keys_that_have_changed_last():
    newest = Newest(keys=2)
    for key in (b"a", b"b", b"a", b"c"):
        assert newest.take(key, [header(5)])
    assert [newest.take(key, [header(4)]) for key in (b"a", b"c", b"b")] == [False, False, True]


@pytest.mark.parametrize("value", [None, b"", b"x", b"\xff", b"1" * 5_000])
def test_a_place_that_is_none_is_passed_over(value: bytes | None):
    headers = [("place", value)]
    assert place_in(headers) is None  # type: ignore[arg-type] # as somebody else may have written it
    assert Newest().take(b"a", headers)  # type: ignore[arg-type]


def test_headers_of_others_are_passed_over():
    assert place_in([("traceparent", b"x"), header(12)]) == 12
    assert place_in([]) is None


def test_a_reader_knows_what_it_has_taken_lately():
    newest = Newest(keys=2)
    newest.take(b"a", [header(5)])
    newest.take(b"b", [])
    assert [newest.has(b"a", place) for place in (4, 5, 6)] == [True, True, False]
    assert not newest.has(b"b", 0)
    newest.take(b"c", [header(1)])
    newest.take(b"d", [header(1)])
    assert not newest.has(b"a", 1)
