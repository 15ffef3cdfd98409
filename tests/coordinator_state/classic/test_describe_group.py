"""DescribeGroup in every state, and that the picture of a group says the same."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, step
from tests.coordinator_state.scenario import Scenario, errors, only

TEN_MINUTES = 600_000


def describe(s: Scenario, **fields):
    return only(s.send("describe_group", "admin", **fields))


def summary(described) -> tuple[str, str, str, int, str]:
    return (
        described.group_state,
        described.protocol_type,
        described.protocol_data,
        described.generation_id,
        described.leader,
    )


def shown(described) -> list[tuple[str, bytes, bytes]]:
    return [(it.client_id, it.member_metadata, it.member_assignment) for it in described.members]


def group_in(state: str) -> Scenario:
    """c1 leads and c2 follows, whose instance id is C2; they were Stable before, but in Empty."""
    s = Scenario()
    s.static("c2")
    s.stabilise("c1", "c2", protocols={"range": b"topics"})
    if state == "Empty":
        s.leave("c1", "c2")
    elif state != "Stable":
        s.join("c1", protocols={"range": b"topics"})
    if state == "CompletingRebalance":
        s.join("c2", protocols={"range": b"topics"})
    assert s.group.state == state
    return s


STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]

# -- a group that is not there ---------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_absent_group_is_a_dead_one_before_version_6(version):
    s = Scenario()
    reply = describe(s, api_version=version)
    assert (reply.error, reply.error_message) == ("NONE", None)
    assert (summary(reply), reply.members) == (("Dead", "", "", -1, ""), [])
    assert s.state is None


@pytest.mark.parametrize("version", [6, ...])
def test_absent_group_is_not_found_since_version_6(version):
    s = Scenario()
    reply = describe(s, api_version=version)
    assert (reply.error, reply.error_code) == ("GROUP_ID_NOT_FOUND", 69)
    assert reply.error_message == "Group orders not found."
    assert (summary(reply), reply.members) == (("Dead", "", "", -1, ""), [])
    assert s.state is None


def test_deleted_group_is_absent():
    s = group_in("Empty")
    s.at(TEN_MINUTES)
    assert describe(s).error == "GROUP_ID_NOT_FOUND"
    assert describe(s, api_version=5).group_state == "Dead"


@pytest.mark.parametrize(("version", "error"), [(0, "NONE"), (5, "NONE"), (6, "GROUP_ID_NOT_FOUND")])
def test_group_whose_id_is_empty_may_be_asked_for(version, error):
    request = {
        "api": "describe_group",
        "api_version": version,
        "request_id": "r",
        "client_id": "c",
        "group_id": "",
    }
    record = Record("requests", 0, 0, 0, b"", msgspec.json.encode(request))
    result = step(b"", None, [record], 0, GroupConfig(), b"secret")
    (output,) = result.outputs
    assert msgspec.json.decode(output.value)["error"] == error
    assert result.state is None


@pytest.mark.parametrize("version", [-1, 7, 2**31 - 1])
@pytest.mark.parametrize("exists", [False, True])
def test_unsupported_version(version, exists):
    s = group_in("Stable") if exists else Scenario()
    reply = describe(s, api_version=version)
    assert (reply.error, reply.error_message) == (
        "UNSUPPORTED_VERSION",
        "versions 0 to 6 are supported - at `$.api_version`",
    )


# -- a group that is there -------------------------------------------------------------------------


def test_group_that_nobody_has_joined_yet():
    s = Scenario()
    s.ask("c1")
    reply = describe(s)
    # An id that was only given out is no member.
    assert (summary(reply), reply.members) == (("Empty", "", "", 0, ""), [])


def test_empty_group_keeps_its_type():
    reply = describe(group_in("Empty"))
    assert (summary(reply), reply.members) == (("Empty", "consumer", "", 3, ""), [])


def test_initial_join_phase():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.join("c1", protocols={"range": b"topics"})
    reply = describe(s)
    assert summary(reply) == ("PreparingRebalance", "consumer", "", 0, s.ids["c1"])
    assert shown(reply) == [("c1", b"", b"")]


def test_first_sync_phase():
    s = Scenario()
    s.join("c1", protocols={"range": b"topics"})
    reply = describe(s)
    assert summary(reply) == ("CompletingRebalance", "consumer", "", 1, s.ids["c1"])
    assert shown(reply) == [("c1", b"", b"")]


def test_later_join_phase_still_shows_the_last_assignment():
    s = group_in("PreparingRebalance")
    reply = describe(s)
    assert summary(reply) == ("PreparingRebalance", "consumer", "", 2, s.ids["c1"])
    assert shown(reply) == [("c1", b"", b"c1"), ("c2", b"", b"c2")]


def test_sync_phase_after_stable_still_shows_the_last_assignment():
    s = group_in("CompletingRebalance")
    reply = describe(s)
    assert summary(reply) == ("CompletingRebalance", "consumer", "", 3, s.ids["c1"])
    assert shown(reply) == [("c1", b"", b"c1"), ("c2", b"", b"c2")]


def test_interrupted_sync_phase_shows_no_assignment_any_more():
    s = group_in("CompletingRebalance")
    s.join("c2", protocols={"range": b"other"})
    assert shown(describe(s)) == [("c1", b"", b""), ("c2", b"", b"")]


def test_stable_group():
    s = group_in("Stable")
    reply = describe(s)
    assert (reply.error, reply.error_message) == ("NONE", None)
    assert summary(reply) == ("Stable", "consumer", "range", 2, s.ids["c1"])
    assert shown(reply) == [("c1", b"topics", b"c1"), ("c2", b"topics", b"c2")]


def test_subscription_is_the_one_under_the_chosen_protocol():
    s = Scenario()
    s.stabilise("c1", protocols={"range": b"one", "sticky": b"two"})
    assert [it.member_metadata for it in describe(s).members] == [b"one"]


@pytest.mark.parametrize("state", STATES[1:])
def test_member_is_shown_with_its_names(state):
    s = group_in(state)
    assert [
        (it.member_id, it.group_instance_id, it.client_id, it.client_host) for it in describe(s).members
    ] == [(s.ids["c1"], None, "c1", ""), (s.ids["c2"], "C2", "c2", "")]


def test_client_host_is_shown():
    s = Scenario()
    s.stabilise("c1", client_host="10.0.0.7")
    assert [it.client_host for it in describe(s).members] == ["10.0.0.7"]


@pytest.mark.parametrize("state", STATES)
def test_pending_ids_are_not_shown(state):
    s = group_in(state)
    before = describe(s).members
    s.ask("c9")
    assert describe(s).members == before


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("version", range(7))
def test_all_versions_are_told_the_same_of_a_group_that_is_there(version, state):
    s = group_in(state)
    newest, reply = describe(s), describe(s, api_version=version)
    assert (reply.error, summary(reply), shown(reply)) == ("NONE", summary(newest), shown(newest))


@pytest.mark.parametrize("state", STATES)
def test_question_changes_nothing(state):
    s = group_in(state)
    s.at(1_000)
    before, deadline = s.state, s.deadline
    s.outputs.clear()
    describe(s)
    assert (s.state, s.deadline) == (before, deadline)
    assert [output.channel for output in s.outputs] == [Channel.RESPONSES]


def test_question_is_no_sign_of_life():
    s = group_in("Stable")
    s.at(9_999)
    s.send("describe_group", "c1")
    s.at(10_000)
    assert ("c1", "session_expired") in s.removed()


def test_question_at_the_very_deadline_sees_what_it_brought():
    s = group_in("Stable")
    s.at(9_000)
    assert errors(s.heartbeat("c1")) == {"c1": "NONE"}
    s.now = 10_000
    assert [it.client_id for it in describe(s).members] == ["c1"]


# -- the picture -----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_picture_equals_the_description(state):
    s = group_in(state)
    picture = s.picture()
    reply = describe(s)
    assert (
        picture["state"],
        picture["protocol_type"] or "",
        picture["generation_id"],
        picture["leader"] or "",
    ) == (reply.group_state, reply.protocol_type, reply.generation_id, reply.leader)
    own = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
    assert picture["members"] == [it | own for it in msgspec.to_builtins(reply.members)]
    if state == "Stable":
        assert picture["protocol_name"] == reply.protocol_data


def test_picture_follows_a_static_member_to_its_new_id():
    s = group_in("Stable")
    s.restart("c2")
    reply = describe(s)
    assert [it["member_id"] for it in s.picture()["members"]] == [it.member_id for it in reply.members]
    assert s.ids["c2"] in [it.member_id for it in reply.members]


@pytest.mark.parametrize("version", range(7))
def test_instance_ids_are_told_since_version_4(version):
    s = group_in("Stable")
    told = [member.group_instance_id for member in describe(s, api_version=version).members]
    assert told == [None, "C2" if version >= 4 else None]
