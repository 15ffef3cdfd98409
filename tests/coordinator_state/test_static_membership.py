"""Static members (KIP-345): a program that starts again goes on as the member it was."""

from __future__ import annotations

import msgspec
import pytest

from tests.coordinator_state.scenario import GROUP, Scenario, errors, only

FIVE_MINUTES = 300_000
STATES = ["PreparingRebalance", "CompletingRebalance", "Stable"]
# The versions of join_group that have static members.
VERSIONS = range(5, 10)
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


def instances(reply) -> list[str | None]:
    return [member.group_instance_id for member in reply.members]


def absent_static_group(**fields: int) -> Scenario:
    """A join phase for which only c1 is left, which does not come; c2 was taken out at 0."""
    s = Scenario()
    s.static("c1", "c2")
    s.stabilise("c1", "c2", **(LONG | fields))
    s.leave("admin", members=[{"group_instance_id": "C2"}])
    assert s.group.state == "PreparingRebalance"
    return s


# -- the first start -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_static_member_joins_at_once_whatever_its_version(version):
    s = Scenario()
    s.static("c1")
    reply = only(s.ask("c1", api_version=version))
    assert (reply.error, reply.generation_id, reply.leader) == ("NONE", 1, reply.member_id)
    assert s.group.pending_members == {}


@pytest.mark.parametrize("fields", [{"protocol_type": ""}, {"protocols": {}}])
def test_first_static_member_must_offer_something(fields):
    s = Scenario()
    s.static("c1")
    reply = only(s.ask("c1", **fields))
    assert (reply.error, reply.member_id) == ("INCONSISTENT_GROUP_PROTOCOL", "")
    assert (s.group.members, s.group.static_members) == ({}, {})


def test_unknown_id_with_an_instance_id_makes_no_group():
    s = Scenario()
    s.static("c1")
    reply = only(s.ask("c1", member_id="gone"))
    assert (reply.error, reply.member_id, reply.protocol_type) == ("UNKNOWN_MEMBER_ID", "gone", None)
    assert s.state is None


def test_ids_begin_with_the_instance_id_and_differ_at_each_start():
    s = static_group()
    ids = [s.ids["c1"]]
    for _ in range(5):
        ids.append(only(s.restart("c1")).member_id)
        assert list(s.group.static_members.values()).count(ids[-1]) == 1
    assert len(set(ids)) == 6
    assert all(member_id.startswith("C1-") for member_id in ids)


def test_new_static_member_may_stay_parked_for_five_minutes_whatever_its_session():
    s = Scenario()
    s.stabilise("c1", rebalance_timeout_ms=2 * FIVE_MINUTES)
    s.static("c2")
    s.join("c2")
    while s.now < FIVE_MINUTES - 9_000:
        s.wait(9_000)
        s.heartbeat("c1")
    assert s.at(FIVE_MINUTES - 1) == []
    (reply,) = s.at(FIVE_MINUTES)
    assert (reply.client_id, reply.error, reply.member_id) == ("c2", "UNKNOWN_MEMBER_ID", "")
    assert s.group.static_members == {}


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


@pytest.mark.parametrize("version", range(10))
def test_instance_ids_are_told_to_a_leader_since_version_5(version):
    s = Scenario()
    s.static("c2")
    s.stabilise("c1")
    s.join("c2")
    replies = {reply.client_id: reply for reply in s.join("c1", api_version=version)}
    assert instances(replies["c1"]) == [None, "C2" if version >= 5 else None]


# -- a restart in Stable ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_follower_starts_again_and_nobody_notices(version):
    s = static_group()
    states, old = s.states(), s.ids["c2"]
    reply = only(s.restart("c2", api_version=version))
    assert (reply.error, reply.generation_id, reply.leader) == ("NONE", 2, s.ids["c1"])
    assert (reply.members, reply.skip_assignment) == ([], False)
    assert reply.member_id != old
    assert (reply.protocol_type, reply.protocol_name) == ("consumer" if version >= 7 else None, "range")
    assert s.states() == states
    assert errors(s.heartbeat("c1")) == {"c1": "NONE"}


