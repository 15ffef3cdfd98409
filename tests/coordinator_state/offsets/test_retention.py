"""How long offsets, and groups that have nothing else, are kept."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
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
    assert s.state is None
    assert [event["event"] for event in s.events[2:]] == ["offsets_expired", "state_changed", "group_deleted"]
    assert s.picture() is None


def test_a_new_commit_begins_anew():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(30_000)
    s.commit("tool", {"t": {0: 6}})
    s.at(30_000 + MINUTE - 1)
    assert s.fetch() == {"t": {0: (6, -1, "")}}
    s.at(30_000 + MINUTE)
    assert s.state is None


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


@pytest.mark.parametrize("at", [0, 30_000])
def test_group_whose_last_offset_is_deleted_goes_at_the_next_check(at):
    s = scenario()
    s.commit("tool", {"t": {0: 5, 1: 5}})
    s.at(at)
    s.delete_offsets({"t": [0]})
    s.wait(CHECK)
    s.delete_offsets({"t": [1]})
    s.wait(CHECK - 1)
    assert s.state is not None
    s.wait(1)
    assert s.state is None


# -- groups that have had members ------------------------------------------------------------------


def test_empty_group_keeps_its_offsets_by_when_it_became_empty():
    s = scenario()
    s.stabilise("c1", protocols=READS_T)
    s.commit("c1", {"t": {0: 5}})
    beat(s, 2 * MINUTE)
    s.leave("c1")
    s.at(3 * MINUTE - 1)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    s.at(3 * MINUTE)
    assert s.state is None


def test_empty_group_keeps_its_offsets_together():
    s = scenario()
    s.stabilise("c1")
    s.commit("c1", {"t": {0: 5}})
    s.leave("c1")
    s.at(50_000)
    s.commit("tool", {"t": {1: 5}})
    s.at(MINUTE)
    assert s.state is None, "also what was committed since"


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
    assert s.state is None


def test_offsets_keep_an_empty_group():
    s = scenario()
    s.stabilise("c1")
    s.commit("c1", {"t": {0: 5}})
    s.leave("c1")
    s.at(MINUTE - 1)
    assert s.group.generation_id == 2


@pytest.mark.parametrize("kind", ["stable", "parked"])
def test_a_group_that_comes_back_in_time_keeps_its_offsets(kind):
    s = scenario()
    s.stabilise("c1", protocols=READS_T)
    s.commit("c1", {"t": {0: 5}})
    s.leave("c1")
    s.at(MINUTE - 1)
    s.ids.clear()
    s.join("c1", protocols=READS_T)
    if kind == "stable":
        s.sync("c1")
    s.at(MINUTE + 5_000)
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_ids_that_were_handed_out_keep_a_group_without_offsets():
    s = scenario()
    s.ask("c1")
    s.at(9_999)
    assert s.state is not None
    s.at(10_000 + CHECK)
    assert s.state is None


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


def test_what_a_member_commits_for_another_topic_goes_too():
    s = scenario()
    s.stabilise("c1", protocols=READS_T)
    s.commit("c1", {"t": {0: 5}})
    assert s.group.cleanup_deadline_ms is None
    s.commit("c1", {"old": {0: 5}})
    assert s.group.cleanup_deadline_ms == MINUTE
    beat(s, MINUTE)
    assert set(s.fetch()) == {"t"}


def test_nothing_goes_while_the_group_rebalances():
    s = scenario()
    s.commit("tool", {"old": {0: 5}})
    s.stabilise("c1", protocols=READS_T, rebalance_timeout_ms=10 * MINUTE)
    beat(s, MINUTE - 1)
    s.join("c2", protocols=READS_T, rebalance_timeout_ms=10 * MINUTE)
    assert s.group.state == "PreparingRebalance"
    beat(s, 2 * MINUTE)
    assert s.fetch() == {"old": {0: (5, -1, "")}}
    s.join("c1", protocols=READS_T, rebalance_timeout_ms=10 * MINUTE)
    assert s.group.state == "CompletingRebalance"
    beat(s, 2 * MINUTE + 4_000)
    assert s.fetch() == {"old": {0: (5, -1, "")}}
    s.sync(s_leader(s))
    assert s.group.state == "Stable"
    s.wait(CHECK)
    assert s.fetch() == {}


def s_leader(s: Scenario) -> str:
    return next(client for client, member_id in s.ids.items() if member_id == s.group.leader)


@pytest.mark.parametrize(
    "fields",
    [{"protocol_type": "connect"}, {"protocols": {"range": b"?"}}],
    ids=["other protocol type", "unreadable subscription"],
)
def test_nothing_goes_of_members_of_whom_nothing_is_known(fields):
    s = scenario()
    s.commit("tool", {"t": {0: {"committed_offset": 5}}}, api_version=4, retention_time_ms=1)
    s.join("c1", **fields)
    s.sync("c1", protocol_type=fields.get("protocol_type", "consumer"))
    assert s.group.state == "Stable"
    beat(s, 3 * MINUTE)
    assert s.fetch() == {"t": {0: (5, -1, "")}}


# -- times that a commit sets ----------------------------------------------------------------------


@pytest.mark.parametrize(("version", "at"), [(2, 5_000), (4, 5_000), (5, MINUTE)])
def test_a_time_of_its_own_up_to_version_4(version, at):
    s = scenario()
    s.commit("tool", {"t": {0: 5}}, api_version=version, retention_time_ms=5_000)
    s.at(at - 1)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    s.at(at)
    assert s.state is None


def test_a_time_of_its_own_may_be_longer():
    s = scenario()
    s.commit("tool", {"t": {0: 5}}, api_version=4, retention_time_ms=2 * MINUTE)
    s.at(2 * MINUTE - 1)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    s.at(2 * MINUTE)
    assert s.state is None


@pytest.mark.parametrize("retention", [0, -2, -(2**63)])
def test_a_time_that_is_over_is_over_at_the_next_check(retention):
    s = scenario()
    s.at(10)
    s.commit("tool", {"t": {0: 5}}, api_version=4, retention_time_ms=retention)
    s.wait(CHECK - 1)
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    s.wait(1)
    assert s.state is None


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
    assert s.published()[GROUP, "t", 0]["expire_timestamp_ms"] == 2**63 - 1
    s.at(100 * MINUTE)
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_a_shorter_time_is_seen_although_a_longer_one_was_awaited():
    s = scenario()
    s.commit("tool", {"t": {0: 5}})
    s.at(2 * CHECK)
    s.commit("tool", {"t": {1: 5}}, api_version=4, retention_time_ms=5_000)
    s.at(2 * CHECK + 5_000)
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_a_time_of_its_own_of_a_topic_that_consumers_do_not_read():
    s = scenario()
    s.commit("tool", {"t": {0: 5}, "old": {0: 5}}, api_version=4, retention_time_ms=5_000)
    s.stabilise("c1", protocols=READS_T)
    beat(s, 5_000)
    assert set(s.fetch()) == {"t"}
