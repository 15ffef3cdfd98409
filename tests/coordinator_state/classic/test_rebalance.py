"""The join phase and the sync phase as a whole: how long they last, and who is in what comes out."""

from __future__ import annotations

import msgspec

from group_coordinator.coordinator_state.classic.rebalance import CAN_REBALANCE
from group_coordinator.coordinator_state.classic.states import TRANSITIONS, GroupState
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.stored import encode_group
from tests.coordinator_state.scenario import OLD, Scenario, errors, only

D = 3_000


def delayed(**config: int) -> Scenario:
    return Scenario(group_initial_rebalance_delay_ms=D, **config)


# -- the initial delay (KIP-134) -------------------------------------------------------------------


def test_first_member_alone_waits_for_the_initial_delay():
    s = delayed()
    assert s.join("c1") == []
    assert s.at(D - 1) == []
    assert errors(s.at(D)) == {"c1": "NONE"}
    assert s.reasons() == ["c1 joined", "the initial rebalance delay is over"]


def test_member_that_comes_in_the_delay_extends_it_by_another():
    s = delayed()
    s.join("c1")
    s.at(2_000)
    s.join("c2")
    assert s.at(2 * D - 1) == []
    assert errors(s.at(2 * D)) == {"c1": "NONE", "c2": "NONE"}
    # One rebalance for the two of them.
    assert s.group.generation_id == 1


def test_each_round_of_the_delay_in_which_a_member_comes_is_followed_by_another():
    s = delayed()
    s.join("c0")
    for i in (1, 2, 3):
        s.at(i * D - 1)
        assert s.join(f"c{i}") == []
    assert s.at(4 * D - 1) == []
    assert len(s.at(4 * D)) == 4


def test_initial_delay_is_no_longer_than_the_rebalance_timeout():
    s = delayed()
    s.join("c0", rebalance_timeout_ms=8_000)
    for at in (1_000, 4_000, 7_000):
        s.at(at)
        assert s.join(f"c{at}", rebalance_timeout_ms=8_000) == []
    # Rounds of 3, 3 and 2 s.
    assert s.at(7_999) == []
    assert len(s.at(8_000)) == 4


def test_no_extension_when_the_rebalance_timeout_is_no_longer_than_the_delay():
    s = delayed()
    s.join("c1", rebalance_timeout_ms=D)
    s.join("c2", rebalance_timeout_ms=60_000)
    # Only the first member's timeout counts: nobody else was there when the delay began.
    assert errors(s.at(D)) == {"c1": "NONE", "c2": "NONE"}


def test_repeated_join_does_not_extend_the_delay():
    s = delayed()
    s.join("c1")
    s.at(2_000)
    assert s.join("c1") == []
    assert errors(s.at(D)) == {"c1": "NONE"}


def test_all_members_there_do_not_shorten_the_delay():
    s = delayed()
    s.join("c1")
    s.join("c2")
    assert s.group.all_members_joined
    assert s.at(D) == []
    assert s.group.state == "PreparingRebalance"


def test_pending_ids_do_not_hold_up_the_initial_phase():
    s = delayed()
    s.join("c1")
    s.ask("c2")
    assert errors(s.at(D)) == {"c1": "NONE"}
    assert s.ids["c2"] in s.group.pending_members


def test_pending_ids_do_not_hold_up_the_initial_phase_without_a_delay():
    s = Scenario()
    s.ask("c1")
    s.ask("c2")
    assert errors(s.ask("c1")) == {"c1": "NONE"}


def test_delay_is_back_when_a_group_was_empty_in_between():
    s = delayed()
    s.join("c1")
    s.at(D)
    s.leave("c1")
    assert (s.group.state, s.group.generation_id) == ("Empty", 2)
    s.join("c2")
    s.join("c3")
    assert s.at(2 * D) == []
    assert errors(s.at(3 * D)) == {"c2": "NONE", "c3": "NONE"}
    assert s.group.generation_id == 3