def test_follower_takes_over_the_assignment_it_had():
    s = static_group()
    s.restart("c2")
    assert only(s.sync("c2")).assignment == b"c2"
    assert errors(s.heartbeat("c2")) == {"c2": "NONE"}


def test_leader_starts_again_and_is_told_to_skip_the_assignment():
    s = static_group()
    states = s.states()
    reply = only(s.restart("c1", api_version=9))
    assert (reply.error, reply.generation_id, reply.skip_assignment) == ("NONE", 2, True)
    assert reply.leader == reply.member_id == s.group.leader
    assert sorted(instances(reply)) == ["C1", "C2"]
    assert s.states() == states
    assert only(s.sync("c1")).assignment == b"c1"


@pytest.mark.parametrize("version", range(5, 9))
def test_leader_of_an_older_version_is_told_that_its_predecessor_leads(version):
    s = static_group()
    old = s.ids["c1"]
    reply = only(s.restart("c1", api_version=version))
    # Were it told that it leads, it would divide the work and nobody would ask for it.
    assert (reply.error, reply.leader, reply.members, reply.skip_assignment) == ("NONE", old, [], False)
    assert s.group.leader == reply.member_id != old
    assert only(s.sync("c1")).assignment == b"c1"


def test_leader_that_has_started_again_may_still_force_a_rebalance():
    s = static_group()
    s.restart("c1")
    assert s.join("c1") == []
    assert s.reasons()[-1] == "c1 leads and joined again"
    follower, leader = s.join("c2")
    assert (leader.generation_id, leader.skip_assignment, follower.leader) == (3, False, s.ids["c1"])
    assert s.told_members(leader) == ["c2", "c1"]


def test_assignment_after_a_restart_is_sent_to_the_new_ids():
    s = static_group()
    s.restart("c1")
    s.restart("c2")
    s.join("c1")
    s.join("c2")
    s.sync("c2")
    replies = s.sync("c1", {"c1": b"new 1", "c2": b"new 2"})
    assert {reply.client_id: reply.assignment for reply in replies} == {"c1": b"new 1", "c2": b"new 2"}


@pytest.mark.parametrize(
    "protocols",
    [{"range": b"new"}, {"range": b"", "sticky": b""}, {"sticky": b"", "range": b""}],
    ids=["other bytes", "one more", "another first"],
)
def test_changed_subscription_under_the_same_protocol_disturbs_nobody(protocols):
    s = static_group()
    states = s.states()
    assert only(s.restart("c2", protocols=protocols)).generation_id == 2
    assert s.states() == states
    assert [(it.name, it.metadata) for it in s.member("c2").protocols] == list(protocols.items())


def test_restart_that_changes_the_chosen_protocol_begins_a_rebalance():
    s = Scenario()
    s.static("c1", "c2")
    s.stabilise("c1", "c2", protocols={"range": b"", "sticky": b""})
    assert s.group.protocol_name == "range"
    old = s.ids["c2"]
    assert s.restart("c2", protocols={"sticky": b""}) == []
    assert s.group.state == "PreparingRebalance"
    assert s.happened("state_changed")[-1]["reason"].endswith(f" replaced {old}")
    replies = s.join("c1", protocols={"range": b"", "sticky": b""})
    assert {reply.client_id: reply.protocol_name for reply in replies} == {"c1": "sticky", "c2": "sticky"}
    assert {reply.generation_id for reply in replies} == {3}
    assert not any(reply.skip_assignment for reply in replies)


def test_restart_takes_over_the_new_timeouts():
    s = static_group()
    for client in ("c2", "c1"):
        s.restart(client, session_timeout_ms=20_000, rebalance_timeout_ms=120_000)
    assert {(it.session_timeout_ms, it.rebalance_timeout_ms) for it in s.group.members.values()} == {
        (20_000, 120_000)
    }
    shown = {(it["session_timeout_ms"], it["rebalance_timeout_ms"]) for it in s.picture()["members"]}
    assert shown == {(20_000, 120_000)}


def test_first_session_after_a_restart_is_as_long_as_the_one_before():
    s = static_group()
    s.at(4_000)
    s.restart("c2", session_timeout_ms=30_000)
    assert s.session_deadline("c2") == 14_000
    # The new one counts from the first sign of life on.
    s.at(5_000)
    s.heartbeat("c2")
    assert s.session_deadline("c2") == 35_000


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


