"""How long offsets, and groups that have nothing else, are kept."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import step
from group_coordinator.coordinator_state.stored import encode_group
from tests.coordinator_state.scenario import GROUP, Scenario, errors
from tests.coordinator_state.subscription import subscription

MINUTE = 60_000
CHECK = 1_000
READS_T = {"range": subscription("t")}


def scenario(**config: int) -> Scenario:
    return Scenario(
        offsets_retention_minutes=1,
        **{"offsets_retention_check_interval_ms": CHECK} | config,
    )


def beat(s: Scenario, until: int) -> None:
    """Let c1 live until then."""
    while s.now + 5_000 < until:
        s.wait(5_000)
        s.heartbeat("c1")
    s.at(until)
    s.heartbeat("c1")


# -- simple groups ---------------------------------------------------------------------------------


def test_offset_of_a_simple_group_goes_by_its_commit():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(30_000)
    s.commit("tool", {"t": {1: 6}})
    s.at(MINUTE - 1)
    assert len(s.fetch()["t"]) == 2
    s.at(MINUTE)
    assert s.fetch() == {"t": {1: (6, -1, "")}}
    assert s.happened("offsets_expired")[0] == {
        "event": "offsets_expired",
        "event_id": f"{GROUP}@{MINUTE}-0",
        "at_ms": MINUTE,
        "group_id": GROUP,
        "generation_id": 0,
        "request_id": None,
        "topics": [{"name": "t", "partition_indexes": [0]}],
    }
    assert list(s.published()) == [(GROUP, "t", 1)]


def test_with_its_last_offset_a_simple_group_goes():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(MINUTE)
    assert not s.exists
    assert [event["event"] for event in s.events[2:]] == ["offsets_expired", "state_changed", "group_deleted"]
    assert (s.events[3]["from"], s.events[3]["to"]) == ("Empty", "Dead")
    assert s.picture() is None


def test_it_is_looked_at_no_more_often_than_the_check_interval():
    s = scenario(offsets_retention_check_interval_ms=10_000)
    for partition in range(5):
        s.commit("tool", {"t": {partition: 5}})
        s.wait(1_000)
    s.at(MINUTE)
    assert s.happened("offsets_expired")[0]["topics"] == [{"name": "t", "partition_indexes": [0]}]
    s.at(MINUTE + 9_999)
    assert len(s.happened("offsets_expired")) == 1
    s.at(MINUTE + 10_000)
    assert s.happened("offsets_expired")[1]["topics"] == [{"name": "t", "partition_indexes": [1, 2, 3, 4]}]


def test_it_is_looked_at_only_when_there_is_something_to_be_done():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(30_000)
    s.commit("tool", {"t": {1: 5, 2: 5}})
    s.at(MINUTE)
    assert s.fetch().keys() == {"t"}
    assert s.group.cleanup_deadline_ms == 30_000 + MINUTE
    s.delete_offsets({"t": [1]})
    assert s.group.cleanup_deadline_ms == 30_000 + MINUTE


def test_group_with_members_is_not_looked_at_when_its_last_offset_is_deleted():
    s = scenario()
    s.stabilise("c1", protocols=READS_T)
    s.commit("c1", {"old": {0: 5}})
    assert s.group.cleanup_deadline_ms == MINUTE
    s.delete_offsets({"old": [0]})
    assert s.group.cleanup_deadline_ms == MINUTE


@pytest.mark.parametrize("at", [0, 30_000])
def test_group_whose_last_offset_is_deleted_goes_at_the_next_check(at):
    s = scenario()
    s.commit("tool", {"t": {0: 5, 1: 5}})
    s.at(at)
    s.delete_offsets({"t": [0]})
    s.wait(CHECK)
    s.delete_offsets({"t": [1]})
    s.wait(CHECK - 1)
    assert s.exists
    s.wait(1)
    assert not s.exists


# -- groups that have had members ------------------------------------------------------------------


def test_empty_group_of_a_state_that_knew_no_subscriptions():
    """As written by version 1: nobody reads anything in a group without members, whatever was known."""
    s = scenario()
    s.stabilise("c1")
    s.leave("c1")
    group = s.group
    group.subscribed_topics = None
    s.state = encode_group(group)
    s.commit("tool", {"t": {0: 5}})
    s.at(MINUTE)
    assert not s.exists


def test_ids_that_were_handed_out_keep_a_group_without_offsets():
    s = scenario()
    s.ask("c1")
    s.at(9_999)
    assert s.exists
    s.at(10_000 + CHECK)
    assert not s.exists


def test_ids_that_were_handed_out_do_not_keep_offsets():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(MINUTE - 1)
    s.ask("c1")
    s.at(MINUTE)
    assert s.fetch() == {}
    assert errors(s.ask("c1")) == {"c1": "NONE"}


# -- groups with members ---------------------------------------------------------------------------


def test_consumers_lose_what_they_do_not_read():
    s = scenario()
    s.commit("tool", {"t": {0: 5}, "old": {0: 5}})
    s.stabilise("c1", protocols=READS_T)
    beat(s, MINUTE - 1)
    assert set(s.fetch()) == {"t", "old"}
    beat(s, MINUTE)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    assert s.group.cleanup_deadline_ms is None, "nothing else can expire as things are"
    beat(s, 5 * MINUTE)
    assert s.fetch() == {"t": {0: (5, -1, "")}}


# -- times that a commit sets ----------------------------------------------------------------------


@pytest.mark.parametrize("retention", [0, -2, -(2**63)])
def test_a_time_that_is_over_is_over_at_the_next_check(retention):
    s = scenario()
    s.at(10)
    s.commit("tool", {"t": {0: 5}}, api_version=4, retention_time_ms=retention)
    assert s.published()[GROUP, "t", 0]["expire_timestamp_ms"] == 10
    s.wait(CHECK - 1)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    s.wait(1)
    assert not s.exists


def test_the_shortest_time_of_all():
    s = scenario()
    s.commit("tool", {"t": {0: 5}}, api_version=4, retention_time_ms=1)
    assert s.published()[GROUP, "t", 0]["expire_timestamp_ms"] == 1


def test_a_time_that_is_over_before_there_was_time():
    """A record without a timestamp is at -1."""
    config = GroupConfig(offsets_retention_check_interval_ms=CHECK)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    request = {"api": "offset_commit", "api_version": 2, "request_id": "r", "client_id": "c", "group_id": "g"}
    value = msgspec.json.encode(request | {"topics": topics, "retention_time_ms": -(2**63)})
    result = step(b"g", None, [Record("requests", 0, 0, -1, b"g", value)], -1, config, b"")
    assert result.deadline_ms == CHECK - 1


def test_the_longest_time_of_all():
    s = scenario()
    s.at(10)
    s.commit("tool", {"t": {0: 5}}, api_version=4, retention_time_ms=2**63 - 1)
    assert s.published()[GROUP, "t", 0]["expire_timestamp_ms"] == LATEST_MS
    s.at(100 * MINUTE)
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_a_shorter_time_is_seen_although_a_longer_one_was_awaited():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(2 * CHECK)
    s.commit("tool", {"t": {1: 5}}, api_version=4, retention_time_ms=5_000)
    s.at(2 * CHECK + 5_000)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