def test_member_of_a_later_join_phase_does_not_extend_the_next_initial_delay():
    s = delayed()
    s.join("c1")
    s.at(D)
    s.sync("c1")
    s.join("c2")
    s.join("c3")
    s.leave("c1", "c2", "c3")
    assert s.group.state == "Empty"
    s.join("c4")
    assert errors(s.at(2 * D)) == {"c4": "NONE"}


def test_delay_counts_for_a_group_that_becomes_full_in_it():
    s = Scenario(OLD, group_initial_rebalance_delay_ms=D)
    s.join("c1")
    s.join("c2")
    assert s.group.join_deadline_ms == D


# -- later join phases -----------------------------------------------------------------------------


def test_join_phase_can_begin_in_every_state_that_leads_to_it():
    leading = {state for state, moves in TRANSITIONS.items() if GroupState.PREPARING_REBALANCE in moves}
    assert set(CAN_REBALANCE) == leading == {"Empty", "CompletingRebalance", "Stable"}


def test_join_phase_lasts_the_longest_rebalance_timeout():
    s = Scenario()
    s.stabilise("c1", "c2", rebalance_timeout_ms=7_000)
    s.at(1_000)
    s.join("c3", rebalance_timeout_ms=9_000)
    assert s.group.join_deadline_ms == 10_000
    # Not extended by who comes later.
    s.at(2_000)
    s.join("c4", rebalance_timeout_ms=60_000)
    assert s.group.join_deadline_ms == 10_000


def test_who_did_not_join_again_is_out():
    s = Scenario()
    s.stabilise("c1", "c2", "c3", rebalance_timeout_ms=7_000)
    s.join("c3", protocols={"range": b"new"}, rebalance_timeout_ms=7_000)
    s.at(6_000)
    for client in ("c1", "c2"):
        s.heartbeat(client)
    assert errors(s.at(7_000)) == {"c3": "NONE"}
    assert s.removed() == [("c1", "not_rejoined"), ("c2", "not_rejoined")]
    assert s.reasons()[-1] == "the rebalance timeout passed"
    assert errors(s.heartbeat("c1", generation_id=3)) == {"c1": "UNKNOWN_MEMBER_ID"}


def test_join_phase_that_nobody_came_to_leaves_the_group_empty():
    s = Scenario()
    s.stabilise("c1", "c2", rebalance_timeout_ms=7_000)
    s.ask("c3")
    s.leave("c2")
    s.at(6_000)
    s.heartbeat("c1")
    s.at(7_000)
    assert s.states()[-2:] == ["PreparingRebalance", "Empty"]
    assert (s.group.generation_id, s.group.leader, s.group.protocol_name) == (3, None, None)


def test_pending_id_holds_up_a_later_join_phase_until_it_joins():
    s = Scenario()
    s.stabilise("c1")
    s.ask("c2")
    assert s.join("c1") == []
    assert s.group.num_awaiting_join == len(s.group.members)
    assert errors(s.ask("c2")) == {"c1": "NONE", "c2": "NONE"}


def test_pending_id_does_not_outlast_the_rebalance_timeout():
    s = Scenario()
    s.stabilise("c1", rebalance_timeout_ms=7_000)
    s.ask("c2")
    s.join("c1", rebalance_timeout_ms=7_000)
    assert errors(s.at(7_000)) == {"c1": "NONE"}


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


def test_generation_grows_with_each_join_phase():
    s = Scenario()
    s.stabilise("c1")
    assert s.generations["c1"] == 1
    s.join("c1")
    assert s.generations["c1"] == 2
    assert [event["generation_id"] for event in s.happened("generation_completed")] == [1, 2]


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


def test_first_member_leads():
    s = Scenario(group_initial_rebalance_delay_ms=D)
    s.join("c1")
    s.join("c2")
    replies = s.at(2 * D)
    assert {reply.leader for reply in replies} == {s.ids["c1"]}


def test_leader_that_leaves_is_followed_by_who_has_been_in_longest():
    # Kafka leaves it to chance; chance could not be repeated.
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.leave("c1")
    assert s.group.leader == s.ids["c2"]


