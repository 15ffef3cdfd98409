"""Deadlines that pass: sessions, new members, pending ids, groups that nobody uses."""

from __future__ import annotations

from tests.coordinator_state.scenario import OLD, Scenario, errors

FIVE_MINUTES = 300_000
TEN_MINUTES = 600_000


# -- sessions --------------------------------------------------------------------------------------


def test_silent_member_is_removed_and_the_others_rebalance():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.at(9_999)
    s.heartbeat("c1")
    assert s.removed() == []
    s.at(10_000)
    assert s.removed() == [("c2", "session_expired")]
    assert s.reasons()[-1] == "session of c2 expired"
    assert errors(s.heartbeat("c2")) == {"c2": "UNKNOWN_MEMBER_ID"}
    assert errors(s.heartbeat("c1")) == {"c1": "REBALANCE_IN_PROGRESS"}


def test_static_member_that_starts_again_while_it_is_parked_is_not_new_any_more():
    s = Scenario()
    s.stabilise("c1", session_timeout_ms=60_000)
    s.ask("c2", group_instance_id="i2", member_id="")
    s.at(1_000)
    replies = s.ask("c3", group_instance_id="i2", member_id="")
    assert errors(replies) == {"c2": "FENCED_INSTANCE_ID"}
    # Its join is parked, so it is the coordinator that keeps silent, for longer than a session.
    assert errors(s.at(59_999)) == {}
    assert errors(s.at(60_000)) == {"c3": "NONE"}


def test_session_that_ends_in_the_join_phase_may_be_what_it_waited_for():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c2", protocols={"range": b"new"})
    assert errors(s.at(10_000)) == {"c2": "NONE"}
    assert s.reasons()[-1] == "all remaining members joined"


def test_record_at_the_very_deadline_comes_too_late():
    s = Scenario()
    s.stabilise("c1", "c2")
    s.at(5_000)
    s.heartbeat("c1")
    s.now = 10_000
    # No call in between: the deadline fires before the record, at its own time.
    assert errors(s.heartbeat("c2")) == {"c2": "UNKNOWN_MEMBER_ID"}
    assert s.removed() == [("c2", "session_expired")]


def test_call_that_comes_late_fires_each_deadline_at_its_own_time():
    s = Scenario()
    s.join("c1", session_timeout_ms=10_000)
    s.join("c2", session_timeout_ms=20_000)
    s.at(60 * 60_000)
    times = {event["event"]: event["at_ms"] for event in s.events}
    assert times["group_deleted"] > times["member_removed"]
    assert times["group_deleted"] < s.now
    assert s.state is None


# -- new members (KAFKA-7610) ----------------------------------------------------------------------


def test_new_member_is_in_if_its_time_and_the_join_phase_end_together():
    """With Java's defaults they do, whenever a member hangs that beats and does not join again."""
    s = Scenario()
    s.stabilise("c1", rebalance_timeout_ms=FIVE_MINUTES)
    s.join("c2", rebalance_timeout_ms=FIVE_MINUTES)
    while s.now < FIVE_MINUTES - 9_000:
        s.wait(9_000)
        s.heartbeat("c1")
    assert errors(s.at(FIVE_MINUTES)) == {"c2": "NONE"}
    assert s.removed() == [("c1", "not_rejoined")]


def test_session_longer_than_five_minutes_is_kept_once_the_member_is_in():
    s = Scenario()
    s.join("c1", session_timeout_ms=FIVE_MINUTES + 5_000)
    s.sync("c1")
    s.at(FIVE_MINUTES + 4_999)
    assert s.removed() == []
    s.at(FIVE_MINUTES + 5_000)
    assert s.removed() == [("c1", "session_expired")]


def test_new_member_that_expires_ends_the_initial_delay():
    # Unlike a leave: an expiry looks only at who is missing. Kafka does the same.
    s = Scenario(OLD, group_initial_rebalance_delay_ms=5_000, new_member_join_timeout_ms=2_000)
    s.join("c1")
    s.at(1_000)
    s.join("c2")
    assert errors(s.at(2_000)) == {"c1": "UNKNOWN_MEMBER_ID", "c2": "NONE"}
    assert s.states()[-1] == "CompletingRebalance"


def test_only_member_that_expires_in_the_initial_delay_leaves_the_group_empty():
    s = Scenario(OLD, group_initial_rebalance_delay_ms=5_000, new_member_join_timeout_ms=2_000)
    s.join("c1")
    s.at(2_000)
    assert s.states() == ["Empty", "PreparingRebalance", "Empty"]
    assert s.group.generation_id == 1


# -- groups that nobody uses -----------------------------------------------------------------------


def test_group_is_deleted_ten_minutes_after_it_became_empty():
    s = Scenario()
    s.stabilise("c1")
    s.at(5_000)
    s.leave("c1")
    s.at(5_000 + TEN_MINUTES - 1)
    assert s.group.state == "Empty"
    s.at(5_000 + TEN_MINUTES)
    assert (s.exists, s.deadline) == (False, 5_000 + TEN_MINUTES + 60_000)
    assert s.states()[-1] == "Dead"
    assert s.events[-1]["event"] == "group_deleted"
    assert s.events[-1]["generation_id"] == 2
    assert s.picture() is None, "a tombstone"


def test_group_that_was_only_asked_for_ids_is_deleted_too():
    s = Scenario()
    s.ask("c1")
    s.at(TEN_MINUTES)
    assert not s.exists


def test_group_is_not_deleted_under_a_pending_id():
    s = Scenario()
    s.ask("c1")
    s.at(TEN_MINUTES - 1)
    s.ids.clear()
    s.ask("c2", session_timeout_ms=20_000)
    s.at(TEN_MINUTES)
    assert s.group.pending_members == {s.ids["c2"]: TEN_MINUTES + 19_999}
    assert errors(s.ask("c2")) == {"c2": "NONE"}


def test_deleted_group_starts_afresh():
    s = Scenario()
    s.stabilise("c1")
    s.leave("c1")
    s.at(TEN_MINUTES)
    s.ids.clear()
    assert errors(s.join("c1", protocol_type="connect")) == {"c1": "NONE"}
    assert s.generations["c1"] == 1
    assert len(s.happened("group_created")) == 2
    assert s.picture()["protocol_type"] == "connect"