def test_restart_of_one_leaves_the_others_to_be_waited_for():
    s = static_group("CompletingRebalance", "c1", "c2", "c3")
    s.sync("c1")
    deadline = s.group.sync_deadline_ms
    s.restart("c2")
    assert (s.group.num_pending_sync, s.group.sync_deadline_ms) == (1, deadline)


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


# -- a restart in PreparingRebalance ---------------------------------------------------------------


def test_parked_join_of_the_old_run_is_fenced_at_once():
    s = static_group("PreparingRebalance")
    old = s.ids["c2"]
    fenced = only(s.restart("c2", "d2"))
    assert (fenced.client_id, fenced.error, fenced.error_code) == ("c2", "FENCED_INSTANCE_ID", 82)
    assert (fenced.member_id, fenced.generation_id, fenced.protocol_type) == (old, -1, None)
    assert s.group.state == "PreparingRebalance"
    assert errors(s.join("c1")) == {"c1": "NONE", "d2": "NONE"}


@pytest.mark.parametrize(("version", "name"), [(6, ""), (9, None)])
def test_fenced_join_is_answered_as_its_own_version_has_it(version, name):
    s = static_group()
    s.join("c2", protocols={"range": b"new"}, api_version=version)
    assert only(s.restart("c2", "d2")).protocol_name == name


def test_restart_in_the_initial_delay_takes_the_place_of_the_parked_join():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.static("c1")
    assert s.join("c1") == []
    assert errors(s.restart("c1", "d1")) == {"c1": "FENCED_INSTANCE_ID"}
    assert (len(s.group.members), s.group.num_awaiting_join) == (1, 1)
    # It is no new member, so the delay is not extended.
    reply = only(s.at(3_000))
    assert (reply.client_id, reply.error, reply.leader) == ("d1", "NONE", reply.member_id)


def test_restart_is_the_join_that_the_phase_waited_for():
    s = static_group()
    s.join("c1")
    assert s.group.state == "PreparingRebalance"
    old = s.ids["c2"]
    leader, follower = s.restart("c2")
    assert (leader.error, follower.error) == ("NONE", "NONE")
    assert leader.generation_id == follower.generation_id == 3
    assert (s.told_members(leader), follower.members) == (["c1", "c2"], [])
    assert follower.member_id != old
    late = only(s.join("c2", member_id=old))
    assert (late.error, late.member_id, late.generation_id) == ("FENCED_INSTANCE_ID", old, -1)
    assert s.group.state == "CompletingRebalance"


def test_leader_that_starts_again_in_the_join_phase_leads_the_next_generation():
    s = static_group("PreparingRebalance")
    by_client = {reply.client_id: reply for reply in s.restart("c1")}
    assert by_client["c1"].leader == by_client["c2"].leader == s.ids["c1"]
    assert sorted(s.told_members(by_client["c1"])) == ["c1", "c2"]
    # There is a new assignment to be made.
    assert by_client["c1"].skip_assignment is False


def test_restart_in_the_join_phase_takes_over_what_it_offers():
    s = static_group("PreparingRebalance")
    by_client = {reply.client_id: reply for reply in s.restart("c1", protocols={"range": b"newer"})}
    assert {it.metadata for it in by_client["c1"].members} == {b"new", b"newer"}


# -- a restart in CompletingRebalance --------------------------------------------------------------


def test_parked_sync_of_the_old_run_is_fenced_and_the_group_begins_again():
    s = static_group("CompletingRebalance", "c1", "c2", "c3")
    s.sync("c2")
    s.sync("c3")
    # The leader may be dividing the work for the old id (KAFKA-9801).
    assert errors(s.restart("c2", "d2")) == {"c2": "FENCED_INSTANCE_ID", "c3": "REBALANCE_IN_PROGRESS"}
    assert s.states()[-2:] == ["CompletingRebalance", "PreparingRebalance"]
    assert s.group.sync_deadline_ms is None


def test_fenced_sync_is_told_nothing_else():
    s = static_group("CompletingRebalance")
    s.sync("c2")
    fenced = only(s.restart("c2", "d2"))
    assert (fenced.error_code, fenced.assignment, fenced.protocol_type, fenced.protocol_name) == (
        82,
        b"",
        None,
        None,
    )


