"""Time in which there was no coordinator does not count."""

from __future__ import annotations

import pytest

from group_coordinator.coordinator_state.outages import Outage, Outages
from tests.coordinator_state.scenario import OLD, Scenario, errors, of_partitions, only

MINUTE = 60_000
HOUR = 60 * MINUTE


# -- which there are -------------------------------------------------------------------------------

OUTAGES = Outages([Outage(100, 200), Outage(10, 20)])


def test_they_are_kept_in_order():
    assert list(OUTAGES) == [Outage(10, 20), Outage(100, 200)]


@pytest.mark.parametrize(
    ("from_ms", "to_ms", "expected"),
    [
        (0, 10, []),
        (0, 11, [(10, 20)]),
        (0, 100, [(10, 20)]),
        (0, 101, [(10, 20), (100, 200)]),
        (10, 1_000, [(10, 20), (100, 200)]),
        (15, 15, [(15, 20)]),
        (15, 16, [(15, 20)]),
        (19, 1_000, [(19, 20), (100, 200)]),
        (20, 1_000, [(100, 200)]),
        (200, 1_000, []),
    ],
)
def test_between(from_ms, to_ms, expected):
    assert list(OUTAGES.between(from_ms, to_ms)) == [Outage(*each) for each in expected]


# -- what they do ----------------------------------------------------------------------------------


def away(s: Scenario, start_ms: int, end_ms: int) -> None:
    """There was no coordinator in this time. Begins when all that came until `start_ms` has been read."""
    assert start_ms >= s.now
    s.outages = Outages([*s.outages, Outage(start_ms, end_ms)])


def test_member_that_kept_beating_stays():
    s = Scenario()
    s.stabilise("c1", "c2")
    away(s, 1_000, HOUR)
    for now in range(3_000, HOUR + 9_000, 3_000):
        s.now = now
        assert errors(s.heartbeat("c1")) == {"c1": "NONE"}
        assert errors(s.heartbeat("c2")) == {"c2": "NONE"}
    assert s.removed() == []


def test_member_that_fell_silent_has_as_much_time_left_as_it_had():
    s = Scenario()
    s.stabilise("c1")  # its session ends after 10 s
    away(s, 4_000, HOUR)
    s.at(HOUR + 5_999)
    assert s.removed() == []
    s.at(HOUR + 6_000)
    assert s.removed() == [("c1", "session_expired")]


def test_deadline_from_before_the_outage_fires_before_it():
    s = Scenario()
    s.stabilise("c1")
    away(s, 10_000, HOUR)
    s.at(HOUR)
    assert s.removed() == [("c1", "session_expired")]
    assert {event["at_ms"] for event in s.events if event["event"] == "member_removed"} == {10_000}


def test_members_that_could_not_hear_of_a_rebalance_have_time_to_join_it():
    s = Scenario()
    s.stabilise("c1", "c2", session_timeout_ms=30_000)
    s.join("c3", session_timeout_ms=30_000)  # a rebalance of at most a minute begins
    away(s, 30_000, HOUR)
    # Answered after the outage, whenever they were sent.
    for now in (25_000, 50_000, 75_000, HOUR):
        s.now = now
        for client in ("c1", "c2"):
            assert errors(s.heartbeat(client)) == {client: "REBALANCE_IN_PROGRESS"}
    s.at(HOUR + 29_999)
    assert s.removed() == []
    s.join("c1")
    assert set(errors(s.join("c2"))) == {"c1", "c2", "c3"}
    assert s.group.state == "CompletingRebalance"


def test_join_phase_still_ends():
    s = Scenario()
    s.stabilise("c1", "c2", session_timeout_ms=30_000)
    s.join("c1", protocols={"range": b"new"})
    away(s, 1_000, HOUR)
    s.now = HOUR
    s.heartbeat("c2")
    s.at(HOUR + 25_000)
    s.heartbeat("c2")
    s.at(HOUR + 50_000)
    s.heartbeat("c2")
    assert errors(s.at(HOUR + 59_000)) == {"c1": "NONE"}
    assert s.removed() == [("c2", "not_rejoined")]


def test_sync_phase_is_put_off():
    s = Scenario()
    s.form("c1", "c2", session_timeout_ms=300_000)
    away(s, 0, HOUR)
    s.at(HOUR + 59_999)
    assert s.removed() == []
    s.at(HOUR + 60_000)
    assert s.removed() == [("c1", "not_synced"), ("c2", "not_synced")]


