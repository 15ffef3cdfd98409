"""DeleteGroup, case by case; and the group without a name, which can have offsets but no members."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, step
from group_coordinator.coordinator_state.stored import decode_group
from tests.coordinator_state.scenario import Scenario, errors, only


def test_absent_group():
    s = Scenario()
    reply = only(s.send("delete_group", "admin"))
    assert (reply.error, reply.error_message) == ("GROUP_ID_NOT_FOUND", "Group orders not found.")
    assert s.outputs[:-1] == []


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_not_while_there_are_members(state):
    s = Scenario(group_initial_rebalance_delay_ms=1_000 if state == "PreparingRebalance" else 0)
    s.join("c1")
    if state == "Stable":
        s.sync("c1")
    reply = only(s.send("delete_group", "admin"))
    assert (reply.error, reply.error_message) == ("NON_EMPTY_GROUP", f"group orders is {state}, not Empty")
    assert s.group.state == state


def test_empty_group_goes_with_its_offsets():
    s = Scenario()
    s.commit("tool", {"t": {0: 5, 1: 6}, "u": {0: 7}})
    s.at(1_000)
    assert errors(s.send("delete_group", "admin")) == {"admin": "NONE"}
    assert (s.exists, s.picture(), s.published()) == (False, None, {})
    assert [event["event"] for event in s.events[2:]] == ["offsets_deleted", "state_changed", "group_deleted"]
    assert s.happened("offsets_deleted")[0]["topics"] == [
        {"name": "t", "partition_indexes": [0, 1]},
        {"name": "u", "partition_indexes": [0]},
    ]
    assert s.reasons() == ["deleted by admin"]


def test_deleted_and_made_anew_in_one_batch():
    s = Scenario()
    s.commit("tool", {"t": {0: 5, 1: 6}})
    head = {"request_id": "r", "client_id": "x", "group_id": "orders"}
    topics = [{"name": "t", "partitions": [{"partition_index": 1, "committed_offset": 9}]}]
    requests = [
        head | {"api": "delete_group"},
        head | {"api": "offset_commit", "topics": topics},
    ]
    records = [
        Record("requests", 0, 100 + n, 1, b"orders", msgspec.json.encode(request))
        for n, request in enumerate(requests)
    ]
    result = step(b"orders", s.state, records, 0, s.config, b"")
    published = {output.key: output.value for output in result.outputs if output.channel is Channel.OFFSETS}
    assert published[b'["orders","t",0]'] is None
    assert msgspec.json.decode(published[b'["orders","t",1]'] or b"")["committed_offset"] == 9
    assert msgspec.json.decode(result.outputs[-3].value or b"")["state"] == "Empty"


# -- the group without a name ----------------------------------------------------------------------


def call(state: bytes | None, api: str, **fields):
    request = {"api": api, "request_id": "r", "client_id": "c", "group_id": ""} | fields
    record = Record("requests", 0, 0, 0, b"", msgspec.json.encode(request))
    result = step(b"", state, [record], 0, GroupConfig(), b"")
    return msgspec.json.decode(result.outputs[0].value or b""), result.state


def test_what_can_be_done_without_a_group_id():
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    committed, state = call(None, "offset_commit", topics=topics)
    fetched, state = call(state, "offset_fetch")
    described, state = call(state, "describe_group")
    found, state = call(state, "find_coordinator")
    assert [each["error"] for each in (committed, fetched, described, found)] == ["NONE"] * 4
    assert fetched["topics"][0]["partitions"][0]["committed_offset"] == 5

    refused, state = call(state, "offset_delete", topics=[])
    assert (refused["error"], refused["error_message"]) == ("INVALID_GROUP_ID", "group_id must not be empty")
    deleted, state = call(state, "delete_group")
    assert (deleted["error"], decode_group(state).is_dead) == ("NONE", True)
