"""Commits and fetches of a member, one rule each; without threads and without a clock."""

from __future__ import annotations

import pytest
from kafka import errors as kafka
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    InvalidRequestError,
    MembershipError,
    RebalanceInProgressError,
    UnexpectedAnswerError,
    UnsupportedVersionError,
)
from group_coordinator.client.offsets import Outcome, checked_offsets, checked_units
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    HeartbeatRequest,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
    OffsetFetchRequest,
    OffsetFetchTopic,
)
from group_coordinator.coordinator_state.responses import (
    FetchedOffset,
    FetchedOffsetsOfTopic,
    HeartbeatResponse,
    InvalidRequestResponse,
    OffsetCommitResponse,
    PartitionResult,
    TopicResult,
)
from tests.client.script import STATIC, Script

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FAR = 10**9


@pytest.fixture
def script() -> Script:
    script = Script()
    script.stable()
    return script


def commit(script, *units, token="commit"):
    script.member.commit({unit: OffsetAndMetadata(5) for unit in units or (A0,)}, token)
    (request,) = script.sent() or (None,)
    return request


def fetch(script, *units, token="fetch", expires_in=FAR):
    script.member.offset_calls.fetch(units or (A0,), token, script.now + expires_in)
    (request,) = script.sent()
    return request


def outcome(script):
    (outcome,) = script.member.offset_calls.take_outcomes()
    return outcome