def test_restart_alone_in_the_sync_phase_is_the_next_generation():
    s = static_group("CompletingRebalance", "c1")
    reply = only(s.restart("c1"))
    assert (reply.error, reply.generation_id, reply.skip_assignment) == ("NONE", 2, False)
    assert (s.told_members(reply), s.group.state) == (["c1"], "CompletingRebalance")


def test_restarted_follower_leads_if_the_others_do_not_come():
    s = Scenario()
    s.static("c1", "c2")
    s.form("c1", "c2", rebalance_timeout_ms=20_000)
    assert s.restart("c2", rebalance_timeout_ms=20_000) == []
    # The session of c1 ends before the join phase does.
    reply = only(s.at(10_000))
    assert (reply.client_id, reply.generation_id, reply.leader) == ("c2", 3, reply.member_id)
    assert instances(reply) == ["C2"]
    assert s.group.state == "CompletingRebalance"


def test_leader_that_starts_again_in_the_sync_phase_stays_the_leader():
    s = static_group("CompletingRebalance")
    assert s.restart("c1") == []
    by_client = {reply.client_id: reply for reply in s.join("c2")}
    assert {reply.leader for reply in by_client.values()} == {s.ids["c1"]}
    assert sorted(s.told_members(by_client["c1"])) == ["c1", "c2"]


def test_restart_in_the_sync_phase_says_why():
    s = static_group("CompletingRebalance")
    old = s.ids["c2"]
    s.restart("c2")
    (event,) = s.happened("member_fenced")
    reason = s.happened("state_changed")[-1]["reason"]
    assert reason == f"{event['replaced_by']} replaced {old}"


# -- a restart in Empty ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["left", "session_expired"])
def test_instance_of_an_empty_group_is_a_new_member(ending):
    s = static_group("Stable", "c1")
    if ending == "left":
        s.leave("c1")
    else:
        s.at(10_000)
    assert (s.group.state, s.group.static_members) == ("Empty", {})
    assert only(s.restart("c1")).generation_id == 3
    assert (len(s.happened("member_added")), s.happened("member_fenced")) == (2, [])


def test_old_id_of_an_empty_group_is_not_a_members():
    s = static_group("Stable", "c1")
    s.leave("c1")
    reply = only(s.join("c1"))
    assert (reply.error, reply.member_id) == ("UNKNOWN_MEMBER_ID", s.ids["c1"])


# -- fencing ---------------------------------------------------------------------------------------

APIS = ["join", "sync", "heartbeat", "leave"]


def send_as(s: Scenario, api: str, member_id: str, instance_id: str | None, **fields: int) -> str:
    """Send `api` as `member_id` of the current generation, and name the answer."""
    if api == "leave":
        members = [{"member_id": member_id, "group_instance_id": instance_id}]
        (member,) = only(s.leave("somebody", members=members, **fields)).members
        return {0: "NONE", 25: "UNKNOWN_MEMBER_ID", 82: "FENCED_INSTANCE_ID"}[member.error_code]
    fields |= {"member_id": member_id, "group_instance_id": instance_id}
    if api != "join":
        fields["generation_id"] = s.group.generation_id
    return only(getattr(s, "ask" if api == "join" else api)("somebody", **fields)).error


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("state", STATES)
def test_id_that_an_instance_does_not_have_is_fenced(state, api):
    s = static_group(state)
    before = s.state
    assert send_as(s, api, "nobody", "C1") == "FENCED_INSTANCE_ID"
    assert s.state == before


@pytest.mark.parametrize(
    ("api", "version"),
    [
        *(("join", version) for version in VERSIONS),
        *(("sync", version) for version in range(3, 6)),
        *(("heartbeat", version) for version in range(3, 5)),
        *(("leave", version) for version in range(3, 6)),
    ],
)
def test_every_version_that_has_instance_ids_fences(api, version):
    s = static_group()
    assert send_as(s, api, "nobody", "C1", api_version=version) == "FENCED_INSTANCE_ID"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("state", STATES)
