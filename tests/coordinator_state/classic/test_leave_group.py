"""LeaveGroup, case by case."""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import Scenario, errors, only


def told(reply) -> list[tuple[str, int]]:
    return [(member.member_id, member.error_code) for member in reply.members]


def test_absent_group():
    s = Scenario()
    reply = only(s.leave("c1", members=[{"member_id": "gone"}, {"member_id": "gone too"}]))
    assert (reply.error, told(reply)) == ("NONE", [("gone", 25), ("gone too", 25)])
    assert s.state is None


def test_id_that_is_not_a_members():
    s = Scenario()
    s.stabilise("c1")
    before = s.state
    reply = only(s.leave("c1", members=[{"member_id": "nobody"}, {}]))
    assert (reply.error, told(reply)) == ("NONE", [("nobody", 25), ("", 25)])
    assert s.state == before


def test_batch_is_one_rebalance_and_each_member_is_told():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    before = len(s.states())
    ids = [s.ids["c2"], "nobody", s.ids["c3"], s.ids["c2"]]
    reply = only(s.leave("c2", members=[{"member_id": member_id} for member_id in ids]))
    # The second time it is no member any more.
    assert told(reply) == [(ids[0], 0), ("nobody", 25), (ids[2], 0), (ids[3], 25)]
    assert s.removed() == [("c2", "left"), ("c3", "left")]
    assert s.states()[before:] == ["PreparingRebalance"]
    assert s.reasons()[-1] == "c2, c3 left"


def test_batch_of_all_empties_the_group_in_one_go():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    generation = s.group.generation_id
    s.leave("c1", "c2", "c3")
    assert s.states()[-2:] == ["PreparingRebalance", "Empty"]
    group = s.group
    assert (group.generation_id, group.protocol_name, group.leader) == (generation + 1, None, None)
    # The type stays, as in Kafka: it says what kind of group this was.
    assert group.protocol_type == "consumer"


def test_batch_of_nobody():
    s = Scenario()
    s.stabilise("c1")
    before = s.state
    reply = only(s.leave("c1", members=[]))
    assert (reply.error, reply.members) == ("NONE", [])
    assert s.state == before


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_version_tells_the_one_member_at_the_top(version):
    s = Scenario()
    s.stabilise("c1")
    reply = only(s.leave("c1", api_version=version, members=[{"member_id": "nobody"}]))
    assert (reply.error, reply.members) == ("UNKNOWN_MEMBER_ID", [])
    reply = only(s.leave("c1", api_version=version))
    assert (reply.error, reply.members) == ("NONE", [])
    assert s.group.state == "Empty"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_new_version_tells_each_member(version):
    s = Scenario()
    s.stabilise("c1")
    reply = only(s.leave("c1", api_version=version))
    assert (reply.error, told(reply)) == ("NONE", [(s.ids["c1"], 0)])


@pytest.mark.parametrize("count", [0, 2])
def test_old_version_is_about_one_member(count):
    s = Scenario()
    s.stabilise("c1", "c2")
    before = s.state
    reply = only(s.leave("c1", api_version=2, members=[{"member_id": s.ids["c1"]}] * count))
    assert (reply.error, reply.error_message) == ("UNSUPPORTED_VERSION", "version 2 is about one member")
    assert s.state == before


def test_parked_join_of_who_leaves_is_answered():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c2", protocols={"range": b"new"})
    removed, left = s.leave("c2")
    assert (removed.error, removed.member_id) == ("UNKNOWN_MEMBER_ID", "")
    assert (left.error, told(left)) == ("NONE", [(s.ids["c2"], 0)])
    assert s.group.state == "PreparingRebalance"


def test_last_missing_member_that_leaves_ends_the_join_phase():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c2", protocols={"range": b"new"})
    assert errors(s.leave("c1")) == {"c2": "NONE", "c1": "NONE"}
    assert s.group.leader == s.ids["c2"]


