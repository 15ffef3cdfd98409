"""Guards: which rights a request needs, what of it is let through, and what is told of the rest.

`tests/security/test_gateway.py` compares the bytes with those of a broker.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.group import OffsetFetchResponse as Fetched
from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.metadata import FindCoordinatorResponse as Found

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.gateway import codec, guards
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis.guarding import AT_ONCE, Ask, Match, Resolution
from group_coordinator.gateway.groups import Groups, ListedGroup
from group_coordinator.gateway.guards import guard, unguarded
from group_coordinator.gateway.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
)
from group_coordinator.gateway.rights import CLUSTER, Operation, Resource, Right
from group_coordinator.gateway.translation import Sender, refusal, to_contract, to_kafka
from group_coordinator.jobs.topic_patterns import Matched

GROUPS = [Right(operation, Resource.GROUP, "mine") for operation in Operation]
TOPICS = [Right(operation, Resource.TOPIC, "mine") for operation in (Operation.READ, Operation.DESCRIBE)]


def answered(request: Request) -> Any:
    """As a coordinator would that finds nothing wrong."""
    message, version = request.message, request.head.api_version
    match message:
        case FindCoordinatorRequest():
            entry = Found.Coordinator
            found = [entry(version=version, key=it, error_code=0) for it in message.coordinator_keys]
            return Found(version=version, coordinators=found)
        case ListGroupsRequest():
            groups = Groups()
            for it in ("mine", "other"):
                groups.put(it, ListedGroup("Stable", "consumer"))
            groups.is_ready = True
            return groups.listed(message, 0, (0,))
    contract = to_contract(request, Sender("c", "", 0, str))
    response = to_kafka(request, [refusal(each, Errors.NONE) for each in contract])
    if isinstance(message, ConsumerGroupDescribeRequest):
        for group in response.groups:
            group.members = [consumer(version, *READS.get(group.group_id.removeprefix("tenant-"), ()))]
    if isinstance(message, OffsetFetchRequest):
        kind = Fetched.OffsetFetchResponseGroup.OffsetFetchResponseTopics
        for group, asked in zip(response.groups, message.groups, strict=True):
            names = ("mine", "other") if asked.topics is None else [it.name for it in asked.topics]
            partition = kind.OffsetFetchResponsePartitions(version=version, partition_index=0, error_code=0)
            group.topics = [kind(version=version, name=it, partitions=[partition]) for it in names]
    return response


READS = {"mine": ("mine",), "both": ("mine", "other"), "target": ("other",)}
"""The topics of the member of each group; those of "target" it has not got yet."""


def consumer(version: int, *names: str) -> Any:
    """A member of the consumer protocol that is to have a partition of each of these topics."""
    kind = ConsumerGroupDescribeResponse.DescribedGroup.Member
    entry = kind.Assignment.TopicPartitions
    empty = kind.Assignment(version=version, topic_partitions=[])
    target = kind.Assignment(
        version=version,
        topic_partitions=[
            entry(version=version, topic_id=UUID(int=1), topic_name=it, partitions=[0]) for it in names
        ],
    )
    return kind(
        version=version,
        member_id="m",
        member_epoch=1,
        client_id="c",
        client_host="h",
        subscribed_topic_names=[],
        assignment=empty if names == READS["target"] else target,
        target_assignment=target,
    )


def beat_of(group_id: str, *names: str | None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that names topics; with None it names none."""
    given = {
        "member_id": "m",
        "member_epoch": 0,
        "subscribed_topic_names": None if None in names else [*names],
    }
    return ConsumerGroupHeartbeatRequest(version=1, group_id=group_id, **(given | fields))


def describe_consumers(*names: str, is_asked: bool = False) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(
        version=1, group_ids=list(names), include_authorized_operations=is_asked
    )


MATCHED = Matched({name: TopicFacts(name, 2, f"id of {name}") for name in ("mine", "other")})
"""The topics that a pattern matches in `play`."""