def test_initial_delay_is_put_off():
    s = Scenario(OLD, group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    away(s, 1_000, HOUR)
    assert errors(s.at(HOUR + 1_999)) == {}
    assert errors(s.at(HOUR + 2_000)) == {"c1": "NONE"}


def test_id_that_was_handed_out_is_good_for_longer():
    s = Scenario()
    assert errors(s.ask("c1", member_id="")) == {"c1": "MEMBER_ID_REQUIRED"}
    away(s, 1_000, HOUR)
    s.now = HOUR + 8_999
    assert errors(s.join("c1")) == {"c1": "NONE"}


def test_clean_up_is_put_off():
    s = Scenario()
    s.ask("c1", member_id="")
    due_ms = s.group.cleanup_deadline_ms
    away(s, 0, HOUR)
    s.at(1)
    assert s.group.cleanup_deadline_ms == due_ms + HOUR


def test_request_of_an_outage_comes_at_its_end():
    s = Scenario()
    away(s, 0, HOUR)
    s.now = 5_000
    s.join("c1")
    assert s.group.now_ms == HOUR
    assert {event["at_ms"] for event in s.events} == {HOUR}
    assert s.session_deadline("c1") == HOUR + 10_000


def test_outages_add_up():
    s = Scenario()
    s.stabilise("c1")
    away(s, 1_000, HOUR)
    away(s, HOUR + 1_000, 2 * HOUR)
    s.at(2 * HOUR + 7_999)
    assert s.removed() == []
    s.at(2 * HOUR + 8_000)
    assert s.removed() == [("c1", "session_expired")]


def test_group_that_was_read_into_the_outage_loses_only_what_is_left_of_it():
    s = Scenario()
    s.stabilise("c1")
    s.at(4_000)
    s.heartbeat("c1")
    s.outages = Outages([Outage(2_000, 8_000)])
    s.at(17_999)
    assert s.removed() == []
    s.at(18_000)
    assert s.removed() == [("c1", "session_expired")]


def test_outage_of_the_past_changes_nothing():
    s = Scenario()
    s.at(HOUR)
    s.stabilise("c1")
    s.outages = Outages([Outage(1_000, 2_000)])
    s.at(HOUR + 10_000)
    assert s.removed() == [("c1", "session_expired")]


# -- as many groups as there may be ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("now_ms", "expected"), [(0, False), (19, False), (20, True), (149, True), (150, False), (1_000, False)]
)
def test_closed_from_the_end_of_one_to_the_end_of_the_next(now_ms, expected):
    assert Outages([Outage(10, 20, closed=True), Outage(100, 150)]).closed_at(now_ms) is expected


def closed(from_ms: int, to_ms: int) -> Outages:
    return Outages([Outage(from_ms - 1, from_ms, closed=True), Outage(to_ms - 1, to_ms)])


@pytest.mark.parametrize("versions", [OLD, {}])
def test_no_group_is_created_by_a_join(versions):
    s = Scenario(versions)
    s.outages = closed(1_000, 2_000)
    s.at(1_000)
    refused = only(s.ask("c1", member_id=""))
    assert (refused.error, refused.member_id) == ("COORDINATOR_NOT_AVAILABLE", "")
    assert refused.error_message == "there are as many groups as there may be: ask again later"
    assert (s.state, s.events) == (None, [])
    s.at(2_000)
    assert errors(s.join("c1")) == {"c1": "NONE"}


def test_no_group_is_created_by_a_commit():
    s = Scenario()
    s.outages = closed(1_000, 2_000)
    s.at(1_000)
    assert of_partitions(only(s.commit("c1", {"t": {0: 5}}, generation_id=-1, member_id=""))) == {
        "t": {0: 15}
    }
    assert (s.state, s.events) == (None, [])
    s.at(2_000)
    assert of_partitions(only(s.commit("c1", {"t": {0: 5}}, generation_id=-1, member_id=""))) == {"t": {0: 0}}


def test_groups_that_are_there_go_on():
    s = Scenario()
    s.stabilise("c1")
    s.outages = closed(1_000, 2_000)
    s.at(1_000)
    assert errors(s.heartbeat("c1")) == {"c1": "NONE"}
    s.join("c2")
    assert s.group.state == "PreparingRebalance"
    assert of_partitions(only(s.commit("c1", {"t": {0: 5}}))) == {"t": {0: 0}}


def test_other_requests_about_a_group_that_is_not_there_are_answered_as_ever():
    s = Scenario()
    s.outages = closed(0, 2_000)
    assert errors(s.ask("c1", member_id="m")) == {"c1": "UNKNOWN_MEMBER_ID"}
    refused = s.commit("c1", {"t": {0: 5}}, generation_id=3, member_id="m")
    assert of_partitions(only(refused)) == {"t": {0: 69}}
