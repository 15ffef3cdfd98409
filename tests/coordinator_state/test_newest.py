"""The rule for readers of compacted topics, and the places that the coordinator gives them to go by."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.newest import Newest, header, place_in
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.step import Channel, step
from tests.coordinator_state.scenario import Scenario

COMMIT = msgspec.json.encode(
    {
        "api": "offset_commit",
        "request_id": "r",
        "client_id": "c",
        "group_id": "orders",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    }
)


def places(s: Scenario, channel: Channel = Channel.GROUPS) -> list[Any]:
    return [output.place for output in s.outputs if output.channel is channel]


def at(time_ms: int, offset: int) -> int:
    return time_ms * 2**21 + offset


# -- where a record is from ------------------------------------------------------------------------------


def test_a_place_is_log_time_and_an_offset_and_each_change_has_its_own():
    s = Scenario()
    s.now = 1_000
    s.commit("tool", {"t": {0: 5}})
    s.commit("tool", {"t": {0: 6}})
    s.now = 1_001
    s.delete_offsets({"t": [0]})
    assert places(s, Channel.OFFSETS) == [at(1_000, 0), at(1_000, 1), at(1_001, 2)]
    # What its picture shows has not changed since it was made.
    assert places(s) == [at(1_000, 0)]


def test_a_deadline_and_a_tombstone_have_places():
    s = Scenario()
    s.now = 1_000
    s.commit("tool", {"t": {0: 5}})
    s.wait(s.config.offsets_retention_ms + s.config.offsets_retention_check_interval_ms)
    assert s.state is None
    (_, expired), (made, ended) = places(s, Channel.OFFSETS), places(s)
    assert made == at(1_000, 0)
    assert expired == ended == at(1_000 + s.config.offsets_retention_ms, 0)


def test_places_go_on_where_a_clock_was_set_back_and_after_an_outage():
    s = Scenario()
    s.outages = Outages([Outage(2_000, 9_000)])
    for s.now in (1_000, 500, 3_000, 4_000):
        s.commit("tool", {"t": {0: s.now}})
    assert places(s, Channel.OFFSETS) == [at(1_000, 0), at(1_000, 1), at(9_000, 2), at(9_000, 3)]


def test_a_group_that_is_deleted_and_made_again_in_an_outage_has_later_places():
    """All of it counts as of one time, and nothing is kept of a group that is deleted."""
    s = Scenario()
    s.outages = Outages([Outage(2_000, 9_000)])
    for s.now in (3_000, 4_000, 5_000):
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


def test_the_largest_offset_leaves_the_time_as_it_is():
    record = Record("requests", 0, (1 << 40) + 7, 5_000, b"orders", COMMIT)
    result = step(b"orders", None, [record], 0, GroupConfig(), b"secret")
    assert {output.place for output in result.outputs} - {None} == {at(5_000, 7)}


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


def test_headers_of_others_are_passed_over():
    assert place_in([("traceparent", b"x"), header(12)]) == 12
    assert place_in([]) is None
