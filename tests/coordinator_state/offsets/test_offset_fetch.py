"""OffsetFetch, case by case."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import Scenario, only


def test_absent_group():
    s = Scenario()
    assert s.fetch() == {}
    assert s.fetch({"t": [0, 3], "u": [1]}) == {
        "t": {0: (-1, -1, ""), 3: (-1, -1, "")},
        "u": {1: (-1, -1, "")},
    }
    assert s.state is None


def test_named_partitions():
    s = Scenario()
    s.commit("tool", {"t": {0: 5, 1: 6}, "u": {0: 7}})
    assert s.fetch({"t": [1, 2], "v": [0]}) == {
        "t": {1: (6, -1, ""), 2: (-1, -1, "")},
        "v": {0: (-1, -1, "")},
    }
    assert s.fetch({}) == {}
    assert s.fetch({"t": []}) == {"t": {}}


def test_all():
    s = Scenario()
    s.commit("tool", {"t": {1: 5, 0: 6}, "u": {0: 7}})
    assert s.fetch() == {"t": {0: (6, -1, ""), 1: (5, -1, "")}, "u": {0: (7, -1, "")}}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_any_state_and_anybody(state):
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    s.form("c1")
    if state != "CompletingRebalance":
        s.sync("c1")
    if state == "PreparingRebalance":
        s.join("c2")
    assert s.group.state == state
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_asked_twice_answered_once():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    named = [{"name": "t", "partition_indexes": [0, 0]}, {"name": "t", "partition_indexes": [1, 0]}]
    reply = only(s.send("offset_fetch", "admin", topics=named))
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in reply.topics] == [
        ("t", [0, 1])
    ]


def test_nothing_is_unstable():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    assert s.fetch(require_stable=True) == {"t": {0: (5, -1, "")}}


def test_changes_nothing():
    s = Scenario()
    s.stabilise("c1")
    before = len(s.outputs)
    s.at(9_000)
    s.fetch()
    assert s.session_deadline("c1") == 10_000
    assert [output.channel.value for output in s.outputs[before:]] == ["responses"]


@pytest.mark.parametrize("version", [0, 10])
def test_unknown_version(version):
    reply = only(Scenario().send("offset_fetch", "admin", api_version=version))
    assert (reply.error, reply.error_message) == (
        "UNSUPPORTED_VERSION",
        "versions 1 to 9 are supported - at `$.api_version`",
    )


def test_all_came_with_version_2():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    reply = only(s.send("offset_fetch", "admin", api_version=1))
    assert (reply.error, reply.error_message, reply.topics) == (
        "UNSUPPORTED_VERSION",
        "version 2 is the first that can ask for all topics - at `$.topics`",
        [],
    )
    assert s.fetch({"t": [0]}, api_version=1) == {"t": {0: (5, -1, "")}}
    assert s.fetch(api_version=2) == {"t": {0: (5, -1, "")}}


@pytest.mark.parametrize(("version", "epoch"), [(4, -1), (5, 3)])
def test_leader_epoch_came_with_version_5(version, epoch):
    s = Scenario()
    s.commit("tool", {"t": {0: {"committed_offset": 5, "committed_leader_epoch": 3}}})
    assert s.fetch(api_version=version) == {"t": {0: (5, epoch, "")}}