def test_instance_that_is_not_there_is_unknown_whatever_the_id(state, api):
    s = static_group(state)
    before = s.state
    for member_id in (s.ids["c1"], s.ids["c2"], "nobody"):
        assert send_as(s, api, member_id, "C9") == "UNKNOWN_MEMBER_ID"
    assert s.state == before


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("client", "instance_id"), [("c1", "C2"), ("c2", "C1")])
def test_id_of_another_instance_is_fenced(client, instance_id, api):
    s = static_group()
    before = s.state
    assert send_as(s, api, s.ids[client], instance_id) == "FENCED_INSTANCE_ID"
    assert s.state == before


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("client", ["c1", "c2"])
def test_old_run_is_fenced_or_without_its_instance_id_unknown(client, api):
    s = static_group()
    old = s.ids[client]
    s.restart(client)
    before = s.state
    assert send_as(s, api, old, client.upper()) == "FENCED_INSTANCE_ID"
    assert send_as(s, api, old, None) == "UNKNOWN_MEMBER_ID"
    assert s.state == before


def test_each_run_fences_the_one_before():
    s = static_group()
    first = s.ids["c2"]
    second = only(s.restart("c2")).member_id
    third = only(s.restart("c2")).member_id
    assert [send_as(s, "heartbeat", it, "C2") for it in (first, second, third)] == [
        "FENCED_INSTANCE_ID",
        "FENCED_INSTANCE_ID",
        "NONE",
    ]
    assert [(it["member_id"], it["replaced_by"]) for it in s.happened("member_fenced")] == [
        (first, second),
        (second, third),
    ]


def test_fenced_heartbeat_keeps_no_session():
    s = static_group()
    old = s.ids["c2"]
    s.restart("c2")
    s.at(5_000)
    send_as(s, "heartbeat", old, "C2")
    assert s.session_deadline("c2") == 10_000


@pytest.mark.parametrize("api", ["heartbeat", "sync", "join", "leave"])
def test_static_member_need_not_name_its_instance(api):
    s = static_group()
    assert send_as(s, api, s.ids["c2"], None) == "NONE"
    if api == "leave":
        assert list(s.group.static_members) == ["C1"]
    else:
        assert s.member("c2").group_instance_id == "C2"


# -- joining again without a restart ---------------------------------------------------------------


def test_known_id_in_the_sync_phase_is_answered_again():
    s = static_group("CompletingRebalance", "c1")
    reply = only(s.join("c1"))
    assert (reply.error, reply.generation_id, s.group.state) == ("NONE", 1, "CompletingRebalance")
    assert errors(s.sync("c1", {"c1": b"1"})) == {"c1": "NONE"}
    assert s.group.state == "Stable"


def test_known_id_of_an_unchanged_follower_in_stable_is_answered_at_once():
    s = static_group()
    states = s.states()
    reply = only(s.join("c2"))
    assert (reply.error, reply.generation_id, reply.members) == ("NONE", 2, [])
    assert (reply.leader, reply.member_id) == (s.ids["c1"], s.ids["c2"])
    assert s.states() == states


def test_known_id_of_the_leader_in_stable_begins_a_rebalance():
    s = static_group()
    assert s.join("c1") == []
    # The session of c2 ends meanwhile.
    reply = only(s.at(10_000))
    assert (reply.client_id, reply.generation_id, reply.leader) == ("c1", 3, s.ids["c1"])
    assert (instances(reply), s.group.static_members) == (["C1"], {"C1": s.ids["c1"]})


def test_follower_that_changes_in_the_sync_phase_begins_again():
    s = static_group()
    s.join("c1")
    assert {reply.generation_id for reply in s.join("c2")} == {3}
    assert s.join("c2", protocols={"range": b"new"}) == []
    assert s.group.state == "PreparingRebalance"
    assert {reply.generation_id for reply in s.join("c1")} == {4}


# -- members that miss the join phase --------------------------------------------------------------


def with_a_new_member(**fields: int) -> Scenario:
    """c1 leads and c2 follows, both static; the dynamic c3 comes, and they have 20 s to join again."""
    s = Scenario()
    s.static("c1", "c2")
    s.stabilise("c1", "c2", **(LONG | fields))
    assert s.join("c3", **LONG) == []
    return s


