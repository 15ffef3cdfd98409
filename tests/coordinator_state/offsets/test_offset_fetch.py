"""OffsetFetch, case by case."""

from __future__ import annotations

import msgspec
import pytest

from tests.coordinator_state.scenario import Scenario, errors, only


def test_asked_twice_answered_once():
    s = Scenario()
    s.commit("tool", {"t": {0: 5}})
    named = [{"name": "t", "partition_indexes": [0, 0]}, {"name": "t", "partition_indexes": [1, 0]}]
    reply = only(s.send("offset_fetch", "admin", topics=named))
    assert [(topic.name, [each.partition_index for each in topic.partitions]) for topic in reply.topics] == [
        ("t", [0, 1])
    ]


def test_changes_nothing():
    s = Scenario()
    s.stabilise("c1")
    before = len(s.outputs)
    s.at(9_000)
    s.fetch()
    assert s.session_deadline("c1") == 10_000
    assert [output.channel.value for output in s.outputs[before:]] == ["responses"]


def test_the_topic_of_an_offset_is_known_by_its_id():
    s = Scenario()
    one = {"partitions": [{"partition_index": 0, "committed_offset": 5}]}
    s.send("offset_commit", "tool", topics=[{"name": "t", "topic_id": "A", **one}, {"name": "u", **one}])
    t, u = only(s.send("offset_fetch", "admin")).topics
    assert (t.partitions[0].topic_id, u.partitions[0].topic_id) == ("A", msgspec.UNSET)
    assert [each.get("topic_id") for each in s.published().values()] == ["A", None]
    s.send("offset_commit", "tool", topics=[{"name": "t", "topic_id": "B", **one}])
    (named,) = only(s.send("offset_fetch", "admin", topics=[{"name": "t", "partition_indexes": [0]}])).topics
    assert named.partitions[0].topic_id == "B"


@pytest.mark.parametrize("topic_id", ["", "x" * 65, None, 7])
def test_an_id_is_a_short_text(topic_id):
    s = Scenario()
    topics = [{"name": "t", "topic_id": topic_id, "partitions": []}]
    assert errors(s.send("offset_commit", "tool", topics=topics)) == {"tool": "INVALID_REQUEST"}


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
