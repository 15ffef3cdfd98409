"""The join phase and the sync phase as a whole: how long they last, and who is in what comes out."""

from __future__ import annotations

import msgspec

from group_coordinator.coordinator_state.classic.states import TRANSITIONS, GroupState
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.stored import encode_group
from tests.coordinator_state.scenario import Scenario, errors, only

D = 3_000


# -- later join phases -----------------------------------------------------------------------------


def test_join_phase_can_begin_in_every_state_that_leads_to_it():
    leading = {state for state, moves in TRANSITIONS.items() if GroupState.PREPARING_REBALANCE in moves}
    assert leading == {"Empty", "CompletingRebalance", "Stable"}


def test_negative_rebalance_timeout_is_none_at_all():
    # It stands as it is (-1 is not "the session timeout"), and must not turn back the clock.
    s = Scenario()
    s.at(5_000)
    replies = s.join("c1", rebalance_timeout_ms=-(2**31))
    assert errors(replies) == {"c1": "NONE"}
    assert s.states()[-2:] == ["PreparingRebalance", "Empty"], "thrown out of the sync phase at once"
    assert s.removed() == [("c1", "not_synced")]
    assert {event["at_ms"] for event in s.events} == {5_000}


def test_negative_rebalance_timeout_does_not_turn_back_the_clock_when_a_deadline_fires():
    s = Scenario()
    s.stabilise("c1", rebalance_timeout_ms=60_000)
    s.join("c2", rebalance_timeout_ms=-(2**31))
    # c1 goes at 10 s, c2 is alone then, and has no time at all to sync.
    s.at(20_000)
    assert s.group.state == "Empty"
    times = [event["at_ms"] for event in s.events]
    assert times == sorted(times)
    assert s.group.state_timestamp_ms == 10_000


# -- generations -----------------------------------------------------------------------------------


def test_generation_starts_over_at_one():
    s = Scenario()
    s.stabilise("c1")
    group = s.group
    group.generation_id = INT32_MAX
    s.state = encode_group(group)
    # Kafka goes negative here, and a negative generation would read as none at all.
    assert only(s.join("c1")).generation_id == 1
    (event,) = s.happened("generation_wrapped")
    assert event["generation_id"] == INT32_MAX
    assert [it["event"] for it in s.events].index("generation_wrapped") < len(s.events) - 2
    assert s.happened("generation_completed")[-1]["generation_id"] == 1
    # The old one is of the past, though it is the larger one.
    assert errors(s.heartbeat("c1", generation_id=INT32_MAX)) == {"c1": "ILLEGAL_GENERATION"}


def test_generation_completed_names_who_is_in_it():
    s = Scenario()
    s.form("c1", "c2")
    event = s.happened("generation_completed")[-1]
    assert (event["protocol_name"], event["leader"]) == ("range", s.ids["c1"])
    assert event["members"] == [s.ids["c1"], s.ids["c2"]]


# -- the leader ------------------------------------------------------------------------------------


def test_leader_that_leaves_is_followed_by_who_has_been_in_longest():
    # Kafka leaves it to chance; chance could not be repeated.
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.leave("c1")
    assert s.group.leader == s.ids["c2"]


# -- the vote --------------------------------------------------------------------------------------


def voted(*offers: list[str]) -> str:
    s = Scenario(group_initial_rebalance_delay_ms=D)
    for i, names in enumerate(offers):
        s.join(f"c{i}", protocols=dict.fromkeys(names, b""))
    return s.wait(2 * D)[0].protocol_name


def test_tie_goes_to_who_voted_first():
    assert voted(["range", "sticky"], ["sticky", "range"]) == "range"
    assert voted(["sticky", "range"], ["range", "sticky"]) == "sticky"


def test_protocol_named_twice_counts_once():
    s = Scenario(group_initial_rebalance_delay_ms=D)
    twice = [{"name": "range", "metadata": b"1"}, {"name": "range", "metadata": b"2"}]
    s.join("c1", protocols=twice)
    s.join("c2", protocols=twice)
    replies = s.wait(2 * D)
    assert errors(replies) == {"c1": "NONE", "c2": "NONE"}
    assert [member.metadata for member in replies[0].members] == [b"1", b"1"]


# -- the sync phase has an end (KAFKA-12890) -------------------------------------------------------


def beat_until(s: Scenario, to_ms: int, *clients: str) -> None:
    while s.now + 5_000 < to_ms:
        s.wait(5_000)
        for client in clients:
            assert errors(s.heartbeat(client)) == {client: "NONE"}


