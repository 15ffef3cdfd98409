"""The cases of the well-known description of the old coordinator's state machine, played one by one.

That description is of Kafka 0.10: no initial rebalance delay, and a first join makes a member at once. The
cases run in that dialect and in the newest. Where Kafka 4 has since decided otherwise, a test says so.
"""

from __future__ import annotations

import pytest

from tests.coordinator_state.scenario import NEWEST, OLD, Scenario, clock, errors, only

both_dialects = pytest.mark.parametrize("versions", [OLD, NEWEST], ids=["join v3", "newest"])
CLIENTS = ("c1", "c2", "c3")
ONE_EACH = {"c1": b"p1", "c2": b"p2", "c3": b"p3"}
REBALANCE = ["PreparingRebalance", "CompletingRebalance", "Stable"]
ALL_WELL = dict.fromkeys(CLIENTS, "NONE")


def sync_followers_first(s: Scenario, leader: str, *followers: str) -> None:
    for follower in followers:
        assert s.sync(follower) == []
    replies = s.sync(leader, {name: ONE_EACH[name] for name in (leader, *followers)})
    assert {reply.client_id: reply.assignment for reply in replies} == {
        name: ONE_EACH[name] for name in (leader, *followers)
    }


def close_application(s: Scenario) -> None:
    """All three leave; the group ends when it is next looked at."""
    before = s.states()
    for client in CLIENTS:
        assert errors(s.leave(client)) == {client: "NONE"}
    assert s.states() == [*before, "PreparingRebalance", "Empty"]
    s.wait(s.config.offsets_retention_check_interval_ms)
    assert s.states() == [*before, "PreparingRebalance", "Empty", "Dead"]
    assert not s.exists


# -- three consumers -------------------------------------------------------------------------------


@both_dialects
def test_three_consumers_at_once_are_one_rebalance(versions):
    s = Scenario(versions)
    assert errors(s.join("c3")) == {"c3": "NONE"}
    assert s.states()[-1] == "CompletingRebalance"
    assert s.join("c2") == []
    assert s.states()[-1] == "PreparingRebalance"
    assert s.join("c1") == []
    # c3 divided the work among one, while the group moved on to three.
    assert errors(s.sync("c3", {"c3": b"p1 p2 p3"})) == {"c3": "REBALANCE_IN_PROGRESS"}
    assert errors(s.join("c3")) == {"c3": "NONE", "c2": "NONE", "c1": "NONE"}
    sync_followers_first(s, "c3", "c2", "c1")

    assert s.states() == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
    ]
    assert len(s.happened("assignment_propagated")) == 1
    assert s.revoked == {"c1": 1, "c2": 1, "c3": 1}
    assert s.assigned == {"c1": 1, "c2": 1, "c3": 1}
    close_application(s)


@both_dialects
def test_one_consumer_and_later_two_are_two_rebalances(versions):
    s = Scenario(versions)
    s.join("c1")
    sync_followers_first(s, "c1")
    s.wait(2_000)
    assert s.join("c2") == []
    assert s.join("c3") == []
    assert errors(s.heartbeat("c1")) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert errors(s.join("c1")) == ALL_WELL
    # The leader first this time; the others find the group Stable and are answered at once.
    assert only(s.sync("c1", ONE_EACH)).assignment == b"p1"
    assert only(s.sync("c2")).assignment == b"p2"
    assert only(s.sync("c3")).assignment == b"p3"

    assert s.states() == ["Empty", *REBALANCE, *REBALANCE]
    assert len(s.happened("assignment_propagated")) == 2
    assert s.revoked == {"c1": 2, "c2": 1, "c3": 1}
    assert s.assigned == {"c1": 2, "c2": 1, "c3": 1}
    close_application(s)


@both_dialects
def test_three_consumers_one_after_another_are_three_rebalances(versions):
    s = Scenario(versions)
    s.join("c1")
    sync_followers_first(s, "c1")
    s.wait(2_000)
    assert s.join("c2") == []
    assert errors(s.join("c1")) == {"c1": "NONE", "c2": "NONE"}
    sync_followers_first(s, "c1", "c2")
    s.wait(2_000)
    assert s.join("c3") == []
    assert s.join("c1") == []
    assert errors(s.join("c2")) == ALL_WELL
    sync_followers_first(s, "c1", "c2", "c3")

    assert s.states() == ["Empty", *REBALANCE, *REBALANCE, *REBALANCE]
    assert len(s.happened("assignment_propagated")) == 3
    assert s.revoked == {"c1": 3, "c2": 2, "c3": 1}
    assert s.assigned == {"c1": 3, "c2": 2, "c3": 1}
    close_application(s)


