"""Static members (KIP-345): a program that starts again goes on as the member it was."""

from __future__ import annotations

import msgspec
import pytest

from tests.coordinator_state.scenario import GROUP, Scenario, errors, only

STATES = ["PreparingRebalance", "CompletingRebalance", "Stable"]
# A join phase ends before these sessions do.
LONG = {"session_timeout_ms": 59_000, "rebalance_timeout_ms": 20_000}


def static_group(state: str = "Stable", *clients: str, **config: int) -> Scenario:
    """c1 leads; in PreparingRebalance c2 has joined again and the others have not."""
    clients = clients or ("c1", "c2")
    s = Scenario(**config)
    s.static(*clients)
    if state == "CompletingRebalance":
        s.form(*clients)
    else:
        s.stabilise(*clients)
    if state == "PreparingRebalance":
        s.join("c2", protocols={"range": b"new"})
    assert s.group.state == state
    return s


def left(reply) -> list[tuple[str | None, int]]:
    return [(member.group_instance_id, member.error_code) for member in reply.members]


def absent_static_group(**fields: int) -> Scenario:
    """A join phase for which only c1 is left, which does not come; c2 was taken out at 0."""
    s = Scenario()
    s.static("c1", "c2")
    s.stabilise("c1", "c2", **(LONG | fields))
    s.leave("admin", members=[{"group_instance_id": "C2"}])
    assert s.group.state == "PreparingRebalance"
    return s


# -- the first start -------------------------------------------------------------------------------


def test_ids_begin_with_the_instance_id_and_differ_at_each_start():
    s = static_group()
    ids = [s.ids["c1"]]
    for _ in range(5):
        ids.append(only(s.restart("c1")).member_id)
        assert list(s.group.static_members.values()).count(ids[-1]) == 1
    assert len(set(ids)) == 6
    assert all(member_id.startswith("C1-") for member_id in ids)


def test_pending_id_does_not_become_a_static_members_and_stays_usable():
    s = Scenario()
    s.form("c1")
    s.ask("c2")
    before = s.state
    reply = only(s.ask("c2", group_instance_id="C2"))
    # Kafka takes this for a fault of its own.
    assert (reply.error, reply.error_code, reply.member_id) == ("UNKNOWN_SERVER_ERROR", -1, "")
    expected = "this member id was given to a dynamic member - at `$.group_instance_id`"
    assert reply.error_message == expected
    assert s.state == before
    assert s.ask("c2") == []
    assert s.member("c2").group_instance_id is None


# -- a restart in Stable ---------------------------------------------------------------------------


def test_restart_takes_over_the_new_timeouts():
    s = static_group()
    for client in ("c2", "c1"):
        s.restart(client, session_timeout_ms=20_000, rebalance_timeout_ms=120_000)
    assert {(it.session_timeout_ms, it.rebalance_timeout_ms) for it in s.group.members.values()} == {
        (20_000, 120_000)
    }
    shown = {(it["session_timeout_ms"], it["rebalance_timeout_ms"]) for it in s.picture()["members"]}
    assert shown == {(20_000, 120_000)}


def test_restart_is_shown_where_the_program_runs_now():
    s = static_group()
    s.restart("c2", "d2", client_host="10.0.0.8")
    shown = {it["group_instance_id"]: (it["client_id"], it["client_host"]) for it in s.picture()["members"]}
    assert shown == {"C1": ("c1", ""), "C2": ("d2", "10.0.0.8")}


def test_restart_before_the_sync_is_not_waited_for():
    # Kafka waits for the old id, which nobody has any more.
    s = static_group("CompletingRebalance")
    s.sync("c1", {"c2": b"2"})
    assert s.group.sync_deadline_ms is not None
    s.restart("c2")
    assert (s.group.num_pending_sync, s.group.sync_deadline_ms) == (0, None)
    assert only(s.sync("c2")).assignment == b"2"


def test_restart_was_told_of_its_generation():
    # So a heartbeat of another one is no sign that the answer is still on its way.
    s = static_group("CompletingRebalance")
    s.sync("c1")
    s.restart("c2")
    s.at(5_000)
    assert errors(s.heartbeat("c2", generation_id=1)) == {"c2": "ILLEGAL_GENERATION"}
    assert s.session_deadline("c2") == 10_000