def test_leader_that_does_not_come_back_is_followed_by_one_that_did():
    s = Scenario()
    s.stabilise("c1", "c2", "c3", rebalance_timeout_ms=7_000)
    s.join("c3", protocols={"range": b"new"}, rebalance_timeout_ms=7_000)
    replies = s.at(7_000)
    assert errors(replies) == {"c3": "NONE"}
    assert only(replies).leader == s.ids["c3"]
    assert s.told_members(only(replies)) == ["c3"]


def test_new_leader_is_told_of_all_members():
    s = Scenario()
    s.stabilise("c1", "c2", "c3")
    s.leave("c1")
    s.join("c2")
    by_client = {reply.client_id: reply for reply in s.join("c3")}
    assert s.told_members(by_client["c2"]) == ["c2", "c3"]
    assert by_client["c3"].members == []


# -- the vote --------------------------------------------------------------------------------------


def voted(*offers: list[str]) -> str:
    s = Scenario(group_initial_rebalance_delay_ms=D)
    for i, names in enumerate(offers):
        s.join(f"c{i}", protocols=dict.fromkeys(names, b""))
    return s.wait(2 * D)[0].protocol_name


def test_most_preferred_protocol_wins():
    assert voted(["range", "sticky"], ["sticky", "range"], ["sticky", "range"]) == "sticky"


def test_protocol_that_not_all_offer_cannot_win():
    assert voted(["sticky", "range"], ["sticky", "range"], ["range"]) == "range"


def test_vote_goes_to_the_first_protocol_that_all_offer():
    assert voted(["a", "b", "c"], ["c", "b"], ["x", "b", "c"]) == "b"


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


def test_next_generation_votes_again():
    s = Scenario()
    s.stabilise("c1", protocols={"range": b"", "sticky": b""})
    s.join("c2", protocols={"sticky": b""})
    assert {reply.protocol_name for reply in s.join("c1", protocols={"range": b"", "sticky": b""})} == {
        "sticky"
    }


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


def test_only_followers_sync():
    s = Scenario()
    s.form("c1", "c2", "c3", rebalance_timeout_ms=20_000)
    s.sync("c2")
    s.sync("c3")
    beat_until(s, 20_000, "c1")
    assert errors(s.at(20_000)) == {"c2": "REBALANCE_IN_PROGRESS", "c3": "REBALANCE_IN_PROGRESS"}
    assert s.removed() == [("c1", "not_synced")]
    assert s.group.leader == s.ids["c2"]


def test_all_sync():
    s = Scenario()
    s.stabilise("c1", "c2", rebalance_timeout_ms=20_000)
    assert s.group.sync_deadline_ms is None
    beat_until(s, 40_000, "c1", "c2")
    assert s.removed() == []


def test_follower_that_syncs_late_but_in_time():
    s = Scenario()
    s.form("c1", "c2", rebalance_timeout_ms=20_000)
    s.sync("c1")
    beat_until(s, 20_000, "c1", "c2")
    s.at(19_999)
    s.sync("c2")
    s.at(20_000)
    assert s.removed() == []


def test_next_join_phase_waits_for_no_sync_of_the_last_generation():
    s = Scenario()
    s.form("c1", "c2", rebalance_timeout_ms=20_000)
    assert s.group.num_pending_sync == 2
    s.leave("c2")
    assert (s.group.state, s.group.num_pending_sync) == ("PreparingRebalance", 0)
    s.join("c1", rebalance_timeout_ms=20_000)
    assert s.group.num_pending_sync == 1


def test_next_join_phase_ends_the_time_to_sync():
    s = Scenario()
    s.form("c1", "c2", rebalance_timeout_ms=20_000)
    s.at(15_000 - 6_000)
    s.join("c2", protocols={"range": b"new"}, rebalance_timeout_ms=20_000)
    assert s.group.sync_deadline_ms is None
    s.at(9_500)
    s.join("c1", rebalance_timeout_ms=20_000)
    assert s.group.sync_deadline_ms == 29_500


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
    assert picture == msgspec.json.decode(msgspec.json.encode(s.group.picture()))
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


def test_leader_that_joins_again_alone_says_why():
    s = Scenario()
    s.stabilise("c1")
    s.join("c1")
    assert s.reasons()[-2:] == ["c1 leads and joined again", "all members joined"]
