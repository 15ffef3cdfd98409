"""OffsetCommit, case by case."""

from __future__ import annotations

import msgspec
import pytest

from tests.coordinator_state.scenario import GROUP, Scenario, errors, of_partitions, only

ONE = {"t": {0: 5}}


def in_state(state: str, protocol_type: str = "consumer") -> Scenario:
    """Make a group in `state` with the member c1, or, if it is Empty, without."""
    s = Scenario()
    if state == "Stable":
        s.form("c1", protocol_type=protocol_type)
        s.sync("c1", protocol_type=protocol_type)
    else:
        s.form("c1", protocol_type=protocol_type)
        if state == "Empty":
            s.leave("c1")
        elif state == "PreparingRebalance":
            s.sync("c1", protocol_type=protocol_type)
            s.join("c2", protocol_type=protocol_type)
    assert s.group.state == state
    return s


def test_member_in_stable():
    s = in_state("Stable")
    reply = only(s.commit("c1", {"t": {0: 5, 2: 7}, "u": {1: 0}}))
    assert (reply.error, of_partitions(reply)) == ("NONE", {"t": {0: 0, 2: 0}, "u": {1: 0}})
    assert s.fetch() == {"t": {0: (5, -1, ""), 2: (7, -1, "")}, "u": {1: (0, -1, "")}}


def test_newer_commit_replaces_older():
    s = in_state("Stable")
    s.commit(
        "c1", {"t": {0: {"committed_offset": 5, "committed_leader_epoch": 3, "committed_metadata": "m"}}}
    )
    assert s.fetch() == {"t": {0: (5, 3, "m")}}
    s.commit("c1", {"t": {0: 4}})
    assert s.fetch() == {"t": {0: (4, -1, "")}}


def test_partition_named_twice_is_committed_twice():
    s = in_state("Stable")
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": n} for n in (1, 2)]}]
    reply = only(s.send("offset_commit", "c1", topics=topics, member_id=s.ids["c1"], generation_id=1))
    assert [each.error_code for each in reply.topics[0].partitions] == [0, 0]
    assert s.fetch() == {"t": {0: (2, -1, "")}}


# -- who may ---------------------------------------------------------------------------------------


def test_absent_group_becomes_a_simple_one():
    s = Scenario()
    reply = only(s.commit("tool", ONE))
    assert of_partitions(reply) == {"t": {0: 0}}
    assert (s.group.state, s.group.protocol_type) == ("Empty", None)
    assert [event["event"] for event in s.events] == ["group_created", "offsets_committed"]
    assert s.picture()["state"] == "Empty"


@pytest.mark.parametrize(("version", "error"), [(8, "ILLEGAL_GENERATION"), (9, "GROUP_ID_NOT_FOUND")])
def test_absent_group_and_a_generation(version, error):
    s = Scenario()
    reply = only(s.commit("c1", ONE, generation_id=0, member_id="m", api_version=version))
    assert reply.error == error
    assert of_partitions(reply) == {"t": {0: reply.error_code}}, "the error of each partition, too"
    assert s.state is None


def test_empty_group_takes_commits_without_generation_from_anybody():
    s = in_state("Empty")
    assert errors(s.commit("c9", ONE, member_id="nobody", group_instance_id="nobody", generation_id=-1)) == {
        "c9": "NONE"
    }


def test_empty_group_and_a_generation():
    s = in_state("Empty")
    assert errors(s.commit("c1", ONE)) == {"c1": "UNKNOWN_MEMBER_ID"}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_no_commits_without_generation_while_there_are_members(state):
    s = in_state(state)
    assert errors(s.commit("tool", ONE)) == {"tool": "UNKNOWN_MEMBER_ID"}
    assert errors(s.commit("c1", ONE, generation_id=-1)) == {"c1": "ILLEGAL_GENERATION"}
    assert s.fetch() == {}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_not_a_member(state):
    s = in_state(state)
    assert errors(s.commit("c1", ONE, member_id="nobody")) == {"c1": "UNKNOWN_MEMBER_ID"}
    assert errors(s.commit("c1", ONE, group_instance_id="nobody")) == {"c1": "UNKNOWN_MEMBER_ID"}
    assert s.fetch() == {}


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
@pytest.mark.parametrize("generation", [0, 2])
def test_other_generation(state, generation):
    s = in_state(state)
    assert errors(s.commit("c1", ONE, generation_id=generation)) == {"c1": "ILLEGAL_GENERATION"}
    assert s.fetch() == {}


def test_pending_id_is_no_members_yet():
    s = in_state("Stable")
    s.ask("c2")
    assert errors(s.commit("c2", ONE, generation_id=1)) == {"c2": "UNKNOWN_MEMBER_ID"}


def test_not_before_the_sync():
    s = in_state("CompletingRebalance")
    reply = only(s.commit("c1", ONE))
    assert (reply.error, of_partitions(reply)) == ("REBALANCE_IN_PROGRESS", {"t": {0: 27}})
    assert s.fetch() == {}


def test_the_old_generation_may_still_commit_while_a_join_phase_runs():
    s = in_state("PreparingRebalance")
    assert errors(s.commit("c1", ONE)) == {"c1": "NONE"}
    assert s.fetch() == {"t": {0: (5, -1, "")}}


def test_fenced_static_member():
    s = Scenario()
    s.static("c1")
    s.stabilise("c1")
    s.restart("c1", "c1-again")
    assert errors(s.commit("c1", ONE)) == {"c1": "FENCED_INSTANCE_ID"}
    assert errors(s.commit("c1-again", ONE)) == {"c1-again": "NONE"}


# -- sessions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["PreparingRebalance", "Stable"])
def test_commits_keep_the_session(state):
    s = in_state(state)
    s.at(9_000)
    s.commit("c1", ONE)
    assert s.session_deadline("c1") == 19_000
    s.at(10_000)
    s.commit("c1", {"t": {0: {"committed_offset": 5, "committed_metadata": "x" * 5_000}}})
    assert s.session_deadline("c1") == 20_000, "too large metadata is a sign of life as well"


def test_a_refused_commit_keeps_no_session():
    s = in_state("Stable")
    s.at(9_000)
    s.commit("c1", ONE, generation_id=0)
    assert s.session_deadline("c1") == 10_000


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


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("x" * 4_096, 0),
        ("x" * 4_097, 12),
        ("é" * 4_096, 0),
        ("\N{GRINNING FACE}" * 2_048, 0),
        ("\N{GRINNING FACE}" * 2_048 + "x", 12),
    ],
    ids=["limit", "over", "two bytes each", "two units each", "two units each, over"],
)
def test_metadata_has_a_limit(metadata, code):
    s = Scenario()
    with_it = {"committed_offset": 1, "committed_metadata": metadata}
    reply = only(s.commit("tool", {"t": {0: with_it, 1: 2}}))
    assert (reply.error, of_partitions(reply)) == ("NONE", {"t": {0: code, 1: 0}})
    assert s.fetch() == {"t": {1: (2, -1, "")} if code else {0: (1, -1, metadata), 1: (2, -1, "")}}


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
    s = in_state("Stable")
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
    s = in_state("Stable")
    before = s.outputs.copy()
    s.commit("c1", ONE)
    assert {output.channel.value for output in s.outputs[len(before) :]} == {"responses", "offsets", "events"}


def test_nothing_named_is_granted_unseen():
    s = Scenario()
    assert errors(s.commit("tool", {})) == {"tool": "NONE"}
    reply = only(s.commit("tool", {"t": {}}, generation_id=7, member_id="nobody"))
    assert (reply.error, of_partitions(reply)) == ("NONE", {"t": {}})
    assert s.state is None
