"""JoinGroup, case by case, in the order in which the checks stand."""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.errors import Errors
from tests.coordinator_state.scenario import NEWEST, OLD, Scenario, errors, only

STATES = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


def group_in(state: str, **config: int) -> Scenario:
    """c1 leads and c2 follows; in PreparingRebalance c1 is the one that has not joined again."""
    s = Scenario(**config)
    if state == "Empty":
        s.ask("c9")
    elif state == "CompletingRebalance":
        s.form("c1", "c2")
    else:
        s.stabilise("c1", "c2")
    if state == "PreparingRebalance":
        s.join("c2", protocols={"range": b"new"})
    assert s.group.state == state
    return s


# -- before the group is looked at -----------------------------------------------------------------


@pytest.mark.parametrize("timeout", [-1, 0, 5_999, 1_800_001, 2**31 - 1])
def test_session_timeout_out_of_bounds(timeout):
    s = Scenario()
    reply = only(s.ask("c1", session_timeout_ms=timeout, member_id="mine"))
    assert (reply.error, reply.member_id) == ("INVALID_SESSION_TIMEOUT", "mine")
    assert reply.error_message == "session_timeout_ms must be between 6000 and 1800000"
    assert s.state is None


@pytest.mark.parametrize("timeout", [6_000, 1_800_000])
def test_session_timeout_at_the_bounds(timeout):
    s = Scenario()
    assert errors(s.join("c1", session_timeout_ms=timeout)) == {"c1": "NONE"}


def test_session_timeout_is_checked_before_the_group():
    s = Scenario()
    s.form("c1")
    assert errors(s.ask("c1", session_timeout_ms=1)) == {"c1": "INVALID_SESSION_TIMEOUT"}
    assert s.member("c1").session_timeout_ms == 10_000


# -- an absent group -------------------------------------------------------------------------------


def test_unknown_id_makes_no_group():
    s = Scenario()
    reply = only(s.ask("c1", member_id="gone"))
    assert (reply.error, reply.member_id) == ("UNKNOWN_MEMBER_ID", "gone")
    assert s.state is None
    assert s.outputs[-1].channel.value == "responses", "there is no picture of what does not exist"


def test_no_id_makes_a_group():
    s = Scenario()
    assert errors(s.ask("c1")) == {"c1": "MEMBER_ID_REQUIRED"}
    assert [event["event"] for event in s.events] == ["group_created"]
    assert s.picture()["state"] == "Empty"


def test_refused_first_join_makes_a_group_all_the_same():
    # Kafka 4 does so: it looks at the protocols of a group only once it has one.
    s = Scenario()
    assert errors(s.ask("c1", protocols={})) == {"c1": "INCONSISTENT_GROUP_PROTOCOL"}
    assert s.group.state == "Empty"


# -- group.max.size --------------------------------------------------------------------------------


def test_full_group_in_an_early_generation_refuses_the_next():
    s = Scenario(group_max_size=2)
    s.form("c1", "c2")
    reply = only(s.ask("c3"))
    assert (reply.error, reply.member_id) == ("GROUP_MAX_SIZE_REACHED", "")
    assert reply.error_message == "group.max.size is 2"
    assert s.group.state == "CompletingRebalance"


def test_full_stable_group_refuses_a_new_member_but_not_its_own():
    s = Scenario(group_max_size=2)
    s.stabilise("c1", "c2")
    assert errors(s.ask("c3")) == {"c3": "GROUP_MAX_SIZE_REACHED"}
    assert errors(s.join("c2")) == {"c2": "NONE"}


def test_ids_that_are_only_pending_take_no_place():
    s = Scenario(group_max_size=1)
    s.ask("c1")
    assert errors(s.ask("c2")) == {"c2": "MEMBER_ID_REQUIRED"}
    s.ask("c1")
    # The place is taken now, and the id goes with the refusal.
    reply = only(s.ask("c2"))
    assert (reply.error, reply.member_id) == ("GROUP_MAX_SIZE_REACHED", "")
    assert s.group.pending_members == {}