def test_member_fenced_tells_of_both_runs():
    s = static_group()
    old, added = s.ids["c2"], len(s.happened("member_added"))
    s.restart("c2", "d2", client_host="10.0.0.8", reason="the pod was moved")
    (event,) = s.happened("member_fenced")
    assert event | {"event_id": "", "at_ms": 0} == {
        "event": "member_fenced",
        "event_id": "",
        "at_ms": 0,
        "group_id": GROUP,
        "generation_id": 2,
        "request_id": f"d2-{len(s.log) - 1}",
        "member_id": old,
        "group_instance_id": "C2",
        "replaced_by": s.ids["d2"],
        "client_id": "d2",
        "client_host": "10.0.0.8",
        "client_reason": "the pod was moved",
    }
    # It was a member all the time.
    assert (len(s.happened("member_added")), s.removed()) == (added, [])


def test_restart_that_offers_the_same_does_not_decide_a_tie_anew():
    s = Scenario()
    s.static("c1", "c2")
    for client, protocols in (("c1", {"a": b"", "b": b""}), ("c2", {"b": b"", "a": b""})):
        s.join(client, protocols=protocols)
    s.join("c1", protocols={"a": b"", "b": b""})
    s.sync("c1", protocol_name="a")
    assert (s.group.state, s.group.protocol_name) == ("Stable", "a")
    # Now c2 has been in longest, and its wish would be counted first.
    assert errors(s.restart("c1", protocols={"a": b"new", "b": b""})) == {"c1": "NONE"}
    assert s.group.state == "Stable"


# -- a restart in CompletingRebalance --------------------------------------------------------------


def test_restart_in_the_sync_phase_says_why():
    s = static_group("CompletingRebalance")
    old = s.ids["c2"]
    s.restart("c2")
    (event,) = s.happened("member_fenced")
    reason = s.happened("state_changed")[-1]["reason"]
    assert reason == f"{event['replaced_by']} replaced {old}"


# -- a join phase in which nobody has joined -------------------------------------------------------


def test_join_phase_to_which_nobody_came_is_postponed():
    s = absent_static_group()
    generation = s.group.generation_id
    assert s.at(20_000) == []
    (event,) = s.happened("rebalance_postponed")
    assert (event["at_ms"], event["until_ms"]) == (20_000, 40_000)
    assert (s.group.state, s.group.generation_id) == ("PreparingRebalance", generation)
    assert s.group.join_deadline_ms == 40_000
    assert s.group.static_members == {"C1": s.ids["c1"]}


@pytest.mark.parametrize(
    ("config", "timeouts", "step_ms"),
    [
        ({}, {"session_timeout_ms": 59_000, "rebalance_timeout_ms": 0}, 6_000),
        ({}, {"session_timeout_ms": 59_000, "rebalance_timeout_ms": -1}, 6_000),
        ({}, {"session_timeout_ms": 59_000, "rebalance_timeout_ms": 5_999}, 6_000),
        (
            {"group_min_session_timeout_ms": 0},
            {"session_timeout_ms": 10, "rebalance_timeout_ms": 0},
            1,
        ),
    ],
    ids=["none", "negative", "shorter than any session", "no least session"],
)
def test_postponed_join_phase_never_spins(config, timeouts, step_ms):
    s = Scenario(**config)
    s.static("c1", "c2")
    s.stabilise("c1", "c2", session_timeout_ms=timeouts["session_timeout_ms"])
    for client in ("c1", "c2"):
        s.restart(client, **timeouts)
    s.leave("c2")
    first, end = max(timeouts["rebalance_timeout_ms"], 0), timeouts["session_timeout_ms"]
    s.at(end - 1)
    expected = list(range(first, end, step_ms))
    assert [event["at_ms"] for event in s.happened("rebalance_postponed")] == expected
    s.at(end)
    assert s.group.state == "Empty"


# -- leaving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_somebody_else_takes_a_static_member_out_by_its_instance_id(state):
    s = static_group(state, "c1", "c2", "c3")
    reply = s.leave("admin", members=[{"group_instance_id": "C1", "reason": "scaled down"}])[-1]
    assert (reply.error, left(reply)) == ("NONE", [("C1", 0)])
    assert reply.members[0].member_id == "", "the ids are echoed as they were sent"
    (event,) = s.happened("member_removed")
    assert (event["member_id"], event["group_instance_id"]) == (s.ids["c1"], "C1")
    assert (event["reason"], event["client_reason"]) == ("left", "scaled down")
    assert sorted(s.group.static_members) == ["C2", "C3"]
    assert s.states()[-1] == "PreparingRebalance"
    if state != "PreparingRebalance":
        assert s.reasons()[-1] == "C1 left: scaled down"