def play(
    message: Any, granted: set[Right], prefix: str = "", matched: Matched | None = MATCHED
) -> tuple[list[Right], Any]:
    """The rights that were asked for and not there, and the response as a client reads it."""
    request = codec.decode_request(codec.encode_request(message, 1, "c"))
    story, told, missed = guard(request, prefix), None, []
    is_last = False
    while True:
        try:
            wanted = story.send(told)
        except StopIteration as end:
            frame = codec.encode_response(end.value, 1)
            return missed, codec.decode_response(message.API_KEY, message.version, frame)
        assert not is_last, "it was said that nothing more is asked"
        if isinstance(wanted, Match):
            told = matched
        elif isinstance(wanted, Ask):
            told, is_last = answered(wanted.request), wanted.is_last
        else:
            missed += [it for it in wanted if it not in granted]
            told = frozenset(wanted) & granted


def topics(kind: Any, version: int) -> list[Any]:
    entry = getattr(kind, f"{kind.__name__}Topic")
    partition = getattr(entry, f"{kind.__name__}Partition")
    return [
        entry(version=version, name=it, partitions=[partition(version=version, partition_index=0)])
        for it in ("other", "mine")
    ]


def fetch(*names: str) -> OffsetFetchRequest:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    kind = group.OffsetFetchRequestTopics
    wanted = [kind(version=8, name=it, partition_indexes=[0]) for it in names] or None
    groups = [group(version=8, group_id=it, topics=wanted) for it in ("other", "mine")]
    return OffsetFetchRequest(version=8, groups=groups)


def by_topic(response: Any) -> dict[str, int]:
    return {topic.name: topic.partitions[0].error_code for topic in response.topics}


def by_group(response: Any) -> list[tuple[str, int, dict[str, int]]]:
    return [(it.group_id, it.error_code, by_topic(it)) for it in response.groups]


COMMIT = OffsetCommitRequest(version=9, group_id="mine", topics=topics(OffsetCommitRequest, 9))
DELETE = OffsetDeleteRequest(version=0, group_id="mine", topics=topics(OffsetDeleteRequest, 0))
FIND = FindCoordinatorRequest(version=4, coordinator_keys=["other", "mine"])
MINE = {*GROUPS, *TOPICS}


CASES: list[tuple[Any, Any, Any, Any]] = [
    (COMMIT, MINE, by_topic, {"other": 29, "mine": 0}),
    (COMMIT, set(TOPICS), by_topic, {"other": 30, "mine": 30}),
    (COMMIT, set(GROUPS), by_topic, {"other": 29, "mine": 29}),
    (DELETE, MINE, by_topic, {"other": 29}),
    (DELETE, set(TOPICS), lambda it: it.error_code, 30),
    (fetch("other", "mine"), MINE, by_group, [("other", 30, {}), ("mine", 0, {"mine": 0, "other": 29})]),
    (fetch(), MINE, by_group, [("other", 30, {}), ("mine", 0, {"mine": 0})]),
    (FIND, MINE, lambda it: [each.error_code for each in it.coordinators], [30, 0]),
    (ListGroupsRequest(version=5), MINE, lambda it: [each.group_id for each in it.groups], ["mine"]),
    (ListGroupsRequest(version=5), {CLUSTER}, lambda it: len(it.groups), 2),
    (
        DeleteGroupsRequest(version=2, groups_names=["other", "mine"]),
        MINE,
        lambda it: [(each.group_id, each.error_code) for each in it.results],
        [("mine", 0), ("other", 30)],
    ),
    (
        # Before anything else a broker misses the names.
        SyncGroupRequest(version=5, group_id="other", generation_id=1, member_id="m"),
        MINE,
        lambda it: it.error_code,
        23,
    ),
    (beat_of("mine", "mine"), MINE, lambda it: it.error_code, 0),
    (beat_of("mine", "mine", "other"), MINE, lambda it: (it.error_code, it.member_id), (29, None)),
    (beat_of("mine", *["other"] * 1_000), MINE, lambda it: it.error_code, 29),
    (beat_of("mine", None), set(GROUPS), lambda it: it.error_code, 0),
    (beat_of("mine"), set(GROUPS), lambda it: it.error_code, 0),
    (beat_of("mine", "mine"), set(GROUPS), lambda it: it.error_code, 29),
    (beat_of("other", "other"), MINE, lambda it: it.error_code, 30),
    (beat_of("mine", None, member_epoch=-1), set(TOPICS), lambda it: it.error_code, 30),
    (
        describe_consumers("other", "mine"),
        MINE,
        lambda it: [(each.group_id, each.error_code, len(each.members)) for each in it.groups],
        [("other", 30, 0), ("mine", 0, 1)],
    ),
    (
        describe_consumers("mine"),
        set(GROUPS),
        lambda it: [(each.group_id, each.error_code, len(each.members)) for each in it.groups],
        [("mine", 29, 0)],
    ),
]