def test_follower_that_misses_the_join_phase_stays_a_member():
    s = with_a_new_member()
    s.join("c1", **LONG)
    by_client = {reply.client_id: reply for reply in s.at(20_000)}
    assert sorted(by_client) == ["c1", "c3"]
    assert {reply.generation_id for reply in by_client.values()} == {3}
    # The leader came back, so it leads on.
    assert {reply.leader for reply in by_client.values()} == {s.ids["c1"]}
    assert s.told_members(by_client["c1"]) == ["c1", "c2", "c3"]
    assert by_client["c3"].members == []
    assert s.removed() == []


def test_leader_that_misses_the_join_phase_stays_a_member_and_another_leads():
    s = with_a_new_member()
    s.join("c2", **LONG)
    by_client = {reply.client_id: reply for reply in s.at(20_000)}
    assert {reply.leader for reply in by_client.values()} == {s.ids["c2"]}
    assert s.told_members(by_client["c2"]) == ["c1", "c2", "c3"]
    assert by_client["c3"].members == []
    assert s.happened("generation_completed")[-1]["leader"] == s.ids["c2"]


def test_only_who_has_joined_can_lead():
    s = with_a_new_member()
    reply = only(s.at(20_000))
    assert (reply.client_id, reply.leader) == ("c3", s.ids["c3"])
    assert s.told_members(reply) == ["c1", "c2", "c3"]


def test_dynamic_member_that_misses_the_same_join_phase_is_out():
    s = with_a_new_member()
    s.join("c1", **LONG)
    s.join("c2", **LONG)
    s.sync("c1")
    for client in ("c2", "c3"):
        s.sync(client)
    s.join("c1", **LONG)
    s.at(20_000)
    assert s.removed() == [("c3", "not_rejoined")]
    assert list(s.group.static_members) == ["C1", "C2"]


def test_follower_that_changes_leads_if_the_leader_does_not_come():
    s = Scenario()
    s.static("c1", "c2")
    s.stabilise("c1", "c2", **LONG, protocols={"range": b"", "sticky": b""})
    s.join("c2", **LONG, protocols={"sticky": b""})
    reply = only(s.at(20_000))
    assert (reply.member_id, reply.leader, reply.generation_id) == (s.ids["c2"], s.ids["c2"], 3)
    assert (reply.protocol_name, instances(reply)) == ("sticky", ["C1", "C2"])


def test_member_that_missed_the_join_phase_finds_its_assignment_when_it_starts_again():
    s = with_a_new_member()
    s.join("c1", **LONG)
    s.at(20_000)
    s.sync("c3")
    s.sync("c1", {"c1": b"1", "c2": b"2", "c3": b"3"})
    states = s.states()
    s.restart("c2")
    assert only(s.sync("c2")).assignment == b"2"
    assert s.states() == states


def test_member_that_missed_the_join_phase_must_sync_in_time():
    s = with_a_new_member()
    s.join("c1", **LONG)
    s.at(20_000)
    s.sync("c3")
    s.sync("c1")
    assert s.group.state == "Stable"
    s.at(40_000)
    assert s.removed() == [("c2", "not_synced")]
    assert s.reasons()[-1] == "no sync from c2"
    assert list(s.group.static_members) == ["C1"]


def test_time_to_sync_is_over_for_static_members_too():
    s = static_group("CompletingRebalance")
    s.sync("c2")
    for now in range(5_000, 60_000, 5_000):
        s.at(now)
        s.heartbeat("c1")
    assert errors(s.at(60_000)) == {"c2": "REBALANCE_IN_PROGRESS"}
    assert s.removed() == [("c1", "not_synced")]
    assert s.group.static_members == {"C2": s.ids["c2"]}


def test_member_that_beats_but_misses_the_join_phase_is_in_until_its_session_ends():
    s = Scenario()
    s.static("c1")
    s.stabilise("c1", rebalance_timeout_ms=12_000)
    s.join("c2", rebalance_timeout_ms=12_000)
    for now in (5_000, 10_000):
        s.at(now)
        assert errors(s.heartbeat("c1")) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert errors(s.at(12_000)) == {"c2": "NONE"}
    s.sync("c2", {"c2": b"all"})
    assert errors(s.heartbeat("c1")) == {"c1": "ILLEGAL_GENERATION"}
    s.at(17_000)
    assert errors(s.heartbeat("c2")) == {"c2": "NONE"}
    s.at(22_000)
    assert s.removed() == [("c1", "session_expired")]
    assert errors(s.heartbeat("c2")) == {"c2": "REBALANCE_IN_PROGRESS"}
    assert errors(s.join("c2", rebalance_timeout_ms=12_000)) == {"c2": "NONE"}
    s.sync("c2", {"c2": b"all"})
    for _ in range(20):
        s.wait(5_000)
        assert errors(s.heartbeat("c2")) == {"c2": "NONE"}


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