@pytest.mark.parametrize("versions", [NEWEST, OLD], ids=["id first", "member at once"])
def test_of_more_clients_than_places_the_first_get_in_and_stay_in(versions):
    s = Scenario(versions, group_max_size=4, group_initial_rebalance_delay_ms=3_000)
    clients = [f"c{i}" for i in range(5)]
    if versions is NEWEST:
        assert [only(s.ask(client)).error for client in clients] == ["MEMBER_ID_REQUIRED"] * 5
    refused = [s.ask(client) for client in clients]
    assert refused[:4] == [[]] * 4
    assert errors(refused[4]) == {"c4": "GROUP_MAX_SIZE_REACHED"}
    assert errors(s.wait(6_000)) == dict.fromkeys(clients[:4], "NONE")
    # The next time it is the same ones, in the sync phase as in Stable.
    for state in ("CompletingRebalance", "Stable"):
        assert s.group.state == state
        again = [only(s.ask(client)).error for client in clients[1:]]
        assert again == ["NONE"] * 3 + ["GROUP_MAX_SIZE_REACHED"]
        s.sync("c0")


def test_accepted_clients_that_repeat_their_joins_stay_accepted():
    s = Scenario(group_max_size=4, group_initial_rebalance_delay_ms=3_000)
    clients = [f"c{i}" for i in range(5)]
    for client in clients:
        s.ask(client)
    for _ in range(2):
        assert [s.ask(client) for client in clients[:4]] == [[]] * 4
        assert errors(s.ask(clients[4])) == {"c4": "GROUP_MAX_SIZE_REACHED"}
    assert errors(s.wait(6_000)) == dict.fromkeys(clients[:4], "NONE")


@pytest.mark.parametrize("state", STATES[1:])
def test_id_that_was_given_out_in_time_finds_the_group_full(state):
    s = Scenario(group_max_size=2)
    s.stabilise("c1", rebalance_timeout_ms=7_000, session_timeout_ms=60_000)
    s.ask("c2", rebalance_timeout_ms=7_000)
    s.ask("c3", session_timeout_ms=60_000)
    s.ask("c2", rebalance_timeout_ms=7_000)
    # The pending id holds up the join phase until its time is over.
    assert s.join("c1", rebalance_timeout_ms=7_000, session_timeout_ms=60_000) == []
    if state != "PreparingRebalance":
        assert errors(s.at(7_000)) == {"c1": "NONE", "c2": "NONE"}
    if state == "Stable":
        s.sync("c1")
    assert s.group.state == state
    refused = {reply.client_id: reply for reply in s.ask("c3")}["c3"]
    assert (refused.error, refused.member_id) == ("GROUP_MAX_SIZE_REACHED", "")
    assert s.group.pending_members == {}
    assert len(s.group.members) == 2
    assert errors(s.ask("c3")) == {"c3": "GROUP_MAX_SIZE_REACHED"}


def test_empty_group_accepts_whatever_its_size():
    s = Scenario(group_max_size=1)
    s.form("c1")
    s.leave("c1")
    assert s.group.state == "Empty"
    assert errors(s.join("c2")) == {"c2": "NONE"}


def test_full_group_in_the_initial_delay_refuses_the_next():
    s = Scenario(OLD, group_max_size=2, group_initial_rebalance_delay_ms=3_000)
    assert s.join("c1") == []
    assert s.join("c2") == []
    assert errors(s.join("c3")) == {"c3": "GROUP_MAX_SIZE_REACHED"}
    assert errors(s.wait(3_000)) == {}
    assert errors(s.wait(3_000)) == {"c1": "NONE", "c2": "NONE"}