@pytest.mark.parametrize(("message", "granted", "read", "expected"), CASES)
def test_what_is_denied_and_what_is_not(message: Any, granted: set[Right], read: Any, expected: Any) -> None:
    assert read(play(message, granted)[1]) == expected


@pytest.mark.parametrize(
    ("granted", "is_asked", "expected"),
    [
        (GROUPS, True, {3, 6, 8, 10, 11}),
        (GROUPS, False, None),
        ([GROUPS[0], GROUPS[2]], True, {3, 8}),
        (GROUPS[:2], True, None),
    ],
)
def test_authorized_operations_are_those_that_were_asked_for(
    granted: list[Right], is_asked: bool, expected: set[int] | None
) -> None:
    message = DescribeGroupsRequest(version=5, groups=["mine"], include_authorized_operations=is_asked)
    missed, response = play(message, set(granted))
    assert response.groups[0].authorized_operations == expected
    assert len(missed) == (3 - len(granted) if is_asked else 0)


@pytest.mark.parametrize("group_id", ["both", "target"])
def test_a_group_with_a_topic_that_may_not_be_seen_is_not_described(group_id: str) -> None:
    of_group = Right(Operation.DESCRIBE, Resource.GROUP, group_id)
    for granted, error in ((set(TOPICS), 29), ({*TOPICS, TOPICS[1]._replace(name="other")}, 0)):
        missed, response = play(describe_consumers(group_id), {of_group, *granted})
        (group,) = response.groups
        assert (group.error_code, len(group.members)) == (error, 0 if error else 1)
        assert {it.name for it in missed} == ({"other"} if error else set())
        # Of a group that is refused nothing is told.
        assert (group.group_state, group.assignor_name, group.group_epoch) == ("", "", 0)


@pytest.mark.parametrize(
    ("granted", "is_asked", "expected"),
    [
        (GROUPS, True, {3, 6, 8, 10, 11}),
        (GROUPS, False, None),
        ([GROUPS[0], GROUPS[2]], True, {3, 8}),
    ],
)
def test_authorized_operations_of_consumer_groups_are_those_that_were_asked_for(
    granted: list[Right], is_asked: bool, expected: set[int] | None
) -> None:
    _, response = play(describe_consumers("mine", is_asked=is_asked), {*granted, *TOPICS})
    (group,) = response.groups
    assert group.error_code == 0
    assert group.authorized_operations == expected
    bits = -(2**31) if expected is None else sum(1 << each for each in expected)
    # They are the last field of the last group.
    assert codec.encode_response(response, 1).endswith(bits.to_bytes(4, signed=True) + b"\0\0")


# -- many groups ---------------------------------------------------------------------------------------


def describe(*names: str, **fields: Any) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(version=5, groups=list(names), **fields)