def refused(request, *codes):
    """What an OffsetCommit answers for its partitions, in their order."""
    partitions = [(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions]
    return [
        TopicResult(name, [PartitionResult(partition, code)])
        for (name, partition), code in zip(partitions, codes, strict=True)
    ]


# -- commits -----------------------------------------------------------------------------------------


def test_commit_says_who_commits_what(script):
    offsets = {A0: OffsetAndMetadata(5, "up to here", 3), B0: OffsetAndMetadata(0), A1: OffsetAndMetadata(7)}
    script.member.commit(offsets, "token")

    assert script.sent() == [
        OffsetCommitRequest(
            request_id="c1-i1-offsets-4",
            client_id="c1",
            client_host="host",
            reply_partition=3,
            group_id="orders",
            generation_id=1,
            member_id="m1",
            topics=[
                OffsetCommitTopic(
                    "a",
                    [
                        OffsetCommitPartition(
                            partition_index=0,
                            committed_offset=5,
                            committed_leader_epoch=3,
                            committed_metadata="up to here",
                        ),
                        OffsetCommitPartition(partition_index=1, committed_offset=7, committed_metadata=""),
                    ],
                ),
                OffsetCommitTopic(
                    "b", [OffsetCommitPartition(partition_index=0, committed_offset=0, committed_metadata="")]
                ),
            ],
        )
    ]


def test_commit_without_a_leader_epoch_says_so_as_kafka_does(script):
    script.member.commit({A0: OffsetAndMetadata(5, "", None)}, "token")

    (request,) = script.sent()
    assert request.topics[0].partitions[0].committed_leader_epoch == -1


def test_commit_of_a_unit_is_of_partition_0_of_its_name(script):
    request = commit(script, "eu")

    assert [("eu", [0])] == [
        (each.name, [p.partition_index for p in each.partitions]) for each in request.topics
    ]


def test_static_member_commits_under_its_name():
    static = Script(STATIC)
    static.stable()

    assert commit(static).group_instance_id == "w1"


def test_commit_ends_with_its_answer(script):
    first, second = commit(script, token=1), commit(script, token=2)
    assert script.member.offset_calls.take_outcomes() == []
    assert script.member.offset_calls.awaits_commits

    script.answer(second)
    script.answer(first)

    assert script.member.offset_calls.take_outcomes() == [Outcome(2), Outcome(1)]
    assert script.member.offset_calls.take_outcomes() == []
    assert not script.member.offset_calls.awaits_commits


def test_repeated_answer_ends_nothing(script):
    request = commit(script)
    script.answer(request)
    outcome(script)

    script.answer(request)
    script.answer(request, Errors.ILLEGAL_GENERATION)

    assert script.member.offset_calls.take_outcomes() == []


def test_commit_is_not_repeated_however_long_its_answer_takes(script):
    request = commit(script)

    sent = script.wait(3_600_000)

    assert {HeartbeatRequest} == {type(each) for each in sent}
    assert script.member.offset_calls.take_outcomes() == []
    script.answer(request)
    assert outcome(script) == Outcome("commit")


@pytest.mark.parametrize(
    "error", [Errors.ILLEGAL_GENERATION, Errors.UNKNOWN_MEMBER_ID, Errors.GROUP_ID_NOT_FOUND]
)
def test_commit_of_a_group_that_has_gone_on_fails_and_loses_the_generation(script, error):
    request = commit(script)
    script.answer(request, error, topics=refused(request, error))

    failure = outcome(script).error
    assert type(failure) is CommitFailedError
    assert f"group 'orders': {error.name}. The group has gone on without this member" in str(failure)
    assert (script.member.state, script.member.generation) == (MemberState.UNJOINED, None)
    join = script.join()
    assert join.member_id == ("m1" if error is Errors.ILLEGAL_GENERATION else "")


def test_commit_during_a_rebalance_may_be_tried_again_after_a_join(script):
    script.answer(commit(script), Errors.REBALANCE_IN_PROGRESS)

    failure = outcome(script).error
    assert type(failure) is RebalanceInProgressError
    assert "poll until there is an assignment" in str(failure)
    assert script.member.needs_join
    assert script.member.assignment == b"mine", "owned until the user has given it up"


def test_commit_of_a_fenced_member_ends_the_membership():
    static = Script(STATIC)
    static.stable()
    static.answer(commit(static), Errors.FENCED_INSTANCE_ID)

    failure = outcome(static).error
    assert type(failure) is FencedInstanceIdError
    assert isinstance(failure, kafka.FencedInstanceIdError)
    assert str(failure).startswith("group 'orders': FENCED_INSTANCE_ID. Another program")
    assert static.member.state is MemberState.FAILED


def test_late_refusal_says_nothing_of_a_newer_generation(script):
    old = commit(script)
    script.member.request_rejoin("test")
    (sync,) = script.grant(script.join(), generation_id=2)
    script.grant_sync(sync)

    script.answer(old, Errors.ILLEGAL_GENERATION)

    assert type(outcome(script).error) is CommitFailedError
    assert script.member.state is MemberState.STABLE


def test_refusal_of_some_partitions_names_them(script):
    code = Errors.OFFSET_METADATA_TOO_LARGE
    request = commit(script, A0, A1, "eu")
    script.answer(request, topics=refused(request, code, Errors.NONE, code))

    failure = outcome(script).error
    assert type(failure) is kafka.OffsetMetadataTooLargeError
    assert "OFFSET_METADATA_TOO_LARGE (for a-0, eu). The other offsets are committed." in str(failure)
    assert "offset.metadata.max.bytes" in str(failure)
    assert script.member.state is MemberState.STABLE


def test_different_refusals_are_all_told(script):
    request = commit(script, A0, A1)
    codes = (Errors.INVALID_COMMIT_OFFSET_SIZE, Errors.OFFSET_METADATA_TOO_LARGE)
    script.answer(request, topics=refused(request, *codes))

    failure = outcome(script).error
    assert type(failure) is kafka.InvalidCommitOffsetSizeError
    assert "INVALID_COMMIT_OFFSET_SIZE (for a-0; OFFSET_METADATA_TOO_LARGE for a-1)." in str(failure)
    assert "max.group.offsets" in str(failure)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (Errors.COORDINATOR_NOT_AVAILABLE, kafka.CoordinatorNotAvailableError),
        (Errors.UNSUPPORTED_VERSION, UnsupportedVersionError),
        (Errors.UNKNOWN_SERVER_ERROR, UnexpectedAnswerError),
    ],
)
def test_other_refusals_are_of_the_commit_alone(script, code, kind):
    script.answer(commit(script), code)

    assert type(outcome(script).error) is kind
    assert script.member.state is MemberState.STABLE


def test_code_from_the_future_is_told(script):
    request = commit(script)
    script.answer(request, topics=refused(request, 999))

    assert "an error unknown here, code 999: for a-0" in str(outcome(script).error)


def test_commit_that_cannot_be_read_is_refused_alone_and_once(script):
    request = commit(script)
    answer = InvalidRequestResponse(
        api="offset_commit",
        request_id=request.request_id,
        client_id="c1",
        group_id="orders",
        error_code=Errors.INVALID_REQUEST,
        error="INVALID_REQUEST",
        error_message="too long - at `$.topics[0].name`",
    )
    for _ in range(2):  # answers are at-least-once
        script.member.receive(answer, script.now)

    failure = outcome(script).error
    assert type(failure) is InvalidRequestError
    assert "topics[0].name" in str(failure)
    assert script.member.state is MemberState.STABLE


