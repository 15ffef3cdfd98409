"""JoinGroup, case by case, in the order in which the checks stand."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import OLD, Scenario, errors, only


def waiting_group() -> Scenario:
    """A join phase in which c2 has joined again, and the leader c1 has not."""
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c2", protocols={"range": b"new"})
    return s


# -- before the group is looked at -----------------------------------------------------------------


@pytest.mark.parametrize("timeout", [-1, 0, 5_999, 1_800_001, 2**31 - 1])
def test_session_timeout_out_of_bounds(timeout):
    s = Scenario()
    reply = only(s.ask("c1", session_timeout_ms=timeout, member_id="mine"))
    assert (reply.error, reply.member_id) == ("INVALID_SESSION_TIMEOUT", "mine")
    assert reply.error_message == "session_timeout_ms must be between 6000 and 1800000"
    assert s.state is None


# -- an absent group -------------------------------------------------------------------------------


def test_unknown_id_makes_no_group_and_no_picture_of_one():
    s = Scenario()
    s.ask("c1", member_id="gone")
    assert (s.state, [output.channel.value for output in s.outputs]) == (None, ["responses"])


def test_no_id_makes_a_group():
    s = Scenario()
    assert errors(s.ask("c1")) == {"c1": "MEMBER_ID_REQUIRED"}
    assert [event["event"] for event in s.events] == ["group_created"]
    assert s.picture()["state"] == "Empty"


# -- group.max.size --------------------------------------------------------------------------------


def test_full_group_in_an_early_generation_refuses_the_next():
    s = Scenario(group_max_size=2)
    s.form("c1", "c2")
    reply = only(s.ask("c3"))
    assert (reply.error, reply.member_id) == ("GROUP_MAX_SIZE_REACHED", "")
    assert reply.error_message == "group.max.size is 2"
    assert s.group.state == "CompletingRebalance"


def test_group_that_is_too_large_shrinks_to_who_is_first():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    # The limit was lowered over a restart.
    s.config = type(s.config)(group_max_size=2)
    assert s.join("c1") == []
    assert s.join("c2") == []
    refused, *answered = s.join("c3")
    assert (refused.error, refused.member_id) == ("GROUP_MAX_SIZE_REACHED", "")
    assert s.removed() == [("c3", "group_full")]
    # Nobody else is waited for. (In Kafka the phase goes on to its deadline.)
    assert errors(answered) == {"c1": "NONE", "c2": "NONE"}


def test_id_that_was_waited_for_and_is_refused_ends_the_join_phase():
    s = Scenario(group_max_size=2)
    s.stabilise("c1", "c2")
    s.leave("c2")
    s.join("c1")
    s.sync("c1")
    s.ask("c3")
    s.join("c4")
    assert s.join("c1") == [], "the id of c3 is waited for"
    assert errors(s.ask("c3")) == {"c3": "GROUP_MAX_SIZE_REACHED", "c4": "NONE", "c1": "NONE"}


def test_leader_that_comes_too_late_for_a_shrinking_group_leads_no_more():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.config = type(s.config)(group_max_size=1)
    assert s.join("c2", protocols={"range": b"new"}) == []
    assert errors(s.join("c1")) == {"c1": "GROUP_MAX_SIZE_REACHED", "c2": "NONE"}
    assert s.group.leader == s.ids["c2"]


# -- the size of subscriptions ---------------------------------------------------------------------


def test_subscriptions_of_a_group_have_a_limit():
    s = Scenario(max_group_bytes=2_000)
    s.stabilise("c1", protocols={"range": b"x" * 1_000})
    reply = only(s.ask("c2", protocols={"range": b"x" * 1_000}))
    assert reply.error == "GROUP_MAX_SIZE_REACHED"
    assert reply.error_message == "the group's subscriptions would be larger than 2000 bytes together"
    assert s.group.pending_members == {}
    assert s.join("c2", protocols={"range": b"x" * 100}) == []


@pytest.mark.parametrize("ask_first", [False, True])
def test_subscription_that_just_fits(ask_first):
    measured = Scenario()
    measured.join("c1")
    size = measured.group.bytes_held
    # Counted with the id that is about to be given out, so that who asks for one may also join with it.
    assert size > len(measured.ids["c1"])
    versions = {} if ask_first else OLD
    assert errors(Scenario(versions, max_group_bytes=size).join("c1")) == {"c1": "NONE"}
    refused = Scenario(versions, max_group_bytes=size - 1).join("c1")
    assert errors(refused) == {"c1": "GROUP_MAX_SIZE_REACHED"}


def test_ids_that_are_given_out_are_room_that_is_promised():
    measured = Scenario()
    measured.join("c0")
    s = Scenario(max_group_bytes=3 * measured.group.bytes_held)
    told = [only(s.ask(f"c{number}", member_id="")).error for number in range(5)]
    assert told == ["MEMBER_ID_REQUIRED"] * 3 + ["GROUP_MAX_SIZE_REACHED"] * 2
    # Who has one may use it.
    assert errors(s.join("c0")) == {"c0": "NONE"}
    assert len(s.group.pending_members) == 2
    # And there is room again when they are not used.
    s.wait(10_000)
    assert only(s.ask("c4", member_id="")).error == "MEMBER_ID_REQUIRED"


@pytest.mark.parametrize("version", [3, 9])
def test_all_names_of_a_member_count(version):
    names = {"client_host": "the-host", "api_version": version}
    if version == 9:
        names["group_instance_id"] = "the-instance"
    measured = Scenario()
    measured.ask("the-client", **names)
    size = measured.group.bytes_held
    assert Scenario(max_group_bytes=size).ask("the-client", **names)[-1].error == "NONE"
    (refused,) = Scenario(max_group_bytes=size - 1).ask("the-client", **names)
    assert refused.error == "GROUP_MAX_SIZE_REACHED"


def test_member_may_replace_its_subscription_up_to_the_limit():
    s = Scenario(max_group_bytes=2_000)
    s.stabilise("c1", protocols={"range": b"x" * 1_000})
    assert errors(s.join("c1", protocols={"range": b"x" * 1_500})) == {"c1": "NONE"}
    before = s.state
    refused = only(s.join("c1", protocols={"range": b"x" * 2_500}))
    assert (refused.error, refused.member_id) == ("GROUP_MAX_SIZE_REACHED", s.ids["c1"])
    assert s.state == before


# -- a first join ----------------------------------------------------------------------------------


def test_id_is_made_of_the_client_id_and_the_place_in_the_log():
    first, second, again = Scenario(), Scenario(), Scenario()
    second.heartbeat("c0", member_id="")
    ids = [only(s.ask("c1")).member_id for s in (first, second, again)]
    assert ids[0] != ids[1], "another place, another id"
    assert ids[0] == ids[2], "a batch that runs again hands out the same id"


def test_member_added_is_told_with_its_client():
    s = Scenario()
    s.static("c1")
    s.join("c1", client_host="10.0.0.7")
    (event,) = s.happened("member_added")
    assert (event["member_id"], event["group_instance_id"]) == (s.ids["c1"], "C1")
    assert (event["client_id"], event["client_host"]) == ("c1", "10.0.0.7")


# -- joining again ---------------------------------------------------------------------------------


def test_join_again_takes_over_the_new_timeouts_and_shows_them():
    s = waiting_group()
    s.join("c2", protocols={"range": b"new"}, session_timeout_ms=20_000, rebalance_timeout_ms=70_000)
    assert (s.member("c2").session_timeout_ms, s.member("c2").rebalance_timeout_ms) == (20_000, 70_000)
    shown = {member["client_id"]: member["session_timeout_ms"] for member in s.picture()["members"]}
    assert shown == {"c1": 10_000, "c2": 20_000}


def test_join_again_that_changes_nothing_writes_no_picture():
    s = waiting_group()
    s.outputs.clear()
    s.join("c2", protocols={"range": b"new"})
    assert s.outputs == []


# -- what a join says ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "given", "expected"),
    [(0, 60_000, 10_000), (1, 60_000, 60_000), (1, None, 10_000), (9, None, 10_000), (1, -1, -1)],
)
def test_rebalance_timeout_of_a_member(version, given, expected):
    s = Scenario()
    s.stabilise("c0")
    # Only version 0 has none; -1 stands as it is, and is not replaced by the session timeout.
    s.join("c1", api_version=version, rebalance_timeout_ms=given)
    by_client = {member.client_id: member.rebalance_timeout_ms for member in s.group.members.values()}
    assert by_client["c1"] == expected


# -- reasons (KIP-800) -----------------------------------------------------------------------------


def test_reason_is_cut_at_255_characters():
    s = Scenario()
    s.stabilise("c1")
    s.join("c1", reason="x" * 300)
    assert s.reasons()[-2] == "c1 leads and joined again: " + "x" * 255


@pytest.mark.parametrize(
    ("given", "expected"),
    [("the pod was scheduled", "the pod was scheduled"), ("x" * 300, "x" * 255), ("", None), (None, None)],
)
def test_reason_is_told_of_who_joined(given, expected):
    s = Scenario()
    s.join("c1", reason=given)
    assert [event["client_reason"] for event in s.happened("member_added")] == [expected]


@pytest.mark.parametrize("version", range(10))
def test_reason_came_with_version_8(version):
    s = Scenario()
    s.join("c1", api_version=version, reason="why")
    (event,) = s.happened("member_added")
    assert event["client_reason"] == ("why" if version >= 8 else None)
    assert s.reasons()[0] == ("c1 joined: why" if version >= 8 else "c1 joined")


def test_request_is_remembered_of_static_members_only():
    s = Scenario()
    s.ask("c1", api_version=3)
    s.ask("c2", group_instance_id="i2", member_id="", request_id="the join")
    dynamic, static = s.group.members.values()
    assert (dynamic.join_request_id, static.join_request_id) == ("", "the join")
