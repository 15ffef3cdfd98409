"""OffsetCommit, case by case."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.committed import CommittedOffsets
from tests.coordinator_state.scenario import GROUP, Scenario, errors, of_partitions, only

ONE = {"t": {0: 5}}


def stable_group() -> Scenario:
    """A Stable group of c1."""
    s = Scenario()
    s.stabilise("c1")
    return s


# -- who may ---------------------------------------------------------------------------------------


def test_absent_group_becomes_a_simple_one():
    s = Scenario()
    reply = only(s.commit("tool", ONE))
    assert of_partitions(reply) == {"t": {0: 0}}
    assert (s.group.state, s.group.protocol_type) == ("Empty", None)
    assert [event["event"] for event in s.events] == ["group_created", "offsets_committed"]
    assert s.picture()["state"] == "Empty"


def test_empty_group_and_the_lowest_generation():
    s = Scenario()
    s.commit("tool", ONE)
    assert errors(s.commit("tool", ONE, generation_id=0)) == {"tool": "UNKNOWN_MEMBER_ID"}


# -- sessions --------------------------------------------------------------------------------------


def test_a_commit_shows_that_the_member_knows_its_generation():
    s = Scenario()
    s.stabilise("c1")
    assert s.member("c1").is_behind is False
    s.ask("c2")
    s.ask("c2")
    s.join("c1")
    s.sync("c1", {})
    assert s.member("c2").is_behind is True
    s.commit("c2", ONE)
    assert s.member("c2").is_behind is False


# -- sizes -----------------------------------------------------------------------------------------


def test_too_large_metadata_alone_still_makes_a_group():
    s = Scenario()
    s.commit("tool", {"t": {0: {"committed_offset": 1, "committed_metadata": "x" * 4_097}}})
    assert s.group.state == "Empty"
    assert s.happened("offsets_committed") == []


def test_most_offsets_of_a_group():
    s = Scenario(max_group_offsets=2)
    assert of_partitions(only(s.commit("tool", {"t": {0: 1, 1: 1, 2: 1}}))) == {"t": {0: 0, 1: 0, 2: 28}}
    assert of_partitions(only(s.commit("tool", {"t": {1: 9}}))) == {"t": {1: 0}}, "not one more"
    s.delete_offsets({"t": [0]})
    assert of_partitions(only(s.commit("tool", {"u": {0: 1}}))) == {"u": {0: 0}}


def test_most_bytes_of_a_groups_offsets():
    s = Scenario(max_group_bytes=1_000)
    large, small = {"committed_offset": 1, "committed_metadata": "x" * 500}, 1
    assert of_partitions(only(s.commit("tool", {"t": {0: large, 1: large, 2: small}}))) == {
        "t": {0: 0, 1: 28, 2: 0}
    }
    assert of_partitions(only(s.commit("tool", {"t": {2: large}}))) == {"t": {2: 28}}
    assert of_partitions(only(s.commit("tool", {"t": {0: small, 1: large}}))) == {"t": {0: 0, 1: 0}}
    answer = only(s.send("offset_fetch", "admin"))
    assert len(msgspec.json.encode(answer)) < 1_000 + 200


def test_a_commit_may_fill_the_group_to_the_last_byte():
    def offset(metadata: str) -> dict[str, object]:
        return {"t": {0: {"committed_offset": 1, "committed_metadata": metadata}}}

    s = Scenario()
    s.commit("tool", offset("mm"))
    held = CommittedOffsets(s.group.offsets).bytes_held
    full = Scenario(max_group_bytes=held)
    for metadata, code in [("mmm", 28), ("mm", 0), ("mmm", 28), ("nn", 0)]:
        assert of_partitions(only(full.commit("tool", offset(metadata)))) == {"t": {0: code}}


def test_a_group_over_a_new_limit_may_still_go_on():
    s = Scenario()
    s.commit("tool", ONE)
    lowered = Scenario(max_group_bytes=1)
    lowered.state = s.state
    assert of_partitions(only(lowered.commit("tool", {"t": {0: 6}}))) == {"t": {0: 0}}
    assert of_partitions(only(lowered.commit("tool", {"t": {1: 6}}))) == {"t": {1: 28}}


# -- versions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 10])
def test_unknown_version(version):
    s = Scenario()
    reply = only(s.commit("tool", ONE, api_version=version))
    assert (reply.error, reply.error_message) == (
        "UNSUPPORTED_VERSION",
        "versions 2 to 9 are supported - at `$.api_version`",
    )
    assert s.state is None


@pytest.mark.parametrize(("version", "epoch"), [(5, -1), (6, 3)])
def test_leader_epoch_came_with_version_6(version, epoch):
    s = Scenario()
    s.commit("tool", {"t": {0: {"committed_offset": 5, "committed_leader_epoch": 3}}}, api_version=version)
    assert s.fetch() == {"t": {0: (5, epoch, "")}}


@pytest.mark.parametrize(("version", "error"), [(6, "UNSUPPORTED_VERSION"), (7, "NONE")])
def test_static_members_came_with_version_7(version, error):
    s = Scenario()
    s.static("c1")
    s.stabilise("c1")
    assert errors(s.commit("c1", ONE, api_version=version)) == {"c1": error}


# -- what is told ----------------------------------------------------------------------------------


def test_event():
    s = stable_group()
    s.at(1_000)
    topics = {"t": {0: {"committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": "m"}}}
    s.commit("c1", topics | {"u": {0: {"committed_offset": 5, "committed_metadata": "x" * 5_000}}})
    (event,) = s.happened("offsets_committed")
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": 3, "metadata": "m"}
    assert event == {
        "event": "offsets_committed",
        "event_id": f"requests-0-{len(s.log) - 1}-0",
        "at_ms": 1_000,
        "group_id": GROUP,
        "generation_id": 1,
        "request_id": f"c1-{len(s.log) - 1}",
        "member_id": s.ids["c1"],
        "client_id": "c1",
        "topics": [{"name": "t", "partitions": [partition]}],
    }


def test_the_event_has_the_id_of_a_topic_that_a_commit_gave():
    s = Scenario()
    one = {"partitions": [{"partition_index": 0, "committed_offset": 5}]}
    s.send("offset_commit", "tool", topics=[{"name": "t", "topic_id": "A", **one}, {"name": "u", **one}])
    (event,) = s.happened("offsets_committed")
    assert [(each["name"], each.get("topic_id")) for each in event["topics"]] == [("t", "A"), ("u", None)]


def test_published():
    s = Scenario()
    s.at(1_000)
    s.commit("tool", {"t": {3: {"committed_offset": 5, "committed_metadata": "m"}}})
    s.commit("tool", {"t": {3: {"committed_offset": 6, "committed_leader_epoch": 1}}})
    assert s.published() == {
        (GROUP, "t", 3): {
            "group_id": GROUP,
            "topic": "t",
            "partition": 3,
            "committed_offset": 6,
            "committed_leader_epoch": 1,
            "metadata": "",
            "commit_timestamp_ms": 1_000,
            "expire_timestamp_ms": None,
        }
    }


def test_the_groups_picture_stays_as_it_is():
    s = stable_group()
    before = s.outputs.copy()
    s.commit("c1", ONE)
    assert {output.channel.value for output in s.outputs[len(before) :]} == {"responses", "offsets", "events"}


def test_nothing_named_is_granted_unseen():
    s = Scenario()
    assert errors(s.commit("tool", {})) == {"tool": "NONE"}
    reply = only(s.commit("tool", {"t": {}}, generation_id=7, member_id="nobody"))
    assert (reply.error, of_partitions(reply)) == ("NONE", {"t": {}})
    assert s.state is None