def test_answer_of_another_kind_is_ignored(script):
    request = commit(script)
    answer = HeartbeatResponse.to(request.reply_to, "orders", Errors.UNKNOWN_MEMBER_ID)

    script.member.receive(answer, script.now)

    assert script.member.offset_calls.take_outcomes() == []
    assert script.member.state is MemberState.STABLE


def test_a_fetch_that_is_put_off_is_asked_again(script):
    calls = script.member.offset_calls
    script.answer(fetch(script), Errors.COORDINATOR_LOAD_IN_PROGRESS)
    assert (calls.take_outcomes(), calls.next_timer()) == ([], script.now + 500)

    calls.handle_timer(script.now + 499)
    assert script.sent() == []
    calls.handle_timer(script.now + 500)
    (again,) = script.sent()
    assert calls.awaits(again.request_id)
    script.answer(again, topics=[FetchedOffsetsOfTopic("a", [FetchedOffset(partition_index=0)])])
    assert outcome(script) == Outcome("fetch", {A0: None})


def test_a_fetch_that_is_put_off_for_ever_ends_in_time(script):
    calls = script.member.offset_calls
    script.answer(fetch(script, expires_in=600), Errors.COORDINATOR_LOAD_IN_PROGRESS)
    calls.handle_timer(script.now + 500)
    script.answer(script.sent()[0], Errors.COORDINATOR_LOAD_IN_PROGRESS)
    calls.handle_timer(script.now + 1_000)
    assert type(outcome(script).error) is kafka.KafkaTimeoutError


# -- commits that are not sent -----------------------------------------------------------------------


def test_commit_before_the_first_join_fails_at_once():
    script = Script()

    assert commit(script) is None
    failure = outcome(script).error
    assert type(failure) is CommitFailedError
    assert "this member is not in the group" in str(failure)


def test_commit_after_the_generation_is_lost_fails_at_once(script):
    script.answer(script.heartbeat(), Errors.UNKNOWN_MEMBER_ID)

    assert commit(script) is None
    assert type(outcome(script).error) is CommitFailedError


@pytest.mark.parametrize("phase", ["preparing", "completing"])
def test_commit_between_assignments_fails_at_once(script, phase):
    script.member.request_rejoin("test")
    join = script.join()
    if phase == "completing":
        script.grant(join)

    assert commit(script) is None
    assert type(outcome(script).error) is RebalanceInProgressError


def test_commit_of_a_failed_member_fails_with_what_it_failed_for(script):
    script.answer(script.heartbeat(), Errors.FENCED_INSTANCE_ID)

    assert commit(script) is None
    assert outcome(script).error is script.member.failure


def test_commit_that_is_too_large_is_not_sent(script):
    metadata = "x" * 4_000
    offsets = {TopicPartition("a", i): OffsetAndMetadata(i, metadata) for i in range(250)}
    script.member.commit(offsets, "token")

    assert script.sent() == []
    failure = outcome(script).error
    assert type(failure) is kafka.InvalidCommitOffsetSizeError
    assert "too large, the limit is 1000000. Nothing was committed: commit fewer" in str(failure)
    assert not script.member.offset_calls.awaits_commits


# -- fetches -----------------------------------------------------------------------------------------


def test_fetch_needs_no_membership():
    script = Script()

    assert fetch(script, A0, B0, "eu", A1) == OffsetFetchRequest(
        request_id="c1-i1-offsets-1",
        client_id="c1",
        client_host="host",
        reply_partition=3,
        group_id="orders",
        topics=[OffsetFetchTopic("a", [0, 1]), OffsetFetchTopic("b", [0]), OffsetFetchTopic("eu", [0])],
    )
    assert not script.member.offset_calls.awaits_commits


def test_fetch_tells_what_is_committed_and_what_is_not(script):
    topics = [
        FetchedOffsetsOfTopic(
            "a",
            [
                FetchedOffset(partition_index=0, committed_offset=0, committed_leader_epoch=2, metadata="x"),
                FetchedOffset(partition_index=1),
            ],
        ),
        FetchedOffsetsOfTopic("eu", [FetchedOffset(partition_index=0, committed_offset=9)]),
    ]
    script.answer(fetch(script, A0, A1, "eu", B0), topics=topics)

    assert outcome(script) == Outcome(
        "fetch",
        {A0: OffsetAndMetadata(0, "x", 2), A1: None, "eu": OffsetAndMetadata(9, "", -1), B0: None},
    )