# -- group.max.size --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("client", ["c1", "c2"])
def test_full_group_takes_back_a_static_member_that_starts_again(state, client):
    # Kafka refuses it: its place is free for nobody else, though.
    s = static_group(state, group_max_size=2)
    replies = s.restart(client, "new")
    assert "GROUP_MAX_SIZE_REACHED" not in {reply.error for reply in replies}
    assert s.member("new").group_instance_id == client.upper()
    assert len(s.group.members) == 2


def test_group_that_is_too_large_puts_out_a_static_member_that_starts_too_late():
    s = static_group("Stable", "c1", "c2", "c3")
    # The limit was lowered over a restart.
    s.config = msgspec.structs.replace(s.config, group_max_size=2)
    s.join("c1")
    s.join("c2")
    refused = {reply.client_id: reply for reply in s.restart("c3")}["c3"]
    assert (refused.error, refused.member_id) == ("GROUP_MAX_SIZE_REACHED", "")
    assert s.removed() == [("c3", "group_full")]
    assert sorted(s.group.static_members) == ["C1", "C2"]


# -- reasons (KIP-800) -----------------------------------------------------------------------------


def test_reason_of_a_restart_that_begins_a_rebalance_is_told():
    s = static_group("CompletingRebalance")
    old = s.ids["c2"]
    s.restart("c2", reason="a new release")
    reason = s.happened("state_changed")[-1]["reason"]
    assert reason.endswith(f" replaced {old}: a new release")


# -- a join that is in the log twice, or has the request id of an earlier run ----------------------


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_join_that_is_in_the_log_twice_counts_once_and_is_answered(state):
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.ask("c1", member_id="", group_instance_id="i1")
    joined = s.log[-1].value
    if state != "PreparingRebalance":
        s.wait(3_000)
    if state == "Stable":
        s.sync("c1", group_instance_id="i1")
    assert s.group.state == state
    before, events = s.group.members, list(s.events)
    replies = s.put(joined)
    assert [each.member_id for each in replies] == ([] if state == "PreparingRebalance" else [*before])
    assert (s.group.members, s.events) == (before, events)


def test_restart_that_is_in_the_log_twice_counts_once():
    s = Scenario()
    s.ask("c1", member_id="", group_instance_id="i1")
    s.sync("c1", group_instance_id="i1")
    (reply,) = s.ask("c1", member_id="", group_instance_id="i1")
    assert [each.member_id for each in s.put(s.log[-1].value)] == [reply.member_id]
    assert errors(s.heartbeat("c1", member_id=reply.member_id, group_instance_id="i1")) == {"c1": "NONE"}


@pytest.mark.parametrize("version", [8, 9])
def test_leader_whose_restart_is_in_the_log_twice_is_told_twice_to_divide_nothing(version):
    s = static_group()
    (first,) = s.restart("c1", api_version=version)
    (again,) = s.put(s.log[-1].value)
    assert again.error == "NONE"
    assert (again.member_id, again.generation_id) == (first.member_id, first.generation_id)
    assert [it.leader == it.member_id and not it.skip_assignment for it in (first, again)] == [False, False]
    assert [len(it.members) for it in (first, again)] == ([2, 2] if version == 9 else [0, 0])


def test_a_program_that_uses_its_request_ids_again_is_answered_in_the_next_generation():
    s = Scenario()
    s.ask("c1", member_id="", group_instance_id="i1", request_id="1")
    s.sync("c1", group_instance_id="i1")
    s.join("c2")
    assert s.group.state == "PreparingRebalance"
    replies = s.ask("c1", member_id="", group_instance_id="i1", request_id="1")
    assert errors(replies) == {"c1": "NONE", "c2": "NONE"}


def test_same_request_id_of_another_client_is_another_request():
    s = Scenario()
    s.ask("c1", member_id="", group_instance_id="i1", request_id="1")
    s.sync("c1", group_instance_id="i1")
    (reply,) = s.ask("c2", member_id="", group_instance_id="i1", request_id="1")
    assert (reply.error, list(s.group.members)) == ("NONE", [reply.member_id])
    assert reply.member_id != s.ids["c1"]