# -- lost answers ----------------------------------------------------------------------------------


def test_follower_that_lost_its_join_response_asks_again_in_stable():
    s = Scenario()
    s.form(*CLIENTS)
    s.sync("c2")
    assert errors(s.sync("c1", ONE_EACH)) == {"c1": "NONE", "c2": "NONE"}
    before = s.states()
    told = only(s.join("c3"))
    assert (told.error, told.generation_id, told.members) == ("NONE", s.generations["c1"], [])
    assert only(s.sync("c3")).assignment == b"p3"
    assert s.states() == before


def test_leader_that_lost_its_join_response_asks_again_in_completing_rebalance():
    s = Scenario()
    s.form(*CLIENTS)
    assert s.sync("c2") == []
    assert s.sync("c3") == []
    before = s.states()
    told = only(s.join("c1"))
    assert (told.error, told.generation_id) == ("NONE", s.generations["c2"])
    assert s.told_members(told) == ["c1", "c2", "c3"]
    assert errors(s.sync("c1", ONE_EACH)) == ALL_WELL
    assert s.states() == [*before, "Stable"]


def test_member_that_lost_its_sync_response_asks_again():
    s = Scenario()
    s.stabilise(*CLIENTS)
    before = s.states()
    assert only(s.sync("c2")).assignment == b"c2"
    assert only(s.sync("c1")).assignment == b"c1"
    assert s.states() == before


# -- sync in other states --------------------------------------------------------------------------


def test_leaders_sync_comes_when_the_next_rebalance_has_begun():
    s = Scenario()
    s.join("c1")
    assert s.join("c2") == []
    assert errors(s.sync("c1", {"c1": b"all"})) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert s.happened("assignment_propagated") == []
    assert errors(s.join("c1")) == {"c1": "NONE", "c2": "NONE"}


def test_sync_before_the_leaders_is_kept_and_after_it_is_answered_at_once():
    s = Scenario()
    s.form(*CLIENTS)
    assert s.sync("c2") == []
    replies = s.sync("c1", ONE_EACH)
    assert {reply.client_id: reply.assignment for reply in replies} == {"c1": b"p1", "c2": b"p2"}
    assert s.states()[-1] == "Stable"
    assert only(s.sync("c3")).assignment == b"p3"


# -- leaving ---------------------------------------------------------------------------------------


def test_leave_in_preparing_rebalance_may_be_what_the_phase_waited_for():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c3")
    assert s.join("c1") == []
    assert errors(s.leave("c2")) == {"c3": "NONE", "c1": "NONE", "c2": "NONE"}
    assert s.states()[-1] == "CompletingRebalance"


def test_leave_in_completing_rebalance_begins_again():
    s = Scenario()
    s.form(*CLIENTS)
    assert s.sync("c2") == []
    # The leader is dividing the work among three: what c3 would get must go to the others.
    assert errors(s.leave("c3")) == {"c2": "REBALANCE_IN_PROGRESS", "c3": "NONE"}
    assert s.states()[-2:] == ["CompletingRebalance", "PreparingRebalance"]


def test_leave_in_stable_begins_again():
    s = Scenario()
    s.stabilise(*CLIENTS)
    assert errors(s.leave("c2")) == {"c2": "NONE"}
    assert s.states()[-2:] == ["Stable", "PreparingRebalance"]
    s.join("c1")
    assert errors(s.join("c3")) == {"c1": "NONE", "c3": "NONE"}


# -- the rebalance timeout -------------------------------------------------------------------------


def test_rebalance_timeout_is_the_longest_of_the_members_and_ends_the_wait_for_who_is_missing():
    # Version 0 has no rebalance timeout of its own: the session timeout stands for it, as in the description.
    s = Scenario(OLD | {"join_group": 0}, group_min_session_timeout_ms=1_000)
    s.join("c1", session_timeout_ms=10_000)
    s.sync("c1", {"c1": b"all"})
    s.at(2_000)
    assert s.join("c2", session_timeout_ms=5_000) == []
    # c1 is alive but does not join again.
    s.at(9_000)
    assert errors(s.heartbeat("c1")) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert s.at(11_999) == []
    assert errors(s.at(12_000)) == {"c2": "NONE"}
    assert s.removed() == [("c1", "not_rejoined")]
    assert s.group.leader == s.ids["c2"]
    assert errors(s.heartbeat("c1")) == {"c1": "UNKNOWN_MEMBER_ID"}


# -- heartbeats ------------------------------------------------------------------------------------

SESSIONS = {"c1": 10_000, "c2": 20_000, "c3": 40_000}


def join(s: Scenario, client: str) -> list:
    return s.join(client, session_timeout_ms=SESSIONS[client])


