"""SyncGroup, case by case."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import OLD, Scenario, errors, only


def test_absent_group():
    s = Scenario()
    s.ids["c1"] = "gone"
    assert errors(s.sync("c1")) == {"c1": "UNKNOWN_MEMBER_ID"}
    assert s.state is None


def test_empty_group():
    s = Scenario()
    s.form("c1")
    s.leave("c1")
    assert errors(s.sync("c1")) == {"c1": "UNKNOWN_MEMBER_ID"}


@pytest.mark.parametrize("member_id", ["nobody", ""])
def test_id_that_is_not_a_members(member_id):
    s = Scenario()
    s.form("c1")
    assert errors(s.sync("c1", member_id=member_id)) == {"c1": "UNKNOWN_MEMBER_ID"}


def test_pending_id_is_no_members_yet():
    s = Scenario()
    s.form("c1")
    s.ask("c2")
    assert errors(s.sync("c2", generation_id=1)) == {"c2": "UNKNOWN_MEMBER_ID"}


@pytest.mark.parametrize("generation", [-1, 0, 1, 3, 2**31 - 1])
@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_other_generation(state, generation):
    s = Scenario()
    s.form("c1", "c2")
    if state != "CompletingRebalance":
        s.sync("c1")
    if state == "PreparingRebalance":
        s.join("c1")
    before = s.state
    # The generation comes before the state: who is of an older one must join whatever goes on.
    assert errors(s.sync("c2", generation_id=generation)) == {"c2": "ILLEGAL_GENERATION"}
    assert s.state == before


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
def test_other_protocol(fields):
    s = Scenario()
    s.form("c1")
    before = s.state
    assert errors(s.sync("c1", **fields)) == {"c1": "INCONSISTENT_GROUP_PROTOCOL"}
    assert s.state == before


@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {"protocol_name": "sticky"}])
@pytest.mark.parametrize("version", range(5))
def test_protocol_is_not_read_before_version_5(version, fields):
    s = Scenario()
    s.form("c1")
    assert errors(s.sync("c1", api_version=version, **fields)) == {"c1": "NONE"}


def test_other_protocol_comes_before_the_state():
    s = Scenario()
    s.form("c1", "c2")
    s.leave("c2")
    assert s.group.state == "PreparingRebalance"
    assert errors(s.sync("c1", protocol_name="sticky")) == {"c1": "INCONSISTENT_GROUP_PROTOCOL"}


def test_protocol_is_none_before_the_first_generation():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    assert s.group.protocol_name is None
    assert errors(s.sync("c1", generation_id=0)) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert errors(s.sync("c1", generation_id=0, protocol_type="connect")) == {
        "c1": "INCONSISTENT_GROUP_PROTOCOL"
    }


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
@pytest.mark.parametrize("version", range(6))
def test_protocol_must_be_named_since_version_5(version, missing):
    s = Scenario()
    s.form("c1")
    expected = "INCONSISTENT_GROUP_PROTOCOL" if version >= 5 else "NONE"
    assert errors(s.sync("c1", api_version=version, **{missing: None})) == {"c1": expected}


@pytest.mark.parametrize("version", range(6))
def test_protocol_is_told_since_version_5(version):
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c2", api_version=version)
    for reply in s.sync("c1", api_version=version):
        told = ("consumer", "range") if version >= 5 else (None, None)
        assert (reply.protocol_type, reply.protocol_name) == told


def test_shape_of_a_refusal():
    s = Scenario()
    s.form("c1")
    reply = only(s.sync("c1", generation_id=7))
    assert (reply.error_code, reply.protocol_type, reply.protocol_name, reply.assignment) == (
        22,
        None,
        None,
        b"",
    )


def test_preparing_rebalance():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1")
    assert errors(s.sync("c2")) == {"c2": "REBALANCE_IN_PROGRESS"}


def test_follower_waits_for_the_leader():
    s = Scenario()
    s.form("c1", "c2", "c3")
    assert s.sync("c3") == []
    assert s.sync("c2") == []
    replies = s.sync("c1", {"c1": b"1", "c2": b"2", "c3": b"3"})
    assert {reply.client_id: reply.assignment for reply in replies} == {"c1": b"1", "c2": b"2", "c3": b"3"}
    assert s.group.state == "Stable"


def test_assignments_of_a_follower_are_not_read():
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c2", {"c2": b"everything"})
    replies = s.sync("c1", {"c1": b"1"})
    assert {reply.client_id: reply.assignment for reply in replies} == {"c1": b"1", "c2": b""}


def test_leader_may_assign_nothing():
    s = Scenario()
    s.form("c1")
    reply = only(s.sync("c1"))
    assert (reply.error, reply.assignment) == ("NONE", b"")
    assert s.group.state == "Stable"
    assert errors(s.heartbeat("c1")) == {"c1": "NONE"}


def test_assignment_of_a_stranger_is_ignored():
    s = Scenario()
    s.form("c1")
    s.ids["stranger"] = "nobody"
    s.sync("c1", {"c1": b"1", "stranger": b"2"})
    (event,) = s.happened("assignment_propagated")
    assert event["assignments"] == [{"member_id": s.ids["c1"], "assignment": "MQ=="}]
    assert event["generation_id"] == 1


def test_follower_after_the_leader_is_answered_at_once():
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c1", {"c2": b"2"})
    s.at(4_000)
    assert only(s.sync("c2")).assignment == b"2"
    # It may have been told late, and its first heartbeat is due a while from now.
    assert s.session_deadline("c2") == 14_000


def test_leaders_second_sync_changes_nothing():
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c1", {"c1": b"first"})
    assert only(s.sync("c1", {"c1": b"second"})).assignment == b"first"
    assert len(s.happened("assignment_propagated")) == 1


def test_sync_that_is_repeated_while_parked_is_answered_once_to_the_newest():
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c2")
    s.sync("c2")
    newest = s.log[-1]
    replies = [reply for reply in s.sync("c1") if reply.client_id == "c2"]
    assert only(replies).request_id.encode() in (newest.value or b"")


def test_version_of_the_parked_sync_decides_its_answer():
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c2", api_version=0)
    leader, follower = s.sync("c1")
    assert (leader.protocol_name, follower.protocol_name) == ("range", None)


def test_parked_sync_is_refused_when_a_member_joins():
    s = Scenario(OLD)
    s.form("c1", "c2")
    s.at(5_000)
    assert s.sync("c2") == []
    assert errors(s.join("c3")) == {"c2": "REBALANCE_IN_PROGRESS"}
    # Its session begins again with the answer.
    assert s.session_deadline("c2") == 15_000


def test_assignment_of_an_interrupted_sync_phase_is_forgotten():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1")
    s.join("c2")
    # From Stable the old assignment is still shown in the sync phase, as by Kafka ...
    assert s.member("c1").assignment == b"c1"
    s.join("c3")
    # ... and gone once that is interrupted.
    assert s.member("c1").assignment == b""


def test_parked_sync_of_a_member_that_leaves_is_not_answered():
    # Kafka does the same: its sender has left.
    s = Scenario()
    s.form("c1", "c2")
    s.sync("c2")
    replies = s.leave("c2")
    assert [reply.__struct_config__.tag for reply in replies] == ["leave_group"]
