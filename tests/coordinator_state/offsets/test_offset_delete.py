"""OffsetDelete, case by case."""

from __future__ import annotations

from tests.coordinator_state.scenario import GROUP, Scenario, of_partitions, only
from tests.coordinator_state.subscription import subscription


def test_empty_group():
    s = Scenario()
    s.commit("tool", {"t": {0: 5, 1: 6}, "u": {0: 7}})
    reply = only(s.delete_offsets({"t": [1, 2], "u": [0]}))
    assert (reply.error, of_partitions(reply)) == ("NONE", {"t": {1: 0, 2: 0}, "u": {0: 0}})
    assert s.fetch() == {"t": {0: (5, -1, "")}}
    assert s.happened("offsets_deleted")[0]["topics"] == [
        {"name": "t", "partition_indexes": [1]},
        {"name": "u", "partition_indexes": [0]},
    ]
    assert list(s.published()) == [(GROUP, "t", 0)]


def test_nothing_to_delete_is_no_error_and_no_event():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    assert of_partitions(only(s.delete_offsets({"u": [0]}))) == {"u": {0: 0}}
    assert s.happened("offsets_deleted") == []


def test_a_group_that_was_empty_reads_nothing_before_the_join_phase_is_over():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    reads_t = {"range": subscription("t")}
    s.join("c1", protocols=reads_t)
    s.wait(3_000)
    s.sync("c1")
    s.commit("c1", {"t": {0: 5}})
    s.leave("c1")
    s.join("c2", protocols=reads_t)
    assert s.group.state == "PreparingRebalance"
    assert of_partitions(only(s.delete_offsets({"t": [0]}))) == {"t": {0: 0}}


def test_absent_group():
    assert only(Scenario().delete_offsets({"t": [0]})).error_message == "Group orders not found."
