"""The rules of a member, one test each, and a storm of answers that none of them may give way to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.structs import OffsetAndMetadata

from group_coordinator.client import errors
from group_coordinator.client.member_settings import MemberSettings
from group_coordinator.client.states import TRANSITIONS, IllegalMove, MemberState, transition
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.responses import (
    HeartbeatResponse,
    InvalidRequestResponse,
    JoinGroupResponse,
)
from tests.client.script import HEARTBEAT, JOIN_TIMEOUT, PROTOCOLS, RESPONSES, SETTINGS, STATIC, Script
from tests.depth import cases


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def static() -> Script:
    return Script(STATIC)


# -- joining -----------------------------------------------------------------------------------------


def test_first_join_has_no_id_and_all_settings(script):
    join = script.join()

    assert join == JoinGroupRequest(
        request_id="c1-i1-1",
        client_id="c1",
        client_host="host",
        reply_partition=3,
        group_id="orders",
        session_timeout_ms=9_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=PROTOCOLS,
    )
    assert script.member.state is MemberState.PREPARING_REBALANCE


def test_member_id_required_joins_again_with_the_id(script):
    (join,) = script.answer(script.join(), Errors.MEMBER_ID_REQUIRED, member_id="m1")

    assert isinstance(join, JoinGroupRequest)
    assert (join.member_id, join.protocols) == ("m1", PROTOCOLS)


def test_follower_syncs_at_once(script):
    (sync,) = script.completing()

    assert isinstance(sync, SyncGroupRequest)
    assert (
        sync.generation_id,
        sync.member_id,
        sync.protocol_type,
        sync.protocol_name,
        sync.assignments,
    ) == (1, "m1", "consumer", "range", [])
    assert script.member.state is MemberState.COMPLETING_REBALANCE
    assert script.member.leadership is None


def test_leader_syncs_with_what_it_assigned(script):
    assert script.completing(leader="m1") == []
    assert [each.member_id for each in script.member.leadership] == ["m1", "m2"]

    script.member.assign(script.member.generation, {"m1": b"a", "m2": b"b"}, script.now)
    (sync,) = script.sent()

    assert [(each.member_id, each.assignment) for each in sync.assignments] == [("m1", b"a"), ("m2", b"b")]
    assert script.member.leadership is None


def test_leader_that_need_not_assign_syncs_at_once(script):
    (sync,) = script.grant(script.join(), leader="m1", skip_assignment=True)

    assert isinstance(sync, SyncGroupRequest)
    assert sync.assignments == []
    assert script.member.leadership is None
    script.grant_sync(sync)
    assert script.member.assignment == b"mine"


def test_leader_that_need_not_assign_still_watches_all_members(script):
    script.grant(script.join(), leader="m1", skip_assignment=True)

    assert ["m1", "m2"] == [each.member_id for each in script.member.generation.watched]


@pytest.mark.parametrize("leader", ["m1", "other"])
def test_who_assigns_or_follows_has_nothing_to_watch(script, leader):
    script.completing(leader)

    assert script.member.generation.watched == ()


def test_assignment_of_an_ended_generation_is_dropped(script):
    script.completing(leader="m1")
    generation = script.member.generation
    script.answer(script.heartbeat(), Errors.ILLEGAL_GENERATION)

    script.member.assign(generation, {"m1": b"a"}, script.now)

    assert script.sent() == []


def test_stable_has_the_assignment(script):
    script.stable()

    assert script.member.state is MemberState.STABLE
    assert script.member.assignment == b"mine"
    assert not script.member.needs_join


def test_join_without_an_answer_is_repeated_after_rebalance_timeout_and_five_seconds(script):
    (first,) = script.answer(script.join(), Errors.MEMBER_ID_REQUIRED, member_id="m1")

    assert script.wait(JOIN_TIMEOUT - 1) == []
    (second,) = script.wait(1)

    assert (second.member_id, second.protocols) == ("m1", PROTOCOLS)
    assert second.request_id != first.request_id


def test_sync_without_an_answer_is_repeated_after_the_request_timeout(script):
    script.completing(leader="m1")
    script.member.assign(script.member.generation, {"m1": b"a"}, script.now)
    (first,) = script.sent()

    early = [each for each in script.wait(29_999) if isinstance(each, SyncGroupRequest)]
    (second,) = [each for each in script.wait(1) if isinstance(each, SyncGroupRequest)]

    assert early == []
    assert (second.member_id, second.assignments) == ("m1", first.assignments)


@pytest.mark.parametrize("error", [Errors.COORDINATOR_NOT_AVAILABLE, Errors.REBALANCE_IN_PROGRESS])
def test_join_is_tried_again_after_a_backoff(script, error):
    assert script.answer(script.join(), error) == []
    assert script.wait(499) == []
    assert [JoinGroupRequest] == [type(each) for each in script.wait(1)]


def test_sync_is_tried_again_after_a_backoff(script):
    (sync,) = script.completing()

    assert script.answer(sync, Errors.COORDINATOR_NOT_AVAILABLE) == []
    assert script.wait(499) == []
    assert [SyncGroupRequest] == [type(each) for each in script.wait(1)]


def test_join_with_an_unknown_id_begins_anew_without_it(script):
    script.stable()
    script.member.request_rejoin("test")
    (join,) = script.answer(script.join(), Errors.UNKNOWN_MEMBER_ID)

    assert join.member_id == ""
    assert script.member.generation is None


def test_unknown_id_for_a_join_without_one_does_not_spin(script):
    assert script.answer(script.join(), Errors.UNKNOWN_MEMBER_ID) == []
    assert [JoinGroupRequest] == [type(each) for each in script.wait(500)]


def test_sync_during_another_rebalance_joins_again_with_the_id(script):
    (sync,) = script.completing()
    (join,) = script.answer(sync, Errors.REBALANCE_IN_PROGRESS)

    assert join.member_id == "m1"
    assert script.member.generation is not None, "heartbeats go on"


@pytest.mark.parametrize(
    ("error", "member_id"), [(Errors.UNKNOWN_MEMBER_ID, ""), (Errors.ILLEGAL_GENERATION, "m1")]
)
def test_refused_sync_joins_again(script, error, member_id):
    (sync,) = script.completing()
    (join,) = script.answer(sync, error)

    assert (join.member_id, script.member.generation) == (member_id, None)


# -- heartbeats --------------------------------------------------------------------------------------


def test_heartbeat_interval_is_a_third_of_the_session_timeout_unless_given():
    assert SETTINGS.heartbeat_every_ms == 3_000
    assert dataclasses.replace(SETTINGS, heartbeat_interval_ms=100).heartbeat_every_ms == 100


def instants(script, late_ms):
    """When the member beats, by the time of day, if each heartbeat goes out `late_ms` after it is due."""
    script.stable()
    for _ in range(5):
        last, script.now = script.now, script.member.next_timer() + late_ms
        assert 0 < script.now - late_ms - last <= script.member.settings.heartbeat_every_ms
        script.member.poll(script.now)
        (heartbeat,) = script.sent(HeartbeatRequest)
        script.answer(heartbeat)
        yield script.now - late_ms + script.ahead_ms


@given(
    interval_ms=st.integers(1, 8_999),
    others_begin_ms=st.integers(0, 10**5),
    ahead_ms=st.tuples(st.integers(-(10**13), 10**13), st.integers(-(10**13), 10**13)),
    late=st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)),
)
def test_members_of_a_group_beat_in_step_and_never_later_than_they_have_to(
    interval_ms, others_begin_ms, ahead_ms, late
):
    settings = dataclasses.replace(SETTINGS, heartbeat_interval_ms=interval_ms)
    step = interval_ms if interval_ms < 3_000 else interval_ms // 1_000 * 1_000
    one, other = (Script(settings, ahead) for ahead in ahead_ms)
    other.now += others_begin_ms

    beats = [
        list(instants(script, int(share * step))) for script, share in zip((one, other), late, strict=True)
    ]

    assert len({at % step for at in beats[0] + beats[1]}) == 1
    if interval_ms >= 3_000:
        assert {at % 1_000 for at in beats[0]} == {0}, "the clock ticks then"


def test_groups_are_spread_over_the_seconds():
    scripts = [Script(dataclasses.replace(SETTINGS, group_id=f"g{number}"), 0) for number in range(30)]

    assert {next(instants(script, 0)) % 3_000 for script in scripts} == {0, 1_000, 2_000}


def test_no_heartbeats_before_there_is_a_generation(script):
    script.answer(script.join(), Errors.MEMBER_ID_REQUIRED, member_id="m1")

    assert not any(isinstance(each, HeartbeatRequest) for each in script.wait(200_000))


def test_heartbeats_begin_with_the_answer_of_the_join(script):
    script.completing(leader="m1")
    (heartbeat,) = script.wait(HEARTBEAT)

    assert isinstance(heartbeat, HeartbeatRequest)
    assert (heartbeat.member_id, heartbeat.generation_id) == ("m1", 1)


def test_heartbeats_go_on_unanswered(script):
    script.stable()

    assert len(script.wait(3_600_000)) == 1_200


def test_heartbeats_go_on_while_a_join_is_unanswered(script):
    script.stable()
    script.member.request_rejoin("test")
    script.join()

    heartbeats = [each for each in script.wait(60_000) if isinstance(each, HeartbeatRequest)]

    assert [each.generation_id for each in heartbeats] == [1] * 20


def test_a_join_does_not_put_heartbeats_off(script):
    script.stable()
    script.now += 2_000
    script.member.request_rejoin("test")
    script.grant(script.join(), generation_id=2)

    (heartbeat,) = script.wait(1_000)

    assert heartbeat.generation_id == 2


def test_one_heartbeat_after_a_long_silence(script):
    script.stable()
    script.now += 30_000
    script.member.handle_timer(script.now)

    assert len(script.sent()) == 1
    assert script.member.next_timer() == script.now + HEARTBEAT


def test_rebalance_in_progress_needs_a_join_with_the_same_id(script):
    script.stable()
    script.answer(script.heartbeat(), Errors.REBALANCE_IN_PROGRESS)

    assert script.member.needs_join
    assert script.member.assignment == b"mine", "owned until the user has given it up"
    assert script.join().member_id == "m1"


@pytest.mark.parametrize("phase", ["preparing", "completing"])
def test_rebalance_in_progress_is_no_news_during_a_rebalance(script, phase):
    script.completing(leader="m1")
    if phase == "preparing":
        script.member.assign(script.member.generation, {}, script.now)
        script.answer(script.sent()[0], Errors.REBALANCE_IN_PROGRESS)
    state = script.member.state

    assert script.answer(script.heartbeat(), Errors.REBALANCE_IN_PROGRESS) == []
    assert script.member.state is state


@pytest.mark.parametrize(
    ("error", "member_id"), [(Errors.UNKNOWN_MEMBER_ID, ""), (Errors.ILLEGAL_GENERATION, "m1")]
)
def test_lost_generation_takes_the_assignment_and_needs_a_join(script, error, member_id):
    script.stable()
    script.answer(script.heartbeat(), error)

    assert (
        script.member.state,
        script.member.generation,
        script.member.assignment,
    ) == (MemberState.UNJOINED, None, None)
    assert script.member.needs_join
    assert script.wait(60_000) == []
    join = script.join()
    assert (join.member_id, error.name in join.reason) == (member_id, True)


def test_lost_generation_before_the_sync_joins_again_at_once(script):
    script.completing(leader="m1")
    (join,) = script.answer(script.heartbeat(), Errors.UNKNOWN_MEMBER_ID)

    assert (join.member_id, script.member.leadership) == ("", None)


def test_lost_generation_during_a_join_leaves_the_rest_to_its_answer(script):
    script.stable()
    script.member.request_rejoin("test")
    join = script.join()
    assert script.answer(script.heartbeat(), Errors.ILLEGAL_GENERATION) == []
    assert script.member.generation is None

    (sync,) = script.grant(join, generation_id=7)

    assert sync.generation_id == 7


def test_heartbeat_to_an_absent_coordinator_changes_nothing(script):
    script.stable()

    assert script.answer(script.heartbeat(), Errors.COORDINATOR_NOT_AVAILABLE) == []
    assert script.member.state is MemberState.STABLE


# -- answers nobody waits for ------------------------------------------------------------------------


def test_answer_to_an_older_join_is_ignored(script):
    first = script.join()
    (second,) = script.wait(JOIN_TIMEOUT)

    assert script.grant(first) == []
    assert script.member.state is MemberState.PREPARING_REBALANCE
    assert len(script.grant(second)) == 1


def test_repeated_answers_are_ignored(script):
    first = script.join()
    (second,) = script.answer(first, Errors.MEMBER_ID_REQUIRED, member_id="m1")
    assert script.answer(first, Errors.MEMBER_ID_REQUIRED, member_id="m9") == []
    (sync,) = script.grant(second)
    assert script.grant(second) == []
    script.grant_sync(sync)

    script.answer(sync, assignment=b"something else")

    assert script.member.assignment == b"mine"


def test_heartbeat_answer_of_another_generation_is_ignored(script):
    script.stable()
    old = script.heartbeat()
    script.member.request_rejoin("test")
    (sync,) = script.grant(script.join(), generation_id=2)
    script.grant_sync(sync)

    script.answer(old, Errors.ILLEGAL_GENERATION)
    script.answer(old, Errors.UNKNOWN_MEMBER_ID)

    assert script.member.state is MemberState.STABLE


@pytest.mark.parametrize(
    "request_id", ["c1-i2-2", "c1-i1-", "c1-i1-x", "c1-i1-²", "", "c1-i1-" + "9" * 5_000]
)
def test_answers_to_others_are_ignored(script, request_id):
    script.stable()
    response = HeartbeatResponse(
        request_id=request_id, client_id="c1", group_id="orders", error_code=Errors.UNKNOWN_MEMBER_ID
    )

    script.member.receive(response, script.now)

    assert script.member.state is MemberState.STABLE


# -- refusals for good -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "advice"),
    [
        (Errors.INCONSISTENT_GROUP_PROTOCOL, errors.InconsistentGroupProtocolError, "assignor in common"),
        (Errors.INVALID_SESSION_TIMEOUT, errors.InvalidSessionTimeoutError, "group.min.session.timeout.ms"),
        (Errors.INVALID_GROUP_ID, errors.InvalidGroupIdError, "group_id"),
        (Errors.GROUP_MAX_SIZE_REACHED, errors.GroupMaxSizeReachedError, "group.max.size"),
        (Errors.INVALID_REQUEST, errors.InvalidRequestError, "setting"),
        (Errors.UNSUPPORTED_VERSION, errors.UnsupportedVersionError, "as new as"),
        (Errors.ILLEGAL_GENERATION, errors.UnexpectedAnswerError, "ILLEGAL_GENERATION, code 22"),
    ],
)
def test_fatal_error_says_what_to_do(script, error, kind, advice):
    assert script.answer(script.join(), error, message="the detail") == []

    assert script.member.state is MemberState.FAILED
    assert isinstance(script.member.failure, kind)
    assert advice in str(script.member.failure)
    assert "the detail" in str(script.member.failure)
    assert script.wait(1_000_000) == []


def test_fatal_error_of_a_sync(script):
    (sync,) = script.completing()
    script.answer(sync, Errors.INCONSISTENT_GROUP_PROTOCOL)

    assert isinstance(script.member.failure, errors.InconsistentGroupProtocolError)


@pytest.mark.parametrize("which", ["join", "heartbeat"])
def test_request_that_could_not_be_read_is_fatal(script, which):
    if which == "join":
        request = script.join()
    else:
        script.stable()
        request = script.heartbeat()
    answer = InvalidRequestResponse(
        api=None,
        request_id=request.request_id,
        client_id="c1",
        group_id=None,
        error_message="at `$.client_id`",
    )

    script.member.receive(answer, script.now)

    assert isinstance(script.member.failure, errors.InvalidRequestError)
    assert "$.client_id" in str(script.member.failure)


def test_heartbeats_ask_for_no_answer_that_says_nothing(script):
    script.stable()
    assert [script.heartbeat().quiet for _ in range(2)] == [True] * 2


def test_unknown_code_is_fatal(script):
    join = script.join()
    response = JoinGroupResponse(
        request_id=join.request_id, client_id="c1", group_id="orders", error_code=999, error="NEW"
    )
    script.member.receive(response, script.now)

    assert isinstance(script.member.failure, errors.UnexpectedAnswerError)
    assert "NEW, code 999" in str(script.member.failure)


@pytest.mark.parametrize(
    "fields",
    [
        {"generation_id": 1, "protocol_name": "range", "leader": "m1"},
        {"generation_id": 1, "member_id": "m1", "leader": "m1"},
        {"protocol_name": "range", "member_id": "m1", "leader": "m1"},
    ],
)
def test_join_granted_without_a_generation_is_fatal(script, fields):
    script.answer(script.join(), **fields)

    assert isinstance(script.member.failure, errors.UnexpectedAnswerError)


def test_group_that_shares_something_else_is_fatal(script):
    script.answer(
        script.join(),
        generation_id=1,
        member_id="m1",
        leader="m2",
        protocol_type="units",
        protocol_name="range",
    )

    assert isinstance(script.member.failure, errors.InconsistentGroupProtocolError)


def test_sync_of_another_protocol_is_fatal(script):
    (sync,) = script.completing()
    script.answer(sync, protocol_type="consumer", protocol_name="sticky")

    assert isinstance(script.member.failure, errors.InconsistentGroupProtocolError)


# -- the user ----------------------------------------------------------------------------------------


def test_user_that_does_not_poll_leaves_and_joins_at_the_next_poll(script):
    script.stable()
    sent = script.wait(60_000, polling=False)

    leave = sent[-1]
    assert isinstance(leave, LeaveGroupRequest)
    assert (leave.members[0].member_id, "max_poll_interval_ms" in leave.members[0].reason) == ("m1", True)
    assert script.member.assignment is None
    assert script.wait(600_000, polling=False) == []
    assert script.member.needs_join
    assert script.join().member_id == ""


def test_poll_that_comes_too_late_is_too_late(script):
    script.stable()
    script.now += 60_000
    script.member.poll(script.now)

    assert [LeaveGroupRequest] == [type(each) for each in script.sent()]


def test_user_that_does_not_poll_during_a_join_without_an_id_has_nothing_to_leave(script):
    script.join()

    assert script.wait(60_000, polling=False) == []
    assert script.member.state is MemberState.UNJOINED


def test_rejoin_asked_for_during_a_rebalance_waits_for_its_end(script):
    (sync,) = script.completing()
    script.member.request_rejoin("the subscription has changed")
    assert not script.member.needs_join
    script.grant_sync(sync)

    assert script.member.needs_join
    assert script.join().reason == "the subscription has changed"
    assert not script.member.needs_join


def test_reason_is_cut_to_what_kafka_carries(script):
    script.stable()
    script.member.request_rejoin("x" * 300)

    assert script.join().reason == "x" * 255


def test_close_leaves_with_a_reason(script):
    script.stable()
    script.member.close("closing time")
    (leave,) = script.sent()

    assert (leave.members[0].member_id, leave.members[0].reason) == ("m1", "closing time")


def test_close_without_an_id_sends_nothing(script):
    script.member.close("closing time")

    assert script.sent() == []


def test_failed_member_leaves_when_it_is_closed(script):
    (sync,) = script.completing()
    script.answer(sync, Errors.INCONSISTENT_GROUP_PROTOCOL)
    script.member.close("closing time")

    assert [LeaveGroupRequest] == [type(each) for each in script.sent()]


def test_closed_is_final(script):
    (sync,) = script.completing()
    script.member.close("closing time")
    script.sent()

    script.member.close("again")
    script.member.poll(script.now)
    script.grant_sync(sync)

    assert script.sent() == []
    assert script.member.next_timer() is None
    assert (script.member.state, script.member.needs_join) == (MemberState.CLOSED, False)
    with pytest.raises(IllegalMove):
        script.member.join("consumer", PROTOCOLS, script.now)


def test_join_out_of_turn_raises(script):
    script.join()

    with pytest.raises(IllegalMove):
        script.member.join("consumer", PROTOCOLS, script.now)


@pytest.mark.parametrize("current", MemberState)
@pytest.mark.parametrize("target", MemberState)
def test_moves_are_those_of_the_table(current, target):
    if target in TRANSITIONS[current]:
        assert transition(current, target) is target
    else:
        with pytest.raises(IllegalMove, match=current):
            transition(current, target)


@pytest.mark.parametrize(
    "changes",
    [
        {"group_id": ""},
        {"client_id": ""},
        {"heartbeat_interval_ms": 9_000},
        {"heartbeat_interval_ms": 0},
        {"session_timeout_ms": 2},
        {"max_poll_interval_ms": 0},
        {"group_instance_id": ""},
    ],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(ValueError, match="must"):
        dataclasses.replace(SETTINGS, **changes)


# -- static members ----------------------------------------------------------------------------------


def test_static_member_names_itself_in_all_requests(static):
    (sync,) = static.completing()
    static.grant_sync(sync)
    heartbeat = static.heartbeat()
    static.member.close("closing time", leave=True)
    (leave,) = static.sent()

    (join,) = [each for _, each in static.log if isinstance(each, JoinGroupRequest)]
    assert ["w1"] * 4 == [each.group_instance_id for each in (join, sync, heartbeat, leave.members[0])]
    assert (join.member_id, leave.members[0].member_id) == ("", "m1")


def test_dynamic_member_names_no_instance(script):
    script.stable()
    script.heartbeat()
    script.member.close("closing time")
    (leave,) = script.sent()

    requests = [each for _, each in script.log if not isinstance(each, LeaveGroupRequest)]
    assert {None} == {each.group_instance_id for each in (*requests, *leave.members)}


def test_static_member_that_is_unknown_begins_anew_under_its_name(static):
    static.stable()
    static.answer(static.heartbeat(), Errors.UNKNOWN_MEMBER_ID)
    join = static.join()
    assert (join.member_id, join.group_instance_id) == ("", "w1")

    static.grant_sync(*static.grant(join))
    static.member.request_rejoin("test")
    (join,) = static.answer(static.join(), Errors.UNKNOWN_MEMBER_ID)
    assert (join.member_id, join.group_instance_id) == ("", "w1")


def test_static_member_rejoins_with_its_id(static):
    static.stable()
    static.answer(static.heartbeat(), Errors.REBALANCE_IN_PROGRESS)

    assert static.join().member_id == "m1"


@pytest.mark.parametrize(
    ("instance", "leave", "leaves"),
    [(None, None, 1), (None, True, 1), (None, False, 0), ("w1", None, 0), ("w1", True, 1), ("w1", False, 0)],
)
def test_who_leaves_on_close(instance, leave, leaves):
    script = Script(dataclasses.replace(SETTINGS, group_instance_id=instance))
    script.stable()
    script.member.close("closing time", leave=leave)

    assert [LeaveGroupRequest] * leaves == [type(each) for each in script.sent()]
    assert script.member.state is MemberState.CLOSED
    assert script.member.next_timer() is None


def test_static_member_leaves_by_its_name_while_its_first_join_is_out(static):
    static.join()
    static.member.close("closing time", leave=True)
    (leave,) = static.sent()

    assert (leave.members[0].member_id, leave.members[0].group_instance_id) == ("", "w1")


def test_static_member_that_never_joined_has_nothing_to_leave(static):
    static.member.close("closing time", leave=True)

    assert static.sent() == []


def test_static_member_whose_user_does_not_poll_falls_silent_and_comes_back_as_if_started_again(static):
    static.stable()
    sent = static.wait(60_000, polling=False)

    assert {HeartbeatRequest} == {type(each) for each in sent}
    assert (static.member.state, static.member.assignment) == (MemberState.UNJOINED, None)
    assert static.wait(600_000, polling=False) == []
    join = static.join()
    assert (join.member_id, join.group_instance_id) == ("", "w1")
    assert "max_poll_interval_ms" in join.reason


@pytest.mark.parametrize("when", ["before", "while away"])
def test_static_member_that_comes_back_for_something_else_does_so_with_its_id(static, when):
    static.stable()
    if when == "before":
        static.member.request_rejoin("the subscription has changed")
    static.wait(60_000, polling=False)
    if when == "while away":
        static.member.request_rejoin("the subscription has changed")

    assert static.join().member_id == "m1", "so that there is a rebalance"


def test_static_member_whose_user_does_not_poll_can_still_leave(static):
    static.stable()
    static.wait(60_000, polling=False)
    static.member.close("closing time", leave=True)
    (leave,) = static.sent()

    assert (leave.members[0].member_id, leave.members[0].group_instance_id) == ("m1", "w1")


@pytest.mark.parametrize("which", ["join", "sync", "heartbeat"])
def test_fenced_member_does_nothing_any_more(static, which):
    (sync,) = static.completing()
    if which == "sync":
        request = sync
    else:
        static.grant_sync(sync)
        request = static.heartbeat()
        if which == "join":
            static.member.request_rejoin("test")
            request = static.join()

    assert static.answer(request, Errors.FENCED_INSTANCE_ID) == []

    assert (static.member.state, static.member.assignment) == (MemberState.FAILED, None)
    assert isinstance(static.member.failure, errors.FencedInstanceIdError)
    assert not static.member.needs_join
    assert static.wait(1_000_000) == []
    static.member.close("closing time", leave=True)
    assert static.sent() == []


def test_fenced_member_is_told_its_name_and_what_to_do(static):
    static.answer(static.join(), Errors.FENCED_INSTANCE_ID)

    assert str(static.member.failure) == (
        "group 'orders': FENCED_INSTANCE_ID (group_instance_id 'w1'). Another program runs under the same "
        "`group_instance_id` and has taken this member's place: end one of the two, or give each a name of "
        "its own."
    )


def test_static_member_is_not_fenced_by_its_own_second_join(static):
    first = static.join()
    (second,) = static.wait(JOIN_TIMEOUT)

    assert static.answer(first, Errors.FENCED_INSTANCE_ID) == []
    assert static.member.state is MemberState.PREPARING_REBALANCE
    assert len(static.grant(second)) == 1


def test_static_member_that_comes_back_is_not_fenced_by_what_it_sent_before(static):
    (sync,) = static.completing()
    heartbeat = static.heartbeat()
    static.wait(60_000, polling=False)
    (new_sync,) = static.grant(static.join(), generation_id=2)

    for old in (sync, heartbeat):
        assert static.answer(old, Errors.FENCED_INSTANCE_ID) == []
    static.grant_sync(new_sync)

    assert (static.member.state, static.member.assignment) == (MemberState.STABLE, b"mine")


# -- a storm -----------------------------------------------------------------------------------------


# What a coordinator may answer. Mostly what keeps a member going, or the storm would be over soon.
ANSWERS = {
    JoinGroupRequest: [
        *[Errors.NONE] * 9,
        Errors.MEMBER_ID_REQUIRED,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.REBALANCE_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.INCONSISTENT_GROUP_PROTOCOL,
        Errors.FENCED_INSTANCE_ID,
    ],
    SyncGroupRequest: [
        *[Errors.NONE] * 9,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.ILLEGAL_GENERATION,
        Errors.REBALANCE_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.INCONSISTENT_GROUP_PROTOCOL,
        Errors.FENCED_INSTANCE_ID,
    ],
    HeartbeatRequest: [
        *[Errors.NONE] * 4,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.ILLEGAL_GENERATION,
        Errors.REBALANCE_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.FENCED_INSTANCE_ID,
    ],
    LeaveGroupRequest: [Errors.NONE, Errors.UNKNOWN_MEMBER_ID],
    OffsetCommitRequest: [
        *[Errors.NONE] * 5,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.ILLEGAL_GENERATION,
        Errors.REBALANCE_IN_PROGRESS,
        Errors.OFFSET_METADATA_TOO_LARGE,
        Errors.FENCED_INSTANCE_ID,
    ],
    OffsetFetchRequest: [*[Errors.NONE] * 3, Errors.UNSUPPORTED_VERSION],
}


class Storm(Script):
    """Does anything that the world may do to a member, and checks after each that the rules hold."""

    def __init__(self, member_settings: MemberSettings) -> None:
        super().__init__(member_settings)
        self.answerable: list[AnyRequest] = []
        self.joins_out: dict[str, int] = {}
        self.last_heartbeat: int | None = None
        self.last_generation: object = None
        self.assignments: dict[int, bytes] = {}
        self.may_leave = False
        self.was_fenced = False
        self.calls = 0
        self.ended_calls: list[int] = []
        self.last_committed = 0

    def user(self, _: int) -> None:
        """What `GroupMember.poll` does."""
        self.member.poll(self.now)
        if self.member.needs_join:
            self.member.join("consumer", PROTOCOLS, self.now)
        elif self.member.leadership is not None and self.member.generation is not None:
            self.member.assign(self.member.generation, {"m1": b"mine"}, self.now)

    def rejoin(self, _: int) -> None:
        self.member.request_rejoin("storm")

    def commit(self, _: int) -> None:
        if self.member.state is MemberState.CLOSED:  # `GroupMember` asks nothing any more
            return
        self.calls += 1
        self.member.commit({"u": OffsetAndMetadata(self.calls)}, self.calls)

    def fetch(self, n: int) -> None:
        if self.member.state is MemberState.CLOSED:
            return
        self.calls += 1
        self.member.offset_calls.fetch(["u"], self.calls, self.now + n)

    def close(self, n: int) -> None:
        if n % 20 == 0:
            self.may_leave = n % 40 == 0
            self.member.close("storm", leave=self.may_leave or None)

    def respond(self, n: int) -> None:
        """Answer one of the newest requests: first time, repeated or late, as it ought to be or not."""
        if not self.answerable:
            return
        request = self.answerable[-1 - n % 3 if n % 3 < len(self.answerable) else -1]
        answers = ANSWERS[type(request)]
        error = answers[n // 3 % len(answers)]
        fields: dict[str, object] = {}
        if isinstance(request, JoinGroupRequest):
            leader = "m1" if n % 2 else "other"
            fields = {"member_id": "m1", "generation_id": n % 5, "protocol_name": "range", "leader": leader}
        elif isinstance(request, SyncGroupRequest):
            fields = {"assignment": str(n).encode()}
        response = RESPONSES[type(request)].to(request.reply_to, "orders", error, **fields)
        if response.request_id in self.joins_out:
            del self.joins_out[response.request_id]
        self.member.receive(response, self.now)

    def sleep(self, ms: int) -> None:
        end = self.now + ms
        while (timer := self.member.next_timer()) is not None and timer <= end:
            assert timer >= self.now, "a timer lies in the future, or is due now"
            self.now = timer
            self.member.handle_timer(self.now)
            self.check()
            after = self.member.next_timer()
            assert after is None or after > self.now, "a timer that was handled is not due again at once"
        self.now = end

    def check(self) -> None:
        for request in self.sent():
            self.check_request(request)
            self.answerable.append(request)
        self.check_calls()
        member = self.member
        self.was_fenced |= isinstance(member.failure, errors.FencedInstanceIdError)
        if member.state is MemberState.UNJOINED:
            self.joins_out.clear()  # given up
        if member.generation is None:
            self.last_heartbeat = None
        elif self.last_heartbeat is None:
            self.last_heartbeat = self.now
        else:
            assert self.now - self.last_heartbeat <= HEARTBEAT, "in a generation, heartbeats are on time"
        if member.assignment is not None:
            assert member.state is MemberState.STABLE
            assert member.generation is not None
            earlier = self.assignments.setdefault(member.generation.first_request, member.assignment)
            assert earlier == member.assignment, "one assignment per generation"
        assert (member.failure is None) or member.state in (MemberState.FAILED, MemberState.CLOSED)
        if member.state in (MemberState.FAILED, MemberState.CLOSED):
            fetches_end = member.offset_calls.next_timer()
            assert (member.generation, member.next_timer(), member.needs_join) == (None, fetches_end, False)

    def check_request(self, request: AnyRequest) -> None:
        state, settings = self.member.state, self.member.settings
        assert not self.was_fenced or isinstance(request, OffsetFetchRequest), "the fenced may only look"
        match request:
            case HeartbeatRequest():
                assert state is not MemberState.FAILED
                self.last_heartbeat = self.now
            case LeaveGroupRequest():
                assert self.may_leave or settings.group_instance_id is None, (
                    "a static member does not leave unless it is told to"
                )
            case JoinGroupRequest():
                waited = [at for at in self.joins_out.values() if self.now < at + JOIN_TIMEOUT]
                assert not waited, "at most one join is outstanding"
                self.joins_out[request.request_id] = self.now
            case OffsetCommitRequest():
                assert state is MemberState.STABLE, "who owns nothing commits nothing"
                offset = request.topics[0].partitions[0].committed_offset
                assert offset > self.last_committed, "commits go out once, and in order"
                self.last_committed = offset

    def check_calls(self) -> None:
        self.ended_calls += [each.token for each in self.member.offset_calls.take_outcomes()]
        assert len(self.ended_calls) == len(set(self.ended_calls)), "a call ends once"
        if self.member.state is MemberState.CLOSED:
            assert sorted(self.ended_calls) == list(range(1, self.calls + 1)), "every call ends"


MOVES = [
    st.tuples(st.just(Storm.user), st.just(0)),
    st.tuples(st.just(Storm.respond), st.just(0)),
    st.tuples(st.just(Storm.respond), st.integers(0, 10_000)),
    st.tuples(st.just(Storm.sleep), st.integers(0, 4_000)),
    st.tuples(st.just(Storm.commit), st.just(0)),
]
RARE_MOVES = [
    st.tuples(st.just(Storm.rejoin), st.just(0)),
    st.tuples(st.just(Storm.fetch), st.integers(0, 100_000)),
    st.tuples(st.just(Storm.sleep), st.integers(0, 80_000)),
    st.tuples(st.just(Storm.close), st.integers(0, 100)),
]


@pytest.mark.drawn
@settings(max_examples=cases(60, deep=600))
@given(
    st.sampled_from([SETTINGS, STATIC]),
    st.lists(st.one_of(*MOVES, *MOVES, *MOVES, *RARE_MOVES), min_size=50, max_size=100),
)
def test_no_storm_of_answers_and_timers_breaks_the_rules(
    member_settings: MemberSettings,
    moves: list[tuple[Callable[[Storm, int], None], int]],
) -> None:
    storm = Storm(member_settings)
    closed = False
    for move, argument in moves:
        move(storm, argument)
        storm.check()
        assert not closed or storm.member.state is MemberState.CLOSED, "closed is final"
        closed = storm.member.state is MemberState.CLOSED


def test_an_answer_of_another_group_changes_nothing(script):
    join = script.join()
    script.member.receive(
        JoinGroupResponse.to(join.reply_to, "other", Errors.GROUP_MAX_SIZE_REACHED), script.now
    )
    assert script.member.state is MemberState.PREPARING_REBALANCE
    assert script.member.failure is None
