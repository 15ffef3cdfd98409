"""Members that show a sign of life when their session has nearly expired; it is of 10 s here."""

from __future__ import annotations

from itertools import pairwise

import pytest

from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.step import step
from tests.coordinator_state.scenario import GROUP, SECRET, Scenario

NEAR = "session_nearly_expired"
HOUR = 3_600_000


def told(s: Scenario) -> list[tuple[str, int, int]]:
    return [(event["client_id"], event["at_ms"], event["remaining_ms"]) for event in s.happened(NEAR)]


@pytest.mark.parametrize(
    ("silent_ms", "expected"), [(8_000, []), (8_001, [1_999]), (9_999, [1]), (10_000, [])]
)
def test_less_than_a_fifth_of_the_session_is_told(silent_ms: int, expected: list[int]) -> None:
    s = Scenario()
    s.stabilise("c1")
    s.wait(silent_ms)
    s.heartbeat("c1")
    assert [remaining_ms for _, _, remaining_ms in told(s)] == expected


def test_all_that_is_known_is_told() -> None:
    s = Scenario()
    s.static("c1")
    s.stabilise("c1")
    s.wait(9_000)
    s.heartbeat("c1", principal="alice")
    (event,) = s.happened(NEAR)
    assert event == {
        "event": NEAR,
        "event_id": f"requests-0-{len(s.log) - 1}-0",
        "at_ms": 9_000,
        "group_id": GROUP,
        "generation_id": 1,
        "request_id": f"c1-{len(s.log) - 1}",
        "principal": "alice",
        "member_id": s.ids["c1"],
        "group_instance_id": "C1",
        "client_id": "c1",
        "session_timeout_ms": 10_000,
        "remaining_ms": 1_000,
    }


def test_the_picture_of_the_group_stays_as_it_is() -> None:
    s = Scenario()
    s.stabilise("c1")
    place = s.group.pictured
    s.wait(9_000)
    s.heartbeat("c1")
    assert len(told(s)) == 1
    assert s.group.pictured == place


# -- by which requests -----------------------------------------------------------------------------


def test_a_commit_is_a_sign_of_life() -> None:
    s = Scenario()
    s.stabilise("c1")
    s.wait(9_000)
    s.commit("c1", {"t": {0: 1}})
    assert told(s) == [("c1", 9_000, 1_000)]
    assert s.session_deadline("c1") == 19_000


def test_a_join_is_a_sign_of_life() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.wait(9_000)
    s.join("c2", protocols={"range": b"other topics"})
    assert told(s) == [("c2", 9_000, 1_000)]
    s.wait(500)
    s.join("c1")
    assert told(s)[1:] == [("c1", 9_500, 500)]


def test_a_sync_is_a_sign_of_life_though_its_answer_may_come_later() -> None:
    s = Scenario()
    s.form("c1", "c2")
    s.wait(9_000)
    s.sync("c2")
    assert told(s) == [("c2", 9_000, 1_000)]
    s.wait(500)
    s.sync("c1")
    assert told(s)[1:] == [("c1", 9_500, 500)]


def test_a_static_member_that_starts_again_in_time() -> None:
    s = Scenario()
    s.static("c1")
    s.stabilise("c1", "c2")
    before = s.ids["c1"]
    s.wait(7_000)
    s.heartbeat("c2")
    s.wait(2_500)
    s.restart("c1")
    (event,) = s.happened(NEAR)
    assert (event["member_id"], event["group_instance_id"], event["remaining_ms"]) == (before, "C1", 500)


def test_a_heartbeat_of_the_generation_before_is_one_while_the_answer_is_on_its_way() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.join("c1", protocols={"range": b"other topics"})
    s.join("c2")
    s.sync("c1")
    s.wait(9_000)
    s.heartbeat("c2", generation_id=s.generations["c2"] - 1)
    assert told(s) == [("c2", 9_000, 1_000)]


# -- that nobody is blamed for what others do ------------------------------------------------------


def test_a_member_that_waits_for_an_answer_is_not_late() -> None:
    s = Scenario()
    s.stabilise("c1", "c2", session_timeout_ms=10_000)
    s.wait(5_000)
    s.join("c1", protocols={"range": b"other topics"})
    s.wait(4_500)
    s.heartbeat("c1")
    s.heartbeat("c2")
    assert told(s) == [("c2", 9_500, 500)]


def test_a_new_member_has_no_session_yet() -> None:
    """What it has is the time that it may wait to be answered."""
    s = Scenario(new_member_join_timeout_ms=1_000, group_initial_rebalance_delay_ms=900)
    s.join("c1")
    s.heartbeat("c1", generation_id=0)
    assert told(s) == []
    assert s.member("c1").is_new


def test_time_without_a_coordinator_does_not_count() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    s.outages = Outages([Outage(1_000, HOUR)])
    # Counts as of the end: nobody could hear it before.
    s.at(HOUR + 6_900)
    s.heartbeat("c1")
    assert told(s) == []
    s.wait(1_500)
    s.heartbeat("c2")
    # 1 s before the outage and 8.4 s after it.
    assert told(s) == [("c2", HOUR + 8_400, 600)]


def test_a_session_that_has_still_the_old_length_is_no_part_of_the_new_one() -> None:
    s = Scenario()
    s.static("c1")
    s.stabilise("c1", "c2")
    s.restart("c1", session_timeout_ms=60_000)
    assert s.session_deadline("c1") == 10_000
    s.wait(3_000)
    s.heartbeat("c1")  # 7 s are left of 10 s, not of 60 s
    assert told(s) == []
    s.now += 9_000
    s.heartbeat("c1")
    assert told(s) == []
    assert s.session_deadline("c1") == 72_000


# -- how many there are ----------------------------------------------------------------------------


def test_a_member_that_always_comes_late_is_told_of_once_in_ten_sessions() -> None:
    s = Scenario()
    s.stabilise("c1")
    beats = 100
    for _ in range(beats):
        s.wait(8_500)
        s.heartbeat("c1")
    times = [at_ms for _, at_ms, _ in told(s)]
    assert times[0] == 8_500
    assert {after - before for before, after in pairwise(times)} == {102_000}
    assert len(times) == 1 + (beats - 1) * 8_500 // 102_000


def test_each_member_is_told_of_by_itself() -> None:
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.wait(8_500)
    s.heartbeat_of("c1", "c2", quiet=True)
    s.wait(1_000)
    s.heartbeat("c3")
    assert told(s) == [("c1", 8_500, 1_500), ("c2", 8_500, 1_500), ("c3", 9_500, 500)]


def test_the_same_log_gives_the_same_events_however_it_is_cut() -> None:
    s = Scenario()
    s.stabilise("c1", "c2")
    for wait_ms in (8_500, 9_000, 8_900):
        s.wait(wait_ms)
        s.heartbeat_of("c1", "c2")
    assert len(told(s)) == 2
    whole = step(GROUP.encode(), None, s.log, s.now, s.config, SECRET)
    assert whole.state == s.state
    assert [event.event_id for event in whole.events] == [event["event_id"] for event in s.events]
