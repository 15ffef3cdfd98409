"""OffsetDelete, case by case."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import GROUP, Scenario, of_partitions, only
from tests.coordinator_state.subscription import subscription


def test_absent_group():
    s = Scenario()
    reply = only(s.delete_offsets({"t": [0]}))
    assert (reply.error, reply.error_message, reply.topics) == (
        "GROUP_ID_NOT_FOUND",
        "Group orders not found.",
        [],
    )


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


def test_the_last_offset_goes_and_the_group_stays():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    s.delete_offsets({"t": [0]})
    assert s.group.offsets == b""
    assert s.group.state == "Empty"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_consumers_keep_what_they_read(state):
    s = Scenario()
    s.commit("tool", {"t": {0: 5}, "u": {0: 5, 1: 5}})
    s.form("c1", protocols={"range": subscription("t")})
    if state != "CompletingRebalance":
        s.sync("c1")
    if state == "PreparingRebalance":
        s.join("c2", protocols={"range": subscription("u")})
    assert s.group.state == state
    reply = only(s.delete_offsets({"t": [0], "u": [0]}))
    # What c2 wants to read does not count before the join phase is over.
    assert (reply.error, of_partitions(reply)) == ("NONE", {"t": {0: 86}, "u": {0: 0}})
    assert s.fetch() == {"t": {0: (5, -1, "")}, "u": {1: (5, -1, "")}}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_of_other_members_nothing_is_known(state):
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    s.form("c1", protocol_type="connect")
    if state != "CompletingRebalance":
        s.sync("c1", protocol_type="connect")
    if state == "PreparingRebalance":
        s.join("c2", protocol_type="connect")
    assert s.group.state == state
    reply = only(s.delete_offsets({"t": [0]}))
    assert (reply.error, reply.topics) == ("NON_EMPTY_GROUP", [])
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_unreadable_subscription_keeps_all():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    s.stabilise("c1", protocols={"range": b"?"})
    assert of_partitions(only(s.delete_offsets({"t": [0]}))) == {"t": {0: 86}}