def test_refused_fetch_is_no_business_of_the_membership(script):
    script.answer(fetch(script), Errors.GROUP_ID_NOT_FOUND)

    assert type(outcome(script).error) is UnexpectedAnswerError
    assert script.member.state is MemberState.STABLE


def test_fetch_that_is_refused_in_part_tells_nothing(script):
    topics = [
        FetchedOffsetsOfTopic(
            "a",
            [
                FetchedOffset(partition_index=0, committed_offset=1),
                FetchedOffset(partition_index=1, error_code=Errors.INVALID_REQUEST),
            ],
        )
    ]
    script.answer(fetch(script, A0, A1), topics=topics)

    end = outcome(script)
    assert (type(end.error), end.offsets) == (InvalidRequestError, None)


def test_fetch_ends_when_its_time_is_over(script):
    commit(script)
    fetch(script, token="long", expires_in=5_000)
    request = fetch(script, token="short", expires_in=1_000)
    assert script.member.next_timer() == script.now + 1_000

    script.wait(999)
    assert script.member.offset_calls.take_outcomes() == []
    script.wait(1)

    end = outcome(script)
    assert (end.token, type(end.error)) == ("short", kafka.KafkaTimeoutError)
    script.answer(request)
    assert script.member.offset_calls.take_outcomes() == [], "the answer comes too late"
    script.wait(4_000)
    assert outcome(script).token == "long"
    assert script.member.offset_calls.awaits_commits


def test_fetch_ends_in_time_also_without_a_user(script):
    fetch(script, expires_in=60_000)

    script.wait(60_000, polling=False)

    assert type(outcome(script).error) is kafka.KafkaTimeoutError


# -- the end -----------------------------------------------------------------------------------------


def test_closing_ends_what_is_unanswered(script):
    commit(script, token=1)
    fetch(script, token=2)

    script.member.close("test")

    ends = script.member.offset_calls.take_outcomes()
    assert [1, 2] == [each.token for each in ends]
    assert {kafka.KafkaTimeoutError} == {type(each.error) for each in ends}
    assert "closed before" in str(ends[0].error)
    assert not script.member.offset_calls.awaits_commits
    assert script.member.next_timer() is None


# -- what programs give ------------------------------------------------------------------------------


def test_offsets_may_be_given_as_numbers():
    given = {A0: 5, "eu": OffsetAndMetadata(7, "x", 1)}

    assert checked_offsets(given) == {A0: OffsetAndMetadata(5, "", -1), "eu": OffsetAndMetadata(7, "x", 1)}


@pytest.mark.parametrize(
    ("offsets", "error", "message"),
    [
        ({A0: -1}, ValueError, "not negative"),
        ({A0: "5"}, TypeError, "'5' is no offset of TopicPartition"),
        ({A0: None}, TypeError, "None is no offset"),
        ({A0: OffsetAndMetadata(None)}, TypeError, "None is no offset"),
        ({A0: OffsetAndMetadata(1, b"x")}, TypeError, "b'x' is no metadata"),
        ({3: 5}, TypeError, "3 is no unit of work"),
        ({("a", 0): 5}, TypeError, "is no unit of work"),
    ],
)
def test_what_is_no_offset_is_refused(offsets, error, message):
    with pytest.raises(error, match=message):
        checked_offsets(offsets)


@pytest.mark.parametrize(
    ("units", "message"), [("eu", "must be a list"), (A0, "0 is no unit"), ([None], "None is no unit")]
)
def test_what_is_no_list_of_units_is_refused(units, message):
    with pytest.raises(TypeError, match=message):
        checked_units(units)


def test_units_are_checked_and_kept_in_order():
    assert checked_units([B0, "eu", A0]) == (B0, "eu", A0)


def test_errors_that_end_no_membership_are_kafka_pythons():
    assert not issubclass(CommitFailedError, MembershipError)
    assert CommitFailedError is kafka.CommitFailedError


def test_an_answer_about_others_ends_nothing(script):
    request = commit(script)
    elsewhere = [TopicResult("not-mine", [PartitionResult(0, Errors.UNKNOWN_MEMBER_ID)])]
    script.answer(request, topics=elsewhere)
    script.member.receive(
        OffsetCommitResponse.to(request.reply_to, "other", Errors.ILLEGAL_GENERATION), script.now
    )
    assert script.member.offset_calls.take_outcomes() == []
    assert script.member.generation is not None
    script.answer(request)
    assert outcome(script) == Outcome("commit")
