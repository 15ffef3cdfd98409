"""The rules of a member of the consumer protocol, one test each."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from kafka.structs import OffsetAndMetadata

from group_coordinator.client import errors
from group_coordinator.client.consumer_requests import MemberPartition, Subscription
from group_coordinator.client.member_settings import ConsumerMemberSettings
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    AliveMember,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OwnedTopic,
    TopicFacts,
)
from group_coordinator.coordinator_state.responses import (
    AssignedTopic,
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    InvalidRequestResponse,
    OffsetFetchResponse,
)
from tests.client.consumer_script import (
    HINT,
    INTERVAL,
    SETTINGS,
    STATIC,
    SUBSCRIPTION,
    ConsumerScript,
    of_a,
)


@pytest.fixture
def script():
    return ConsumerScript()


@pytest.fixture
def static():
    return ConsumerScript(STATIC)


def alive(request):
    """The epoch of a heartbeat that says no more than that the member is alive."""
    assert request.topic_partitions is request.subscribed_topic_names is None
    (member,) = request.members
    return member.member_epoch


def owned(request):
    """The partitions in a heartbeat that says all."""
    assert request.is_full
    return frozenset(
        MemberPartition(each.name or "a", partition, each.topic_id or "")
        for each in request.topic_partitions
        for partition in each.partitions
    )


# -- joining -----------------------------------------------------------------------------------------


def test_a_join_says_all(script):
    assert script.join() == ConsumerGroupHeartbeatRequest(
        request_id="c1-i1-1",
        client_id="c1",
        client_host="host",
        reply_partition=3,
        group_id="orders",
        member_id="m1",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["a"],
        topic_partitions=[],
        topics=[HINT],
    )
    assert (script.member.state, script.member.epoch) == (MemberState.PREPARING_REBALANCE, None)
    assert not script.member.needs_join


def test_a_join_names_the_assignor_and_the_instance():
    settings = dataclasses.replace(STATIC, server_assignor="range", rebalance_timeout_ms=None)
    join = ConsumerScript(settings).join()

    assert (join.server_assignor, join.group_instance_id) == ("range", "w1")
    assert join.rebalance_timeout_ms == settings.max_poll_interval_ms


def test_the_answer_makes_a_member_that_may_take_its_partitions(script):
    assert script.answer(script.join(), 4, [0, 1]) == []

    member = script.member
    assert (member.epoch, member.state) == (4, MemberState.COMPLETING_REBALANCE)
    assert (member.to_take, member.owned, member.lost) == (of_a(0, 1), frozenset(), frozenset())
    assert member.take() == of_a(0, 1)
    assert (member.state, member.owned, member.take()) == (MemberState.STABLE, of_a(0, 1), frozenset())


def test_a_member_without_partitions_is_stable(script):
    script.joined()

    assert script.member.state is MemberState.STABLE


def test_units_have_no_id(script):
    script.joined()
    script.member.subscribe(Subscription(("eu",), (TopicFacts("eu", 1),)), script.now)
    response = ConsumerGroupHeartbeatResponse.to(
        script.one().reply_to,
        "orders",
        member_id="m1",
        member_epoch=2,
        assignment=[AssignedTopic(None, "eu", [0])],
    )
    script.member.receive(response, script.now)
    assert script.member.take() == {MemberPartition("eu", 0)}
    (request,) = script.wait(SETTINGS.say_all_every_ms)[-1:]

    assert request.topic_partitions == [OwnedTopic([0], name="eu")]


def test_an_unanswered_join_is_repeated_after_the_request_timeout(script):
    first = script.join()
    assert script.wait(29_999) == []
    (second,) = script.wait(1)

    assert (second.member_epoch, second.topics) == (0, [HINT])
    assert script.answer(first, 1, [0]) == []
    assert script.member.epoch is None, "the answer to the newest one counts"
    script.answer(second, 2, [0])
    assert script.member.epoch == 2


@pytest.mark.parametrize(
    "error",
    [
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        Errors.NOT_COORDINATOR,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.FENCED_MEMBER_EPOCH,
    ],
)
def test_a_join_is_tried_again_after_a_backoff(script, error):
    assert script.refuse(script.join(), error) == []
    assert script.wait(499) == []
    (again,) = script.wait(1)

    assert again.member_epoch == 0


def test_only_who_has_given_up_all_that_is_lost_joins(script):
    script.joined(0)
    script.tell(script.beat(), error=Errors.FENCED_MEMBER_EPOCH)
    script.member.join(SUBSCRIPTION, script.now)
    assert script.sent() == []

    script.member.give_up(of_a(0), script.now)
    assert script.member.needs_join
    assert script.join().member_epoch == 0


# -- heartbeats --------------------------------------------------------------------------------------


def test_a_heartbeat_says_only_that_the_member_is_alive(static):
    static.joined(0, epoch=7)

    request = static.beat()
    assert request.members == [AliveMember(member_id="m1", member_epoch=7, group_instance_id="w1")]
    assert request.quiet is True
    fields = msgspec.json.decode(msgspec.json.encode(request))
    envelope = {"api", "request_id", "client_id", "client_host", "reply_partition", "group_id"}
    assert fields.keys() == envelope | {"members", "quiet"}


def test_no_heartbeats_before_the_answer_to_the_join(script):
    script.join()

    assert [each.member_epoch for each in script.wait(90_000)] == [0, 0, 0]


def test_heartbeats_go_on_unanswered(script):
    script.joined(0)

    sent = script.wait(290_000)
    assert [alive(each) for each in sent] == [1] * 58
    assert (script.member.state, script.member.owned) == (MemberState.STABLE, of_a(0))


def test_the_coordinator_says_how_often(script):
    script.answer(script.join(), 1, [], interval_ms=2_000)
    assert len(script.wait(10_000)) == 5
    script.member.subscribe(SUBSCRIPTION, script.now)
    script.answer(script.one(), 1, [], interval_ms=0)
    assert len(script.wait(10_000)) == 5, "it did not say anything else"


@pytest.mark.parametrize("interval_ms", [0, -5])
def test_an_answer_without_an_interval_means_kafkas(script, interval_ms):
    script.answer(script.join(), 1, [], interval_ms=interval_ms)

    assert len(script.wait(10_000)) == 2


def test_members_of_a_group_send_theirs_at_the_same_instants():
    one, other = ConsumerScript(wall_ahead_ms=123), ConsumerScript(wall_ahead_ms=77_777)
    other.now += 777
    for each in (one, other):
        each.joined()

    instants = [each.member.next_timer() + ahead for each, ahead in ((one, 123), (other, 77_777))]
    assert {at % INTERVAL for at in instants} == {instants[0] % INTERVAL}
    assert instants[0] % 1_000 == 0, "the clock ticks then"


def test_now_and_then_a_heartbeat_says_all(script):
    script.joined(0, 1)
    (request,) = script.wait(300_000)[-1:]

    assert (owned(request), request.member_epoch, request.topics) == (of_a(0, 1), 1, [])
    assert script.answer(request, 1, [0, 1]) == []
    assert script.member.state is MemberState.STABLE
    script.member.poll(script.now)
    assert len([each for each in script.wait(300_000) if each.is_full]) == 1


def test_news_of_an_epoch_alone(script):
    script.joined(0)
    script.tell(script.beat(), 2)

    assert (script.member.epoch, script.member.owned) == (2, of_a(0))
    assert alive(script.beat()) == 2


def test_new_partitions_come_with_an_answer(script):
    script.joined(0)

    assert script.tell(script.beat(), 2, [0, 1]) == []
    assert (script.member.to_take, script.member.to_give_up) == (of_a(1), frozenset())
    assert script.member.take() == of_a(1)
    assert script.sent() == [], "nobody waits to hear of it"


# -- giving up ---------------------------------------------------------------------------------------


def test_the_coordinator_hears_at_once_what_was_given_up_and_not_before(script):
    script.joined(0, 1, 2)
    assert script.tell(script.beat(), 1, [0]) == []
    member = script.member
    assert (member.to_give_up, member.state) == (of_a(1, 2), MemberState.COMPLETING_REBALANCE)
    assert [alive(each) for each in script.wait(20_000)] == [1] * 4

    member.give_up(of_a(1), script.now)
    assert script.sent() == [], "there is something left"
    member.give_up(of_a(2), script.now)
    request = script.one()

    assert (owned(request), request.member_epoch) == (of_a(0), 1)
    assert script.answer(request, 2, [0]) == []
    assert (member.state, member.epoch) == (MemberState.STABLE, 2)


def test_nothing_new_is_taken_before_all_is_given_up(script):
    script.joined(0)
    script.tell(script.beat(), 2, [1])

    assert (script.member.to_take, script.member.take()) == (frozenset(), frozenset())
    script.member.give_up(of_a(0), script.now)
    script.answer(script.one(), 2, [1])
    assert script.member.take() == of_a(1)


def test_a_topic_that_is_made_again_is_another(script):
    script.joined(0)
    again = AssignedTopic("id-2", "a", [0])
    request = script.beat()
    script.tell(request, 2, [])
    script.member.give_up(of_a(0), script.now)
    response = ConsumerGroupHeartbeatResponse.to(
        script.one().reply_to, "orders", member_id="m1", member_epoch=3, assignment=[again]
    )
    script.member.receive(response, script.now)

    assert script.member.take() == {MemberPartition("a", 0, "id-2")}


def test_what_the_user_never_had_is_given_up_at_once(script):
    script.answer(script.join(), 1, [0, 1])
    (request,) = script.tell(script.beat(), 1, [0])

    assert owned(request) == of_a(0)


def test_who_is_told_again_at_the_same_epoch_says_all(script):
    """The coordinator waits for a partition to be given up of which this member has never heard."""
    script.joined(0)
    (request,) = script.tell(script.beat(), 1, [0])

    assert owned(request) == of_a(0)
    assert script.answer(request, 2, [0]) == []


def test_who_was_only_behind_need_not_say_anything(script):
    script.joined(0)
    first = script.beat()
    second = script.beat()
    assert script.tell(first, 2, [0, 1]) == []
    assert script.tell(second, 2, [0, 1]) == []

    assert script.member.epoch == 2


def test_a_heartbeat_that_says_all_names_what_the_user_may_take_at_any_moment(script):
    """Else the coordinator would give it to another member at once, and the user might have it by then."""
    script.joined(0)
    script.tell(script.beat(), 2, [0, 1])
    script.member.subscribe(SUBSCRIPTION, script.now)

    assert owned(script.one()) == of_a(0, 1)


def test_what_is_still_to_be_given_up_is_named_and_owed(script):
    script.joined(0, 1)
    script.tell(script.beat(), 1, [0])
    script.member.subscribe(SUBSCRIPTION, script.now)
    request = script.one()
    assert owned(request) == of_a(0, 1)
    assert script.answer(request, 1, [0]) == []

    script.member.give_up(of_a(1), script.now)
    assert owned(script.one()) == of_a(0)


# -- subscriptions -----------------------------------------------------------------------------------


def test_another_subscription_is_said_at_once_and_its_hints_until_they_are_answered(script):
    script.joined(0)
    script.member.subscribe(Subscription(("a", "b"), (TopicFacts("b", 1, "id-b"),)), script.now)
    first = script.one()
    assert (first.member_epoch, first.subscribed_topic_names) == (1, ["a", "b"])
    assert first.topics == [TopicFacts("b", 1, "id-b")]
    script.refuse(first, Errors.COORDINATOR_NOT_AVAILABLE)
    (second,) = script.wait(500)
    assert second.topics == first.topics
    script.answer(second, 2, [0])

    (third,) = script.wait(300_000)[-1:]
    assert (third.subscribed_topic_names, third.topics) == (["a", "b"], [])


def test_another_subscription_replaces_a_join_that_is_out(script):
    first = script.join()
    script.member.subscribe(Subscription(("b",)), script.now)
    second = script.one()

    assert (second.member_epoch, second.subscribed_topic_names) == (0, ["b"])
    script.answer(first, 1, [0])
    assert script.member.epoch is None


def test_a_subscription_says_nothing_before_the_join(script):
    script.member.subscribe(SUBSCRIPTION, script.now)

    assert (script.sent(), script.member.next_timer()) == ([], None)


# -- silence -----------------------------------------------------------------------------------------


def test_after_a_lost_answer_it_asks_whether_the_coordinator_is_there_and_says_all_again(script):
    script.joined(0)
    script.member.subscribe(SUBSCRIPTION, script.now)
    script.one()
    quiet = script.wait(29_999)
    assert [each.quiet for each in quiet] == [True] * 5
    asking = script.wait(600_000)[0]
    assert (alive(asking), asking.quiet) == (1, msgspec.UNSET)


def test_a_coordinator_that_is_away_finds_one_heartbeat_that_says_all(script):
    script.joined(0)
    script.member.subscribe(SUBSCRIPTION, script.now)
    sent = [*script.sent(), *script.wait(590_000)]

    assert [each.is_full for each in sent].count(True) == 1
    assert script.member.state is MemberState.STABLE
    script.answer(sent[0], 2, [0, 1])
    assert script.member.take() == of_a(1)
    assert script.tell(sent[-1], 2, [0, 1]) == [], "it has heard"
    assert script.beat().quiet is True


def test_the_first_answer_has_it_say_all_again(script):
    script.joined(0)
    script.member.subscribe(SUBSCRIPTION, script.now)
    script.sent()
    asking = script.wait(31_000)[-1]
    (again,) = script.tell(asking, news=False)

    assert (owned(again), again.topics) == (of_a(0), [HINT])
    assert script.answer(again, 1, [0]) == []


def test_news_for_a_later_one_has_it_say_all_again_with_the_newest_epoch(script):
    script.joined(0)
    script.member.subscribe(SUBSCRIPTION, script.now)
    first = script.one()
    (again,) = script.tell(script.beat(), 2, [0, 1])

    assert (again.member_epoch, owned(again)) == (2, of_a(0, 1))
    assert script.answer(first, 1, [0]) == []
    assert script.member.epoch == 2, "the late answer to the first changes nothing"


@pytest.mark.parametrize(
    "error",
    [Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR],
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_coordinator_that_is_not_there_takes_nothing(script, error, whole):
    script.joined(0, 1)
    request = script.beat()
    assert (script.refuse(request, error) if whole else script.tell(request, error=error)) == []
    assert (script.member.state, script.member.owned) == (MemberState.STABLE, of_a(0, 1))
    assert script.wait(499) == []
    (again,) = script.wait(1)

    assert (owned(again), again.member_epoch) == (of_a(0, 1), 1)


# -- losing membership -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID, Errors.GROUP_ID_NOT_FOUND]
)
@pytest.mark.parametrize("whole", [True, False])
def test_all_is_lost_with_the_place_in_the_group(script, error, whole):
    script.joined(0, 1)
    if whole:
        script.member.subscribe(SUBSCRIPTION, script.now)
        assert script.refuse(script.one(), error) == []
    else:
        assert script.tell(script.beat(), error=error) == []

    member = script.member
    assert (member.state, member.epoch, member.lost) == (MemberState.UNJOINED, None, of_a(0, 1))
    assert (member.to_give_up, member.to_take, member.needs_join) == (frozenset(), frozenset(), False)
    assert script.wait(60_000) == []
    member.give_up(member.lost, script.now)
    join = script.join()
    assert (join.member_id, join.member_epoch, join.topic_partitions, join.topics) == ("m1", 0, [], [HINT])


@pytest.mark.parametrize(("settings", "epoch"), [(SETTINGS, -1), (STATIC, -2)])
def test_a_user_who_does_not_poll_in_time_loses_all_and_joins_again(settings, epoch):
    script = ConsumerScript(settings)
    script.joined(0)
    script.wait(599_999)
    (request,) = script.wait(1)

    assert (request.member_epoch, request.member_id) == (epoch, "m1")
    assert (script.member.state, script.member.lost) == (MemberState.UNJOINED, of_a(0))
    script.member.poll(script.now)
    script.member.give_up(of_a(0), script.now)
    assert script.join().member_epoch == 0


def test_a_user_who_comes_too_late_is_late_whichever_thread_comes_first(script):
    script.joined(0)
    script.now += 600_000
    script.member.poll(script.now)

    assert script.member.lost == of_a(0)


def test_a_user_who_polls_keeps_what_it_has(script):
    script.joined(0)
    for _ in range(3):
        script.wait(400_000)
        script.member.poll(script.now)

    assert script.member.owned == of_a(0)


def test_a_member_that_nobody_polls_for_is_in_the_group_only_by_a_join(script):
    script.member.join(SUBSCRIPTION, script.now)
    script.answer(script.one(), 1, [])

    assert all(alive(each) for each in script.wait(200_000))


# -- refused for good --------------------------------------------------------------------------------


FATAL = {
    Errors.UNKNOWN_SERVER_ERROR: errors.UnexpectedAnswerError,
    Errors.TOPIC_AUTHORIZATION_FAILED: errors.UnexpectedAnswerError,
    Errors.GROUP_AUTHORIZATION_FAILED: errors.UnexpectedAnswerError,
    Errors.UNSUPPORTED_VERSION: errors.UnsupportedVersionError,
    Errors.INVALID_REQUEST: errors.InvalidRequestError,
    Errors.GROUP_ID_NOT_FOUND: errors.GroupIdNotFoundError,
    Errors.GROUP_MAX_SIZE_REACHED: errors.GroupMaxSizeReachedError,
    Errors.FENCED_INSTANCE_ID: errors.FencedInstanceIdError,
    Errors.UNRELEASED_INSTANCE_ID: errors.UnreleasedInstanceIdError,
    Errors.UNSUPPORTED_ASSIGNOR: errors.UnsupportedAssignorError,
    Errors.INVALID_REGULAR_EXPRESSION: errors.UnexpectedAnswerError,
}


@pytest.mark.parametrize(("error", "kind"), FATAL.items())
def test_a_join_that_is_refused_for_good(script, error, kind):
    assert script.refuse(script.join(), error, "because") == []

    member = script.member
    assert type(member.failure) is kind
    assert "because" in str(member.failure)
    assert (member.state, member.next_timer(), member.needs_join) == (MemberState.FAILED, None, False)


@pytest.mark.parametrize("error", FATAL.keys() - {Errors.GROUP_ID_NOT_FOUND})
def test_a_heartbeat_that_is_refused_for_good_loses_all(script, error):
    script.joined(0)
    assert script.tell(script.beat(), error=error) == []

    assert type(script.member.failure) is FATAL[error]
    assert (script.member.state, script.member.lost) == (MemberState.FAILED, of_a(0))
    assert script.wait(100_000) == []


def test_a_fenced_member_names_its_instance_and_does_not_leave(static):
    static.joined(0)
    static.tell(static.beat(), error=Errors.FENCED_INSTANCE_ID)
    assert "'w1'" in str(static.member.failure)
    static.member.close(leave=True)

    assert static.sent() == []


def test_who_failed_otherwise_leaves_on_closing(script):
    script.joined(0)
    script.tell(script.beat(), error=Errors.UNKNOWN_SERVER_ERROR)
    script.member.close()

    assert script.one().member_epoch == -1


@pytest.mark.parametrize("epoch", [0, -1])
def test_an_answer_without_an_epoch_is_refused(script, epoch):
    script.answer(script.join(), epoch, [0])

    assert isinstance(script.member.failure, errors.UnexpectedAnswerError)
    assert script.member.to_take == frozenset()


def test_an_answer_without_an_epoch_to_a_later_heartbeat_is_refused(script):
    script.joined(0)
    assert script.tell(script.beat(), 0, [0]) == []

    assert script.member.state is MemberState.FAILED


@pytest.mark.parametrize("says_all", [True, False])
def test_a_request_that_cannot_be_read_is_refused_for_good(script, says_all):
    script.joined(0)
    request = script.wait(300_000)[-1] if says_all else script.beat()
    response = InvalidRequestResponse(
        request_id=request.request_id,
        client_id="c1",
        group_id="orders",
        api="consumer_group_heartbeat",
        error_code=Errors.INVALID_REQUEST,
        error="INVALID_REQUEST",
        error_message="at `$.members`",
    )
    script.member.receive(response, script.now)

    assert isinstance(script.member.failure, errors.InvalidRequestError)
    assert "$.members" in str(script.member.failure)


# -- answers nobody waits for ------------------------------------------------------------------------


def test_a_repeated_answer_changes_nothing(script):
    script.joined(0)
    first = script.beat()
    script.tell(first, 2, [0, 1])
    script.tell(script.beat(), 3, [0, 1])
    assert script.tell(first, 2, [0]) == []
    script.member.subscribe(SUBSCRIPTION, script.now)
    request = script.one()
    script.answer(request, 4, [0, 1, 2])
    assert script.answer(request, 1, []) == []

    assert (script.member.epoch, script.member.to_take) == (4, of_a(1, 2))


def test_an_answer_to_what_was_sent_before_a_heartbeat_that_says_all_changes_nothing(script):
    script.joined(0)
    before = script.beat()
    script.member.subscribe(SUBSCRIPTION, script.now)
    request = script.one()
    assert script.tell(before, 2, []) == []
    script.answer(request, 2, [0, 1])

    assert (script.member.epoch, script.member.to_give_up) == (2, frozenset())


def test_who_is_out_hears_it_also_by_an_answer_to_what_was_sent_before(script):
    script.joined(0)
    before = script.beat()
    script.member.subscribe(SUBSCRIPTION, script.now)
    script.one()
    assert script.tell(before, error=Errors.UNKNOWN_MEMBER_ID) == []

    assert script.member.lost == of_a(0)


def test_an_answer_to_an_earlier_stay_changes_nothing(script):
    script.joined(0)
    before = script.beat()
    script.tell(script.beat(), error=Errors.FENCED_MEMBER_EPOCH)
    assert script.tell(before, 9, [3]) == []
    script.member.give_up(of_a(0), script.now)
    script.answer(script.join(), 2, [1])
    assert script.tell(before, error=Errors.FENCED_MEMBER_EPOCH) == []

    assert script.member.to_take == of_a(1)


@pytest.mark.parametrize(
    "request_id", ["c1-i2-2", "c1-i1-", "c1-i1-x", "c1-i1-²", "", "c1-i1-" + "9" * 5_000]
)
def test_answers_to_others_are_ignored(script, request_id):
    script.joined(0)
    request = msgspec.structs.replace(script.beat(), request_id=request_id)
    script.tell(request, error=Errors.UNKNOWN_MEMBER_ID)

    assert script.member.state is MemberState.STABLE


@pytest.mark.parametrize("group_id", ["other", "orders"])
def test_an_answer_that_does_not_fit_is_ignored(script, group_id):
    join = script.join()
    answer = ConsumerGroupHeartbeatResponse.to(
        join.reply_to, group_id, member_id="m1" if group_id == "other" else "m2", member_epoch=1
    )
    script.member.receive(answer, script.now)
    script.member.receive(HeartbeatResponse.to(join.reply_to, "orders", Errors.UNKNOWN_MEMBER_ID), script.now)
    assert script.member.state is MemberState.PREPARING_REBALANCE

    script.answer(join, 1, [])
    request = script.beat()
    script.member.receive(
        ConsumerGroupHeartbeatResponse.to(request.reply_to, "other", Errors.UNSUPPORTED_VERSION), script.now
    )
    assert script.member.state is MemberState.STABLE


def test_an_answer_before_the_first_heartbeat_was_sent_is_not_its(script):
    script.joined()
    request = ConsumerGroupHeartbeatRequest(
        request_id="c1-i1-2", client_id="c1", group_id="orders", members=[]
    )
    assert script.refuse(request, Errors.UNSUPPORTED_VERSION) == []

    assert script.member.failure is None


# -- leaving -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "leave", "epochs"),
    [
        (SETTINGS, None, [-1]),
        (SETTINGS, True, [-1]),
        (SETTINGS, False, []),
        (STATIC, None, [-2]),
        (STATIC, False, [-2]),
        (STATIC, True, [-1]),
    ],
)
def test_a_member_leaves_for_good_or_for_a_while(settings, leave, epochs):
    script = ConsumerScript(settings)
    script.joined(0)
    script.member.give_up(of_a(0), script.now)
    script.member.close(leave=leave)
    script.member.close(leave=True)

    sent = script.sent()
    assert [each.member_epoch for each in sent] == epochs
    assert {(each.member_id, each.group_instance_id) for each in sent} <= {("m1", settings.group_instance_id)}
    assert (script.member.state, script.member.next_timer()) == (MemberState.CLOSED, None)


def test_who_never_joined_does_not_leave(script):
    script.member.close()

    assert script.sent() == []


def test_who_is_joining_leaves(script):
    script.join()
    script.member.close()

    assert script.one().member_epoch == -1


def test_who_is_not_in_the_group_any_more_does_not_leave(script):
    script.joined(0)
    script.tell(script.beat(), error=Errors.UNKNOWN_MEMBER_ID)
    script.member.close()

    assert script.sent() == []


def test_closed_is_final(script):
    script.joined(0)
    request = script.beat()
    script.member.close()
    script.sent()
    script.tell(request, 2, [0, 1])
    script.member.subscribe(SUBSCRIPTION, script.now)
    script.member.join(SUBSCRIPTION, script.now)
    script.member.poll(script.now)

    assert (script.sent(), script.member.state) == ([], MemberState.CLOSED)


# -- offsets -----------------------------------------------------------------------------------------


def committed(script):
    (request,) = script.sent()
    assert isinstance(request, OffsetCommitRequest)
    return request


def outcome(script):
    (outcome,) = script.member.offset_calls.take_outcomes()
    return outcome


def test_a_commit_has_the_members_epoch(static):
    static.joined(0, epoch=5)
    static.member.commit({"eu": OffsetAndMetadata(7)}, "token")

    request = committed(static)
    assert (request.generation_id, request.member_id, request.group_instance_id) == (5, "m1", "w1")


def test_a_member_commits_while_it_gives_up(script):
    script.joined(0, 1)
    script.tell(script.beat(), 1, [0])
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")

    assert committed(script).generation_id == 1


@pytest.mark.parametrize(
    ("joins", "kind"), [(True, errors.RebalanceInProgressError), (False, errors.CommitFailedError)]
)
def test_who_is_not_in_the_group_commits_nothing(script, joins, kind):
    if joins:
        script.join()
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")

    assert script.sent() == []
    assert isinstance(outcome(script).error, kind)


def test_who_failed_commits_nothing(script):
    script.refuse(script.join(), Errors.UNSUPPORTED_ASSIGNOR)
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")

    assert outcome(script).error is script.member.failure


@pytest.mark.parametrize(
    "error", [Errors.STALE_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID, Errors.GROUP_ID_NOT_FOUND]
)
def test_a_refused_commit_fails_and_has_the_member_ask_at_once(script, error):
    script.joined(0)
    script.member.commit({"eu": OffsetAndMetadata(7)}, "one")
    script.member.commit({"us": OffsetAndMetadata(7)}, "two")
    one, two = script.sent()
    (request,) = script.refuse(one, error)
    assert owned(request) == of_a(0)
    assert script.refuse(two, error) == [], "it has asked"

    assert {type(each.error) for each in script.member.offset_calls.take_outcomes()} == {
        errors.CommitFailedError
    }


def test_a_refused_commit_of_an_earlier_stay_asks_nothing(script):
    script.joined(0)
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")
    request = committed(script)
    script.tell(script.beat(), error=Errors.UNKNOWN_MEMBER_ID)

    assert script.refuse(request, Errors.UNKNOWN_MEMBER_ID) == []


def test_a_commit_that_is_refused_for_its_own_sake_asks_nothing(script):
    script.joined(0)
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")

    assert script.refuse(committed(script), Errors.OFFSET_METADATA_TOO_LARGE) == []


def test_an_answer_that_is_no_answer_to_a_commit_is_ignored(script):
    script.joined(0)
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")
    request = committed(script)
    script.member.receive(HeartbeatResponse.to(request.reply_to, "orders"), script.now)
    script.member.receive(OffsetFetchResponse.to(request.reply_to, "other"), script.now)

    assert script.member.offset_calls.awaits_commits


def test_a_fetch_that_is_refused_asks_nothing(script):
    script.joined(0)
    script.member.offset_calls.fetch(["eu"], "token", script.now + 1_000)
    (request,) = script.sent()
    assert isinstance(request, OffsetFetchRequest)
    script.member.receive(
        OffsetFetchResponse.to(request.reply_to, "orders", Errors.GROUP_AUTHORIZATION_FAILED), script.now
    )

    assert script.sent() == []
    assert outcome(script).error is not None


def test_closing_ends_all_calls(script):
    script.joined(0)
    script.member.commit({"eu": OffsetAndMetadata(7)}, "token")
    script.member.close()

    assert "has not answered" in str(outcome(script).error)


# -- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"group_id": " "}, "must not be empty"),
        ({"client_id": ""}, "must not be empty"),
        ({"group_instance_id": " "}, "group_instance_id must not be empty"),
        ({"max_poll_interval_ms": 0}, "must be positive"),
        ({"rebalance_timeout_ms": 0}, "must be positive"),
        ({"rebalance_timeout_ms": 2**31}, "at most 2147483647"),
        ({"request_timeout_ms": -1}, "must be positive"),
        ({"retry_backoff_ms": 0}, "must be positive"),
        ({"say_all_every_ms": 0}, "must be positive"),
    ],
)
def test_settings_that_cannot_work(wrong, said):
    with pytest.raises(ValueError, match=said):
        ConsumerMemberSettings(**{"group_id": "g", "client_id": "c", **wrong})
