"""DescribeGroup in every state, and that the picture of a group says the same."""

from __future__ import annotations

import msgspec
import pytest

from group_coordinator.coordinator_state.step import Channel
from tests.coordinator_state.scenario import Scenario, only


def describe(s: Scenario, **fields):
    return only(s.send("describe_group", "admin", **fields))


def group_in(state: str) -> Scenario:
    """c1 leads and c2 follows, whose instance id is C2; they were Stable before, but in Empty."""
    s = Scenario()
    s.static("c2")
    s.stabilise("c1", "c2", protocols={"range": b"topics"}, client_host="10.0.0.7")
    if state == "Empty":
        s.leave("c1", "c2")
    elif state != "Stable":
        s.join("c1", protocols={"range": b"topics"}, client_host="10.0.0.7")
    if state == "CompletingRebalance":
        s.join("c2", protocols={"range": b"topics"}, client_host="10.0.0.7")
    assert s.group.state == state
    return s


STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]

# -- a group that is not there ---------------------------------------------------------------------


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


@pytest.mark.parametrize("state", STATES)
def test_question_changes_nothing(state):
    s = group_in(state)
    s.at(1_000)
    describe(s)
    before, deadline = s.state, s.deadline
    s.outputs.clear()
    describe(s)
    assert (s.state, s.deadline) == (before, deadline)
    assert [output.channel for output in s.outputs] == [Channel.RESPONSES]


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
    assert {it.client_host for it in reply.members} <= {"10.0.0.7"}
    if state == "Stable":
        assert picture["protocol_name"] == reply.protocol_data


def test_picture_follows_a_static_member_to_its_new_id():
    s = group_in("Stable")
    s.restart("c2")
    reply = describe(s)
    assert [it["member_id"] for it in s.picture()["members"]] == [it.member_id for it in reply.members]
    assert s.ids["c2"] in [it.member_id for it in reply.members]