def test_postponed_join_phase_is_over_when_the_last_session_ends():
    s = absent_static_group()
    s.at(59_000)
    assert s.removed() == [("c2", "left"), ("c1", "session_expired")]
    assert (s.group.state, s.group.generation_id, s.group.leader) == ("Empty", 3, None)
    assert [event["until_ms"] for event in s.happened("rebalance_postponed")] == [40_000, 60_000]


def test_leader_that_comes_back_ends_a_postponed_join_phase():
    s = absent_static_group()
    s.at(25_000)
    reply = only(s.restart("c1", **LONG))
    assert (reply.error, reply.generation_id, reply.leader) == ("NONE", 3, reply.member_id)
    assert (instances(reply), s.group.state) == (["C1"], "CompletingRebalance")


def test_dynamic_leader_that_goes_leaves_the_static_ones_to_be_waited_for():
    s = with_a_new_member()
    s.at(20_000)
    assert s.group.leader == s.ids["c3"]
    s.leave("c2")
    assert s.group.state == "PreparingRebalance"
    s.at(40_000)
    # The dynamic one is out; the static leader of old has not come back and is not put out for that.
    assert s.removed() == [("c2", "left"), ("c3", "not_rejoined")]
    assert (s.group.state, s.group.generation_id) == ("PreparingRebalance", 3)
    assert s.group.members.keys() == {s.ids["c1"]}


def test_join_phase_is_postponed_until_all_have_come():
    s = Scenario()
    s.static("c1", "c2", "c3")
    s.stabilise("c1", "c2", "c3", session_timeout_ms=90_000, rebalance_timeout_ms=20_000)
    s.leave("c3")
    for now in (20_000, 40_000):
        assert s.at(now) == []
        assert s.group.join_deadline_ms == now + 20_000
    assert s.join("c1") == []
    assert s.group.state == "PreparingRebalance"
    assert errors(s.join("c2")) == {"c1": "NONE", "c2": "NONE"}
    assert s.generations == {"c1": 3, "c2": 3, "c3": 2}


def test_pending_id_that_joins_ends_a_postponed_join_phase():
    s = absent_static_group()
    s.at(20_000)
    s.ask("c3", **LONG)
    assert s.ask("c3", **LONG) == []
    reply = only(s.at(40_000))
    assert (reply.client_id, reply.leader, len(reply.members)) == ("c3", s.ids["c3"], 2)


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


@pytest.mark.parametrize("version", [3, 4, 5])
def test_several_leave_by_their_instance_ids(version):
    s = static_group()
    members = [{"group_instance_id": "C1"}, {"group_instance_id": "C2"}]
    assert left(only(s.leave("admin", api_version=version, members=members))) == [("C1", 0), ("C2", 0)]
    assert (s.group.state, s.group.static_members) == ("Empty", {})


def test_instances_of_an_absent_group_are_unknown():
    s = Scenario()
    members = [{"group_instance_id": "C1"}, {"group_instance_id": "C2"}]
    reply = only(s.leave("admin", members=members))
    assert (reply.error, left(reply)) == ("NONE", [("C1", 25), ("C2", 25)])
    assert s.state is None


def test_wrong_id_in_a_batch_is_fenced_and_the_others_leave():
    s = static_group()
    members = [{"group_instance_id": "C1"}, {"group_instance_id": "C2", "member_id": "nobody"}]
    assert left(only(s.leave("admin", members=members))) == [("C1", 0), ("C2", 82)]
    assert list(s.group.static_members) == ["C2"]