def deadlines(s: Scenario, *clients: str) -> list[int]:
    return [s.session_deadline(client) for client in clients]


def join_phase_that_ends_at_ten() -> Scenario:
    """c3 leads, so that c1 and c2 have to wait for it."""
    s = Scenario()
    s.at(clock("10:00:00"))
    for client in ("c3", "c2", "c1", "c3"):
        join(s, client)
    assert deadlines(s, *CLIENTS) == [clock("10:00:10"), clock("10:00:20"), clock("10:00:40")]
    return s


def test_session_that_ends_while_the_sync_is_parked_does_no_harm():
    s = join_phase_that_ends_at_ten()
    s.at(clock("10:00:03"))
    assert s.sync("c1") == []
    # The description moves the deadline to 10:00:13 here. Kafka 4 does not, and it makes no difference:
    assert deadlines(s, "c1") == [clock("10:00:10")]
    s.at(clock("10:00:19"))
    assert s.removed() == []
    # ... the member is alive for as long as it is the coordinator that keeps silent.
    assert errors(s.sync("c3", ONE_EACH)) == {"c3": "NONE", "c1": "NONE"}
    assert deadlines(s, "c1") == [clock("10:00:29")]


def test_session_of_a_member_that_does_not_sync_ends_on_time():
    s = join_phase_that_ends_at_ten()
    s.at(clock("10:00:03"))
    s.sync("c1")
    assert errors(s.at(clock("10:00:20"))) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert s.removed() == [("c2", "session_expired")]


def third_member_comes_at_two_seconds() -> Scenario:
    """At 10:00:00 c1 and c2 were told what they own; c1 joins again at 10:00:03."""
    s = Scenario()
    s.at(clock("10:00:00"))
    for client in ("c1", "c2", "c1"):
        join(s, client)
    sync_followers_first(s, "c1", "c2")
    assert deadlines(s, "c1", "c2") == [clock("10:00:10"), clock("10:00:20")]
    s.at(clock("10:00:02"))
    assert join(s, "c3") == []
    s.at(clock("10:00:03"))
    assert join(s, "c1") == []
    return s


def test_session_that_ends_while_the_join_is_parked_does_no_harm():
    s = third_member_comes_at_two_seconds()
    # At 10:00:10, not at 10:00:13: a parked join does not move the deadline.
    assert deadlines(s, "c1") == [clock("10:00:10")]
    assert s.at(clock("10:00:10")) == []
    assert s.removed() == []
    assert deadlines(s, "c1") == [None]


def test_last_join_gives_every_member_a_new_session():
    s = third_member_comes_at_two_seconds()
    s.at(clock("10:00:15"))
    assert errors(join(s, "c2")) == ALL_WELL
    assert deadlines(s, *CLIENTS) == [clock("10:00:25"), clock("10:00:35"), clock("10:00:55")]


def test_member_that_keeps_silent_in_the_join_phase_is_removed_when_its_session_ends():
    s = third_member_comes_at_two_seconds()
    assert s.at(clock("10:00:20") - 1) == []
    # c2 gets no answer: it has asked nothing, and is no member any more.
    assert errors(s.at(clock("10:00:20"))) == {"c1": "NONE", "c3": "NONE"}
    assert s.removed() == [("c2", "session_expired")]
    assert deadlines(s, "c1", "c3") == [clock("10:00:30"), clock("10:01:00")]


def test_session_begins_again_with_each_answer():
    s = Scenario(group_min_session_timeout_ms=1_000)
    for client in ("c1", "c2", "c1"):
        s.join(client, session_timeout_ms=5_000)
    assert deadlines(s, "c2") == [5_000]
    s.at(1_000)
    s.sync("c2")
    # The description has 6 s here; Kafka 4 lets the sync be parked without a new session.
    assert deadlines(s, "c2") == [5_000]
    s.at(3_000)
    assert errors(s.sync("c1", {"c1": b"p1", "c2": b"p2"})) == {"c1": "NONE", "c2": "NONE"}
    assert deadlines(s, "c2") == [8_000]
    # Nothing is left of the earlier deadlines.
    s.at(7_999)
    assert s.removed() == []
    s.at(8_000)
    assert ("c2", "session_expired") in s.removed()


def test_heartbeat_gives_a_new_session_and_carries_nothing_else():
    s = Scenario()
    s.stabilise(*CLIENTS)
    s.at(4_000)
    before = s.events.copy()
    assert errors(s.heartbeat("c2")) == {"c2": "NONE"}
    assert deadlines(s, *CLIENTS) == [10_000, 14_000, 10_000]
    assert s.events == before