def test_member_that_waits_already_may_repeat_its_join_in_a_full_group():
    s = Scenario(OLD, group_max_size=2, group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    s.join("c2")
    # A client of that age does not know its id yet; only one that does can repeat.
    (first, _) = s.group.members
    assert s.ask("c1", member_id=first) == []


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


def test_refusal_for_size_does_not_end_the_initial_delay():
    s = Scenario(group_max_size=1, group_initial_rebalance_delay_ms=3_000)
    s.ask("c2")
    s.join("c1")
    assert errors(s.ask("c2")) == {"c2": "GROUP_MAX_SIZE_REACHED"}
    assert errors(s.wait(3_000)) == {"c1": "NONE"}


def test_leader_that_comes_too_late_for_a_shrinking_group_leads_no_more():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.config = type(s.config)(group_max_size=1)
    assert s.join("c2", protocols={"range": b"new"}) == []
    assert errors(s.join("c1")) == {"c1": "GROUP_MAX_SIZE_REACHED", "c2": "NONE"}
    assert s.group.leader == s.ids["c2"]


# -- protocols -------------------------------------------------------------------------------------

refused_protocols = pytest.mark.parametrize(
    "fields",
    [{"protocol_type": ""}, {"protocols": {}}],
    ids=["no protocol type", "no protocols"],
)


@refused_protocols
def test_first_member_must_offer_something(fields):
    s = Scenario()
    reply = only(s.ask("c1", **fields))
    assert (reply.error, reply.member_id) == ("INCONSISTENT_GROUP_PROTOCOL", "")


@pytest.mark.parametrize("state", STATES[1:])
@pytest.mark.parametrize(
    "fields",
    [{"protocol_type": "connect"}, {"protocol_type": ""}, {"protocols": {"sticky": b""}}, {"protocols": {}}],
    ids=["other type", "no type", "nothing in common", "no protocols"],
)
@pytest.mark.parametrize("client", ["c2", "c3"])
def test_join_that_does_not_fit_the_others_changes_nothing(state, fields, client):
    s = group_in(state)
    before = s.state
    reply = only(s.ask(client, **fields))
    assert (reply.error, reply.member_id) == ("INCONSISTENT_GROUP_PROTOCOL", s.ids.get(client, ""))
    assert s.state == before


def test_member_alone_cannot_come_back_with_a_new_protocol_only():
    # What it offered itself before still counts, as in Kafka.
    s = Scenario()
    s.stabilise("c1")
    assert errors(s.join("c1", protocols={"sticky": b""})) == {"c1": "INCONSISTENT_GROUP_PROTOCOL"}
    assert errors(s.join("c1", protocols={"range": b"", "sticky": b""})) == {"c1": "NONE"}


def test_pending_id_survives_a_join_that_does_not_fit():
    s = Scenario()
    s.form("c1")
    s.ask("c2")
    assert errors(s.ask("c2", protocols={"sticky": b""})) == {"c2": "INCONSISTENT_GROUP_PROTOCOL"}
    assert s.ask("c2") == []
    assert s.ids["c2"] in s.group.members


def test_empty_group_may_change_its_protocol_type():
    s = Scenario()
    s.form("c1")
    s.leave("c1")
    assert s.group.protocol_type == "consumer"
    reply = only(s.join("c2", protocol_type="connect", protocols={"default": b""}))
    assert (reply.error, reply.protocol_type, reply.protocol_name) == ("NONE", "connect", "default")


def test_group_that_everybody_has_left_in_the_initial_delay_keeps_its_protocol_type():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    s.leave("c1")
    assert (s.group.state, len(s.group.members)) == ("PreparingRebalance", 0)
    assert errors(s.ask("c2", protocol_type="connect")) == {"c2": "INCONSISTENT_GROUP_PROTOCOL"}
    assert s.join("c2", protocols={"sticky": b""}) == []
    assert errors(s.wait(6_000)) == {"c2": "NONE"}


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


@pytest.mark.parametrize("version", range(4))
def test_old_version_makes_a_member_at_once(version):
    s = Scenario({"join_group": version})
    reply = only(s.ask("c1"))
    assert (reply.error, reply.leader, reply.generation_id) == ("NONE", reply.member_id, 1)


@pytest.mark.parametrize("version", [*range(4, 10), ...])
def test_new_version_is_first_given_an_id(version):
    s = Scenario()
    reply = only(s.ask("c1", api_version=version))
    assert (reply.error, reply.error_code) == ("MEMBER_ID_REQUIRED", 79)
    assert reply.member_id.startswith("c1-")
    assert s.group.members == {}
    again = only(s.ask("c1", api_version=version))
    assert (again.error, again.member_id) == ("NONE", reply.member_id)
    assert s.group.pending_members == {}


@pytest.mark.parametrize("state", STATES)
def test_asking_for_an_id_disturbs_nobody(state):
    s = group_in(state)
    before = s.states()
    assert errors(s.ask("c3")) == {"c3": "MEMBER_ID_REQUIRED"}
    assert s.states() == before


def test_id_may_be_used_once():
    s = Scenario()
    s.form("c1")
    s.leave("c1")
    assert errors(s.ask("c1")) == {"c1": "UNKNOWN_MEMBER_ID"}


def test_id_is_made_of_the_client_id_and_the_place_in_the_log():
    first, second, again = Scenario(), Scenario(), Scenario()
    second.heartbeat("c0", member_id="")
    ids = [only(s.ask("c1")).member_id for s in (first, second, again)]
    assert ids[0] != ids[1], "another place, another id"
    assert ids[0] == ids[2], "a batch that runs again hands out the same id"


def test_new_member_begins_a_rebalance():
    for state in ("CompletingRebalance", "Stable"):
        s = group_in(state)
        assert s.join("c3") == []
        assert s.states()[-2:] == [state, "PreparingRebalance"]
        assert s.reasons()[-1] == "c3 joined"


def test_member_added_is_told_with_its_client():
    s = Scenario()
    s.join("c1", client_host="10.0.0.7")
    (event,) = s.happened("member_added")
    assert (event["member_id"], event["client_id"], event["client_host"]) == (s.ids["c1"], "c1", "10.0.0.7")


# -- joining again ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_id_that_is_not_a_members(state):
    s = group_in(state)
    before = s.state
    reply = only(s.ask("c1", member_id="nobody"))
    assert (reply.error, reply.member_id) == ("UNKNOWN_MEMBER_ID", "nobody")
    assert s.state == before


def test_join_in_preparing_rebalance_waits_for_who_is_missing():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.join("c2", protocols={"range": b"new"})
    assert s.join("c3") == []
    assert errors(s.join("c1")) == {"c1": "NONE", "c2": "NONE", "c3": "NONE"}


def test_join_that_is_repeated_while_parked_is_answered_once_to_the_newest():
    s = group_in("PreparingRebalance")
    assert s.join("c2", protocols={"range": b"newer"}) == []
    newest = s.group.members[s.ids["c2"]].awaiting_join.request_id
    replies = s.join("c1")
    assert errors(replies) == {"c1": "NONE", "c2": "NONE"}
    assert [reply.request_id for reply in replies if reply.client_id == "c2"] == [newest]
    assert only(replies[0].members[1:]).metadata == b"newer"


@pytest.mark.parametrize("client", ["c1", "c2"])
def test_unchanged_join_in_completing_rebalance_is_answered_again(client):
    s = group_in("CompletingRebalance")
    s.at(3_000)
    before = s.states()
    deadline = s.session_deadline(client)
    reply = only(s.join(client))
    assert (reply.error, reply.generation_id, reply.member_id) == ("NONE", 2, s.ids[client])
    assert s.told_members(reply) == (["c1", "c2"] if client == "c1" else [])
    assert s.states() == before
    # As in Kafka neither the session nor the timeouts begin anew.
    assert s.session_deadline(client) == deadline


@pytest.mark.parametrize("client", ["c1", "c2"])
@pytest.mark.parametrize(
    "protocols",
    [{"range": b"new"}, {"range": b"", "sticky": b""}],
    ids=["other bytes", "one more"],
)
def test_changed_join_in_completing_rebalance_begins_again(client, protocols):
    s = group_in("CompletingRebalance")
    assert s.join(client, protocols=protocols) == []
    assert s.reasons()[-1] == f"{client} changed its subscription"
    assert s.group.state == "PreparingRebalance"


def test_other_order_of_protocols_is_a_change():
    s = Scenario()
    both = {"range": b"", "sticky": b""}
    s.stabilise("c1", "c2", protocols=both)
    assert s.join("c2", protocols=dict(reversed(both.items()))) == []
    assert s.group.state == "PreparingRebalance"


def test_leaders_join_in_stable_always_begins_a_rebalance():
    s = group_in("Stable")
    assert s.join("c1") == []
    assert s.reasons()[-1] == "c1 leads and joined again"
    reply = only([reply for reply in s.join("c2") if reply.client_id == "c1"])
    assert reply.generation_id == 3


def test_unchanged_followers_join_in_stable_is_answered_at_once():
    s = group_in("Stable")
    before = s.states()
    # Other timeouts are no change of the subscription, and are not taken over: so does Kafka.
    reply = only(s.join("c2", session_timeout_ms=20_000))
    assert (reply.error, reply.generation_id, reply.members) == ("NONE", 2, [])
    assert reply.leader == s.ids["c1"]
    assert s.states() == before
    assert s.member("c2").session_timeout_ms == 10_000


def test_changed_followers_join_in_stable_begins_a_rebalance():
    s = group_in("Stable")
    assert s.join("c2", protocols={"range": b"new"}) == []
    assert s.reasons()[-1] == "c2 changed its subscription"


def test_join_again_takes_over_the_new_timeouts_and_shows_them():
    s = group_in("PreparingRebalance")
    s.join("c2", protocols={"range": b"new"}, session_timeout_ms=20_000, rebalance_timeout_ms=70_000)
    assert (s.member("c2").session_timeout_ms, s.member("c2").rebalance_timeout_ms) == (20_000, 70_000)
    shown = {member["client_id"]: member["session_timeout_ms"] for member in s.picture()["members"]}
    assert shown == {"c1": 10_000, "c2": 20_000}


def test_join_again_that_changes_nothing_writes_no_picture():
    s = group_in("PreparingRebalance")
    s.outputs.clear()
    s.join("c2", protocols={"range": b"new"})
    assert s.outputs == []


# -- what a join says ------------------------------------------------------------------------------


def test_answer_to_leader_and_follower():
    s = Scenario()
    s.stabilise("c1", protocols={"range": b"one"})
    s.join("c2", protocols={"range": b"two"})
    leader, follower = s.join("c1", protocols={"range": b"one"})
    for reply in (leader, follower):
        assert (reply.generation_id, reply.leader) == (2, s.ids["c1"])
        assert (reply.protocol_type, reply.protocol_name) == ("consumer", "range")
        assert (reply.error_code, reply.error_message, reply.skip_assignment) == (0, None, False)
    assert [(it.member_id, it.group_instance_id, it.metadata) for it in leader.members] == [
        (s.ids["c1"], None, b"one"),
        (s.ids["c2"], None, b"two"),
    ]
    assert follower.members == []


@pytest.mark.parametrize("version", range(10))
def test_protocol_type_is_told_since_version_7(version):
    s = Scenario({"join_group": version})
    reply = only(s.join("c1"))
    assert reply.protocol_type == ("consumer" if version >= 7 else None)
    assert reply.protocol_name == "range"


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "nobody"}, "UNKNOWN_MEMBER_ID"),
        ({"session_timeout_ms": 1}, "INVALID_SESSION_TIMEOUT"),
        ({"protocols": {}}, "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_shape_of_a_refusal(version, fields, error):
    s = Scenario()
    reply = only(s.ask("c1", api_version=version, **fields))
    assert (reply.error, reply.error_code) == (error, Errors[error].value)
    assert (reply.generation_id, reply.leader, reply.members) == (-1, "", [])
    assert (reply.protocol_type, reply.skip_assignment) == (None, False)
    assert reply.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize(("version", "name"), [(3, ""), (9, None)])
def test_shape_of_the_answer_to_a_parked_join_of_a_removed_member(version, name):
    s = Scenario({"join_group": version}, group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    (member_id,) = s.group.members
    s.ids["c1"] = member_id
    removed, _ = s.leave("c1")
    assert (removed.error, removed.member_id) == ("UNKNOWN_MEMBER_ID", "")
    assert (removed.generation_id, removed.protocol_name) == (-1, name)


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


def test_reason_is_told_in_the_event():
    s = Scenario()
    s.join("c1", reason="the pod was scheduled")
    assert s.reasons()[0] == "c1 joined: the pod was scheduled"


def test_reason_is_cut_at_255_characters():
    s = Scenario()
    s.stabilise("c1")
    s.join("c1", reason="x" * 300)
    assert s.reasons()[-2] == "c1 leads and joined again: " + "x" * 255


def test_no_reason_is_no_reason():
    s = Scenario()
    s.join("c1", reason="")
    assert s.reasons()[0] == "c1 joined"


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