def test_leave_does_not_shorten_the_initial_delay():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    s.join("c2")
    s.leave("c2")
    s.leave("c1")
    assert s.states() == ["Empty", "PreparingRebalance"]
    # Twice the delay, because c2 came in the first round of it.
    s.at(6_000)
    assert s.states() == ["Empty", "PreparingRebalance", "Empty"]
    assert s.group.generation_id == 1


def test_pending_id_may_leave_and_ends_the_join_phase_it_held_up():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.ask("c3")
    s.join("c1")
    assert s.join("c2") == []
    replies = s.leave("c3")
    assert errors(replies) == {"c1": "NONE", "c2": "NONE", "c3": "NONE"}
    assert told(replies[-1]) == [(s.ids["c3"], 0)]
    assert s.removed() == [], "it was no member"


@pytest.mark.parametrize("stranger", [[], ["nobody"]], ids=["all known", "one unknown"])
def test_members_and_a_pending_id_leave_together(stranger):
    s = Scenario()
    s.stabilise("c1", "c2")
    s.ask("c3")
    s.join("c1")
    ids = [s.ids[client] for client in ("c1", "c2", "c3")]
    removed, reply = s.leave("admin", members=[{"member_id": it} for it in [*ids, *stranger]])
    assert (removed.client_id, removed.error) == ("c1", "UNKNOWN_MEMBER_ID")
    assert told(reply) == [*((it, 0) for it in ids), *((it, 25) for it in stranger)]
    assert (s.group.state, s.group.pending_members) == ("Empty", {})


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_pending_id_that_leaves_makes_the_group_rebalance(state):
    # Kafka 4 does so; the old coordinator did not.
    s = Scenario()
    s.form("c1", "c2")
    if state == "Stable":
        s.sync("c1")
    s.ask("c3")
    s.leave("c3")
    assert s.states()[-2:] == [state, "PreparingRebalance"]


def test_pending_id_may_leave_an_empty_group():
    s = Scenario()
    s.ask("c1")
    assert told(only(s.leave("c1"))) == [(s.ids["c1"], 0)]
    assert (s.group.state, s.group.pending_members) == ("Empty", {})
    assert errors(s.ask("c1")) == {"c1": "UNKNOWN_MEMBER_ID"}


def test_reason_is_told_in_the_event():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.leave("c2", members=[{"member_id": s.ids["c2"], "reason": "scaled down " + "x" * 300}])
    assert s.reasons()[-1] == "c2 left: scaled down " + "x" * 243


def test_reason_is_that_of_one_who_left():
    s = Scenario()
    s.stabilise("c1", "c2")
    members = [{"member_id": "nobody", "reason": "not this"}, {"member_id": s.ids["c2"], "reason": "this"}]
    s.leave("c2", members=members)
    assert s.reasons()[-1] == "c2 left: this"


def test_each_is_told_with_its_own_reason():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    reasons = {"c1": "scaled down", "c2": "", "c3": "x" * 300}
    s.leave("c1", members=[{"member_id": s.ids[it], "reason": why} for it, why in reasons.items()])
    assert [(it["client_id"], it["client_reason"]) for it in s.happened("member_removed")] == [
        ("c1", "scaled down"),
        ("c2", None),
        ("c3", "x" * 255),
    ]


def test_at_most_ten_thousand_at_once():
    s = Scenario()
    s.stabilise("c1")
    reply = only(s.leave("c1", members=[{}] * 10_000))
    assert len(reply.members) == 10_000
    reply = only(s.leave("c1", members=[{}] * 10_001))
    assert reply.error == "INVALID_REQUEST"
    assert reply.error_message == "Expected `array` of length <= 10000 - at `$.members`"


@pytest.mark.parametrize("version", range(6))
def test_reason_came_with_version_5(version):
    s = Scenario()
    s.stabilise("c1", "c2")
    s.leave("c2", api_version=version, members=[{"member_id": s.ids["c2"], "reason": "why"}])
    (event,) = s.happened("member_removed")
    assert event["client_reason"] == ("why" if version >= 5 else None)