def test_unknown_instance_in_a_batch_is_told_so_and_the_others_leave():
    s = static_group()
    members = [{"group_instance_id": "C9"}, {"group_instance_id": "C2"}]
    assert left(only(s.leave("admin", members=members))) == [("C9", 25), ("C2", 0)]
    assert list(s.group.static_members) == ["C1"]


@pytest.mark.parametrize("instance_id", [None, "C9"])
def test_pending_id_leaves_whatever_instance_it_names(instance_id):
    s = static_group()
    s.ask("c3")
    s.join("c1")
    s.join("c2")
    assert s.group.state == "PreparingRebalance"
    members = [
        {"group_instance_id": "C9"},
        {"member_id": s.ids["c3"], "group_instance_id": instance_id},
    ]
    reply = s.leave("admin", members=members)[-1]
    assert left(reply) == [("C9", 25), (instance_id, 0)]
    assert (s.group.state, s.group.pending_members) == ("CompletingRebalance", {})


def test_parked_join_of_an_instance_that_is_taken_out_is_answered():
    s = static_group("PreparingRebalance")
    removed, reply = s.leave("admin", members=[{"group_instance_id": "C2"}])
    assert (removed.client_id, removed.error, removed.member_id) == ("c2", "UNKNOWN_MEMBER_ID", "")
    assert left(reply) == [("C2", 0)]


def test_instance_that_was_taken_out_starts_again_as_a_new_member():
    s = static_group()
    s.leave("admin", members=[{"group_instance_id": "C2"}])
    assert s.restart("c2") == []
    assert [event["group_instance_id"] for event in s.happened("member_added")] == ["C1", "C2", "C2"]
    assert s.happened("member_fenced") == []


def test_session_of_a_static_member_ends_as_any_other():
    s = static_group()
    s.at(9_000)
    s.heartbeat("c1")
    s.at(10_000)
    (event,) = s.happened("member_removed")
    assert (event["group_instance_id"], event["reason"], event["client_reason"]) == (
        "C2",
        "session_expired",
        None,
    )
    assert send_as(s, "heartbeat", s.ids["c2"], "C2") == "UNKNOWN_MEMBER_ID"


# -- group.max.size --------------------------------------------------------------------------------


def test_of_more_instances_than_places_the_first_get_in_and_stay_in():
    s = Scenario(group_max_size=4, group_initial_rebalance_delay_ms=3_000)
    clients = [f"c{i}" for i in range(5)]
    s.static(*clients)
    refused = [s.join(client) for client in clients][-1]
    assert errors(refused) == {"c4": "GROUP_MAX_SIZE_REACHED"}
    assert errors(s.wait(6_000)) == dict.fromkeys(clients[:4], "NONE")
    again = [only(s.join(client)).error for client in clients]
    assert again == ["NONE"] * 4 + ["GROUP_MAX_SIZE_REACHED"]


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


# -- a join that is in the log twice ---------------------------------------------------------------


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Stable"])
def test_join_that_is_in_the_log_twice_counts_once(state):
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.ask("c1", member_id="", group_instance_id="i1")
    joined = s.log[-1].value
    if state != "PreparingRebalance":
        s.wait(3_000)
    if state == "Stable":
        s.sync("c1", group_instance_id="i1")
    assert s.group.state == state
    before, events = s.group.members, list(s.events)
    assert s.put(joined) == [], "it has its answer, or will have"
    assert (s.group.members, s.events) == (before, events)


def test_restart_that_is_in_the_log_twice_counts_once():
    s = Scenario()
    s.ask("c1", member_id="", group_instance_id="i1")
    s.sync("c1", group_instance_id="i1")
    (reply,) = s.ask("c1", member_id="", group_instance_id="i1")
    assert s.put(s.log[-1].value) == []
    assert errors(s.heartbeat("c1", member_id=reply.member_id, group_instance_id="i1")) == {"c1": "NONE"}


def test_same_request_id_of_another_client_is_another_request():
    s = Scenario()
    s.ask("c1", member_id="", group_instance_id="i1", request_id="1")
    s.sync("c1", group_instance_id="i1")
    (reply,) = s.ask("c2", member_id="", group_instance_id="i1", request_id="1")
    assert (reply.error, list(s.group.members)) == ("NONE", [reply.member_id])
    assert reply.member_id != s.ids["c1"]