def delete(*names: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(version=2, groups_names=list(names))


def fetch_all(*names: str) -> OffsetFetchRequest:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(version=8, groups=[group(version=8, group_id=it, topics=None) for it in names])


RESULTS = {9: "groups", 15: "groups", 42: "results", 69: "groups"}


def told(message: Any, answers: Any, story: Any = unguarded) -> tuple[list[list[Any]], list[Any]]:
    """What is asked in each turn, by `answers`, and the results that a client reads."""
    request = codec.decode_request(codec.encode_request(message, 1, "c"))
    playing, turns, sent = story(request), [], None
    while True:
        try:
            wanted = playing.send(sent)
        except StopIteration as end:
            frame = codec.encode_response(end.value, 1)
            read = codec.decode_response(message.API_KEY, message.version, frame)
            return turns, getattr(read, RESULTS[message.API_KEY])
        if isinstance(wanted, Ask):
            contract = to_contract(wanted.request, Sender("c", "", 0, str))
            turns.append([it.group_id for it in contract])
            sent = to_kafka(wanted.request, [answers(it) for it in contract])
        else:
            sent = frozenset(wanted)


def fine(asked: Any) -> Any:
    return refusal(asked, Errors.NONE)


@pytest.mark.parametrize("story", [guard, unguarded])
@pytest.mark.parametrize("ask", [describe, describe_consumers, delete, fetch_all])
def test_a_group_that_is_named_many_times_is_asked_about_once(ask: Any, story: Any) -> None:
    turns, results = told(ask(*["g"] * 1_000, "h", "g"), fine, story)
    assert turns == [["g", "h"]]
    assert [(it.group_id, it.error_code) for it in results] == [("g", 0), ("h", 0)]


@pytest.mark.parametrize("story", [guard, unguarded])
@pytest.mark.parametrize("version", range(7))
def test_many_groups_are_asked_about_in_turns(version: int, story: Any) -> None:
    names = [f"g{number}" for number in range(2 * AT_ONCE + 1)]
    for ask in (
        DescribeGroupsRequest(version=version, groups=names),
        DeleteGroupsRequest(version=min(version, 2), groups_names=names),
        describe_consumers(*names),
        fetch_all(*names),
    ):
        turns, results = told(ask, fine, story)
        assert turns == [names[:AT_ONCE], names[AT_ONCE:-1], names[-1:]]
        assert [it.group_id for it in results] == names


@pytest.mark.parametrize("story", [guard, unguarded])
def test_coordinators_of_many_groups_are_looked_for_in_turns_also_while_there_is_none(story: Any) -> None:
    names = [f"g{number}" for number in range(2 * AT_ONCE + 1)]
    message = FindCoordinatorRequest(version=4, coordinator_keys=[*names, *names])
    playing = story(codec.decode_request(codec.encode_request(message, 1, "c")))
    sent, turns, entry = None, [], FindCoordinatorResponse.Coordinator
    nowhere = {"node_id": -1, "host": "", "port": -1, "error_code": Errors.COORDINATOR_NOT_AVAILABLE.value}
    while True:
        try:
            wanted = playing.send(sent)
        except StopIteration as end:
            frame = codec.encode_response(end.value, 1)
            break
        if isinstance(wanted, Ask):
            turns.append(wanted.request.message.coordinator_keys)
            found = [entry(version=4, key=each, error_message="", **nowhere) for each in turns[-1]]
            sent = FindCoordinatorResponse(version=4, throttle_time_ms=0, coordinators=found)
        else:
            sent = frozenset(wanted)
    assert turns == [names[:AT_ONCE], names[AT_ONCE:-1], names[-1:]]
    read = codec.decode_response(10, 4, frame)
    assert [(each.key, each.error_code) for each in read.coordinators] == [(name, 15) for name in names]


def test_the_topics_of_a_group_that_is_fetched_twice_are_those_of_both() -> None:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    kind = group.OffsetFetchRequestTopics
    asked = [
        group(version=8, group_id=name, topics=topic and [kind(version=8, name=topic, partition_indexes=[0])])
        for name, topic in (("g", "a"), ("h", "a"), ("g", "b"), ("h", None))
    ]
    request = codec.decode_request(codec.encode_request(OffsetFetchRequest(version=8, groups=asked), 1, "c"))
    wanted = next(unguarded(request))
    assert isinstance(wanted, Ask)
    found = {
        it.group_id: it.topics and [topic.name for topic in it.topics] for it in wanted.request.message.groups
    }
    assert found == {"g": ["a", "b"], "h": None}
    assert [len(it.topics or ()) for it in request.message.groups] == [1, 1, 1, 0], "as it was"


@pytest.mark.parametrize("error", [Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE])
def test_while_the_coordinator_is_away_one_turn_is_waited_for(error: Errors) -> None:
    names = [f"g{number}" for number in range(3 * AT_ONCE)]
    for ask in (describe, describe_consumers, delete, fetch_all):
        turns, results = told(ask(*names), lambda asked: refusal(asked, error))
        assert len(turns) == 1
        assert [(it.group_id, it.error_code) for it in results] == [(name, error) for name in names]


def test_an_answer_that_becomes_too_large_is_to_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MOST_ANSWERED", 10)
    names = [f"g{number}" for number in range(2 * AT_ONCE)]
    turns, results = told(describe(*names), fine)
    assert len(turns) == 1
    assert [it.error_code for it in results] == [0] * AT_ONCE + [14] * AT_ONCE


@pytest.mark.parametrize(
    "ask",
    [
        lambda name: describe(name, include_authorized_operations=True),
        lambda name: describe_consumers(name, is_asked=True),
        lambda name: beat_of(name, "mine"),
        lambda name: OffsetCommitRequest(version=9, group_id=name, topics=topics(OffsetCommitRequest, 9)),
        lambda name: OffsetDeleteRequest(version=0, group_id=name, topics=topics(OffsetDeleteRequest, 0)),
        lambda _name: fetch("mine"),
    ],
)
def test_no_more_is_asked_about_what_is_denied(ask: Any) -> None:
    missed, _ = play(ask("other"), set())
    assert {(it.resource, it.name in ("other", "mine")) for it in missed} == {(Resource.GROUP, True)}
    assert len(missed) == len({it.name for it in missed})


def test_rights_on_many_groups_are_asked_for_in_turns() -> None:
    names = [f"g{number}" for number in range(2 * AT_ONCE + 1)]
    groups = Groups()
    for name in names:
        groups.put(name, ListedGroup("Stable", "consumer"))
    groups.is_ready = True
    listing = groups.listed(ListGroupsRequest(version=5), 0, (0,))
    find = FindCoordinatorRequest(version=4, coordinator_keys=names)
    for message, answer in ((ListGroupsRequest(version=5), listing), (find, None)):
        story = guard(codec.decode_request(codec.encode_request(message, 1, "c")))
        wanted, asked = story.send(None), []
        while len(asked) < 3:
            if isinstance(wanted, Ask):
                wanted = story.send(answer or answered(wanted.request))
            else:
                asked += [len(wanted)] if CLUSTER not in wanted else []
                wanted = story.send(frozenset()) if len(asked) < 3 else wanted
        assert asked == [AT_ONCE, AT_ONCE, 1]


def with_prefix(right: Right) -> Right:
    return right._replace(name=f"tenant-{right.name}") if right.resource is Resource.GROUP else right


@pytest.mark.parametrize(("message", "granted", "read", "expected"), CASES)
def test_rights_are_on_groups_as_the_coordinator_knows_them(
    message: Any, granted: set[Right], read: Any, expected: Any
) -> None:
    theirs = {with_prefix(each) for each in granted}
    assert read(play(message, theirs, "tenant-")[1]) == expected


@pytest.mark.parametrize("message", [each for each, *_ in CASES if not isinstance(each, SyncGroupRequest)])
def test_rights_on_a_group_without_the_prefix_are_none_on_one_with_it(message: Any) -> None:
    missed, response = play(message, {*MINE}, "tenant-")
    _, refused = play(message, set(TOPICS), "tenant-")
    assert {each.name.partition("-")[0] for each in missed if each.resource is Resource.GROUP} == {"tenant"}
    assert f"{response}" == f"{refused}"


# -- patterns ------------------------------------------------------------------------------------------


def resolved_by(story: Any, matched: Matched | None, granted: set[Right]) -> Any:
    """What a guard lets through of a pattern: its topics, or the response that refuses its heartbeat."""
    told = None
    while True:
        try:
            wanted = story.send(told)
        except StopIteration as end:
            return end.value
        if isinstance(wanted, Ask):
            return wanted.request.resolved
        told = matched if isinstance(wanted, Match) else frozenset(wanted) & granted


def beat_with(pattern: str | None, **fields: Any) -> Request:
    message = beat_of("mine", None, subscribed_topic_regex=pattern, **fields)
    return codec.decode_request(codec.encode_request(message, 1, "c"))


def test_a_pattern_matches_what_its_client_may_see() -> None:
    granted = {*GROUPS, *TOPICS}
    seen = resolved_by(guard(beat_with(".*")), MATCHED, granted)
    assert seen == Resolution([MATCHED.topics["mine"]], is_judged=True)
    assert resolved_by(guard(beat_with(".*")), Matched({}), granted) == Resolution([], is_judged=True)
    whole = resolved_by(unguarded(beat_with(".*")), MATCHED, set())
    assert whole == Resolution([MATCHED.topics["mine"], MATCHED.topics["other"]], is_judged=False)
    # Nobody is refused for a topic that its pattern matches: as at a broker it is left out.
    missed, response = play(beat_of("mine", None, subscribed_topic_regex=".*"), granted)
    assert response.error_code == 0
    assert {each.name for each in missed} == {"other"}


def test_who_may_not_read_the_group_has_no_pattern_matched() -> None:
    missed, response = play(beat_of("other", None, subscribed_topic_regex=".*"), {*GROUPS, *TOPICS})
    assert response.error_code == Errors.GROUP_AUTHORIZATION_FAILED
    assert len(missed) == 1


@pytest.mark.parametrize(
    ("pattern", "fields"), [(None, {}), ("", {}), (".*", {"member_epoch": -1}), (".*", {"member_epoch": -2})]
)
def test_a_heartbeat_without_a_pattern_and_a_leave_have_none_matched(
    pattern: str | None, fields: dict[str, int]
) -> None:
    for story in (guard(beat_with(pattern, **fields)), unguarded(beat_with(pattern, **fields))):
        assert resolved_by(story, None, set(GROUPS)) is None


def test_a_pattern_that_does_not_compile_is_refused_with_the_reason() -> None:
    response = resolved_by(unguarded(beat_with("(")), Matched({}, "it is wrong"), set())
    assert (response.error_code, response.error_message) == (Errors.INVALID_REGULAR_EXPRESSION, "it is wrong")
    assert (response.member_id, response.member_epoch, response.assignment) == (None, 0, None)


def test_a_pattern_that_is_very_long_is_refused_unseen() -> None:
    response = resolved_by(unguarded(beat_with("\N{EARTH GLOBE EUROPE-AFRICA}" * 2_501)), MATCHED, set())
    assert response.error_code == Errors.INVALID_REGULAR_EXPRESSION
    assert response.error_message == "a pattern has 10000 bytes at most"


def test_without_a_list_of_topics_a_member_with_a_pattern_asks_again() -> None:
    """Nothing may be taken from its group, and nobody else may resolve its pattern."""
    response = resolved_by(guard(beat_with(".*")), None, set(GROUPS))
    assert response.error_code == Errors.COORDINATOR_NOT_AVAILABLE


def test_a_pattern_beside_a_prefix_of_groups() -> None:
    granted = {right._replace(name="tenant-mine") for right in GROUPS} | set(TOPICS)
    seen = resolved_by(guard(beat_with(".*"), "tenant-"), MATCHED, granted)
    assert [each.name for each in seen.topics] == ["mine"]