def test_nobody_syncs():
    s = Scenario()
    s.form("c1", "c2", rebalance_timeout_ms=20_000)
    # Heartbeats do not put it off.
    beat_until(s, 20_000, "c1", "c2")
    assert s.at(20_000) == []
    assert s.removed() == [("c1", "not_synced"), ("c2", "not_synced")]
    assert s.reasons()[-2:] == ["no sync from c1, c2", "no members are left"]
    assert s.group.state == "Empty"


def test_only_the_leader_syncs():
    s = Scenario()
    s.form("c1", "c2", "c3", rebalance_timeout_ms=20_000)
    s.sync("c1")
    # Stable, and yet the time to sync runs on.
    beat_until(s, 20_000, "c1", "c2", "c3")
    s.at(20_000)
    assert s.removed() == [("c2", "not_synced"), ("c3", "not_synced")]
    assert s.states()[-2:] == ["Stable", "PreparingRebalance"]
    assert errors(s.heartbeat("c1")) == {"c1": "REBALANCE_IN_PROGRESS"}
    assert errors(s.heartbeat("c2")) == {"c2": "UNKNOWN_MEMBER_ID"}


def test_next_join_phase_gives_a_new_session_to_who_waits_for_its_assignment_only():
    s = Scenario()
    s.form("c1", "c2", "c3")
    s.sync("c2")
    s.at(5_000)
    s.leave("c3")
    assert (s.session_deadline("c1"), s.session_deadline("c2")) == (10_000, 15_000)


# -- ids of events ---------------------------------------------------------------------------------


def test_events_bear_the_id_of_what_caused_them():
    s = Scenario()
    s.ask("c1")
    s.ask("c1")
    s.at(10_000)
    assert [event["event_id"] for event in s.events] == [
        "requests-0-0-0",
        "requests-0-1-0",
        "requests-0-1-1",
        "requests-0-1-2",
        "requests-0-1-3",
        "orders@10000-0",
        "orders@10000-1",
        "orders@10000-2",
    ]
    assert [event["at_ms"] for event in s.events] == [0] * 5 + [10_000] * 3
    assert [event["request_id"] for event in s.events] == ["c1-0"] + ["c1-1"] * 4 + [None] * 3


def test_events_of_the_same_millisecond_have_ids_of_their_own():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.at(10_000)
    ids = [event["event_id"] for event in s.events]
    assert len(ids) == len(set(ids))
    assert s.removed() == [(client, "session_expired") for client in ("c1", "c2", "c3")]


def test_picture_is_what_the_group_is():
    s = Scenario()
    s.stabilise("c1", "c2", protocols={"range": b"topics"})
    picture = s.picture()
    assert picture == msgspec.json.decode(msgspec.json.encode(s.group.picture(s.config)))
    assert [member["member_assignment"] for member in picture["members"]] == ["YzE=", "YzI="]
    assert [member["member_metadata"] for member in picture["members"]] == ["dG9waWNz"] * 2
    assert (picture["group_id"], picture["state"]) == ("orders", "Stable")
    s.at(5_000)
    s.leave("c2")
    assert s.picture()["state_timestamp_ms"] == 5_000


def test_each_move_says_why():
    s = Scenario(group_initial_rebalance_delay_ms=3_000)
    s.join("c1")
    s.wait(3_000)
    s.sync("c1")
    s.join("c2")
    s.join("c1")
    s.sync("c1")
    s.leave("c1", "c2")
    s.wait(600_000)
    assert s.reasons() == [
        "c1 joined",
        "the initial rebalance delay is over",
        "the leader's assignment arrived",
        "c2 joined",
        "all members joined",
        "the leader's assignment arrived",
        "c1, c2 left",
        "no members are left",
        "unused",
    ]


def test_each_other_move_says_why():
    s = Scenario()
    s.stabilise("c1", "c2", rebalance_timeout_ms=7_000)
    s.join("c2", protocols={"range": b"new"}, rebalance_timeout_ms=7_000)
    s.at(6_000)
    s.heartbeat("c1")
    s.at(7_000)
    assert s.removed() == [("c1", "not_rejoined")]
    s.sync("c2")
    s.join("c2", protocols={"range": b"new"})
    assert s.reasons()[-5:] == [
        "c2 changed its subscription",
        "the rebalance timeout passed",
        "the leader's assignment arrived",
        "c2 leads and joined again",
        "all members joined",
    ]
