"""Groups that move: what their clients are told, what becomes of members, and which records count."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import AddOffsetsToTxnRequest
from kio.serial import entity_reader
from kio.static.constants import EntityType

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.sides import Side, SideRecord, other
from group_coordinator.gateway import codec
from group_coordinator.gateway.group_apis.guarding import Ask, AskBroker
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.guards import guard, unguarded
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatRequest
from group_coordinator.gateway.metrics import _first_error
from group_coordinator.gateway.sides import Sides
from tests.gateway.talks import Talk, beat, number, response
from tests.gateway.test_sides import (
    MANY,
    SINGLE,
    TRANSACTIONAL,
    broker_says,
    compact,
    framed,
    kio,
    naming,
    of_group,
    written,
)

NOT_AVAILABLE, NOT_COORDINATOR, LOADING = 15, 16, 14
MEMBERS = {
    each.API_KEY
    for each in (
        ConsumerGroupHeartbeatRequest,
        HeartbeatRequest,
        JoinGroupRequest,
        OffsetCommitRequest,
        SyncGroupRequest,
    )
}
LEAVE = LeaveGroupRequest.API_KEY
SIDES: list[Side] = ["coordinator", "brokers"]


def record(group_id: str, side: Side, *, moves: bool = False, at_ms: int = 0) -> SideRecord:
    to = other(side) if moves else None
    return SideRecord(group_id=group_id, side=side, moving_to=to, at_ms=at_ms, client_id="c", move_id="m")


def moving(*groups: tuple[str, Side], patterns: str = "*") -> Talk:
    talk = Talk(groups_at_brokers=patterns)
    talk.gateway.sides.take({group_id: record(group_id, side, moves=True) for group_id, side in groups})
    return talk


def error_of(frame: bytes, api_key: int, version: int) -> int:
    answer = codec.decode_response(api_key, version, frame)
    return _first_error(answer, ("topics", "partitions") if api_key in (8, 9, 28, 47) else ())


# -- requests of one group -----------------------------------------------------------------------------


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("api_key", "version"), [*SINGLE, *TRANSACTIONAL])
def test_a_client_is_told_that_its_coordinator_is_not_there(api_key: int, version: int, side: Side) -> None:
    if api_key == LEAVE or api_key in MEMBERS:
        return
    talk = moving(("g", side))
    frame = of_group(api_key, version, "g")
    talk.client(frame)
    assert (talk.passed(), talk.gateway.asked) == ([], [])
    (told,) = talk.told()
    assert number(told) == 7
    if api_key in (8, 9, 28, 47):
        return  # It names no partition: see the next test.
    expected = {FindCoordinatorRequest.API_KEY: NOT_AVAILABLE, AddOffsetsToTxnRequest.API_KEY: LOADING}
    assert error_of(told, api_key, version) == expected.get(api_key, NOT_COORDINATOR)


@pytest.mark.parametrize(
    ("api_key", "version"), [it for it in (*SINGLE, *TRANSACTIONAL) if it[0] in (8, 9, 28, 47)]
)
def test_each_partition_is_told_the_same(api_key: int, version: int) -> None:
    request = codec.decode_request(of_group(api_key, version, "g")).message
    kind = type(request)
    topic = getattr(kind, f"{kind.__name__}Topic")
    if api_key == 9:
        request.topics = [topic(version=version, name="t", partition_indexes=[3])]
    else:
        partition = getattr(topic, f"{kind.__name__}Partition")
        fields = {} if api_key == 47 else {"committed_offset": 1, "committed_metadata": ""}
        partitions = [partition(version=version, partition_index=3, **fields)]
        request.topics = [topic(version=version, name="t", partitions=partitions)]
    if api_key in (8, 28) and version > 0:
        # From no member, as of a tool.
        request.member_id = ""
    talk = moving(("g", "brokers"))
    talk.client(codec.encode_request(request, 7, "c"))
    (told,) = talk.told()
    assert error_of(told, api_key, version) == NOT_COORDINATOR


def test_a_member_of_streams_is_told_so_as_well() -> None:
    key = 88
    talk = moving(("g", "brokers"))
    talk.client(framed(key, 0, compact("g") + b"rest"))
    (frame,) = talk.told()
    assert talk.passed() == []
    kinds = kio(key, 0, EntityType.response)
    told, size = entity_reader(kinds.StreamsGroupHeartbeatResponse)(frame[9:], 0)
    assert (int(told.error_code), size, written(told)) == (NOT_COORDINATOR, len(frame) - 9, frame[9:])


def test_the_coordinator_of_a_transaction_is_looked_up_as_ever() -> None:
    talk = moving(("t", "brokers"))
    for version in range(1, 4):
        message = FindCoordinatorRequest(version=version, key="t", key_type=1)
        talk.client(frame := codec.encode_request(message, 7, "c"))
        assert talk.passed() == [frame]


# -- members -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("api_key", "version"), [it for it in SINGLE if it[0] in MEMBERS and it != (8, 0)])
def test_what_a_member_sends_becomes_its_leave_at_the_brokers(api_key: int, version: int) -> None:
    talk = moving(("g", "brokers"))
    request = codec.decode_request(of_group(api_key, version, "g")).message
    request.member_id = "m-1"
    instance = None
    for field in {it.name for it in type(request)._struct.untagged_fields(version)}:
        if field in ("group_instance_id", "instance_id"):
            instance = "pod-3"
            setattr(request, field, instance)
    talk.client(codec.encode_request(request, 7, "billing-1"))
    (frame,) = talk.passed()
    leave = codec.decode_request(frame)
    assert (leave.head.api_key, leave.head.api_version, leave.client_id) == (LEAVE, 3, "billing-1")
    (member,) = leave.message.members
    told = (leave.message.group_id, member.member_id, member.group_instance_id)
    assert told == ("g", "m-1", instance)
    assert talk.told() == []
    for error_code in (0, NOT_COORDINATOR):
        answer = LeaveGroupResponse(version=3, throttle_time_ms=0, error_code=error_code, members=[])
        talk.broker(codec.encode_response(answer, 7))
        (answered,) = talk.told()
        assert number(answered) == 7
        # The commit names no partition.
        assert api_key == 8 or error_of(answered, api_key, version) == NOT_COORDINATOR
        talk.client(codec.encode_request(request, 7, "billing-1"))


def test_a_heartbeat_becomes_a_leave_here_and_is_not_taken_for_a_heartbeat_again() -> None:
    talk = Talk(groups_at_brokers="*,!g")
    talk.gateway.accepts = True
    talk.client(beat(1))
    talk.answer()
    talk.gateway.accepts = False
    talk.gateway.sides.take({"g": record("g", "coordinator", moves=True)})
    talk.conversation.sides_changed()
    for correlation_id in (2, 3):
        talk.client(beat(correlation_id))
    assert (len(talk.gateway.asked), talk.gateway.asked_again, talk.passed()) == (3, [], [])
    talk.told()
    talk.answer(1)
    talk.answer(2)
    told = talk.told()
    assert [number(each) for each in told] == [2, 3]
    assert [error_of(each, 12, 0) for each in told] == [NOT_COORDINATOR, NOT_COORDINATOR]
    talk.gateway.sides.take({"g": record("g", "brokers")})
    talk.conversation.sides_changed()
    talk.client(beat(4))
    assert talk.passed() == [beat(4)]


@pytest.mark.parametrize("asks_rights", [False, True])
@pytest.mark.parametrize("api_key", sorted(MEMBERS))
def test_the_leave_needs_the_right_of_a_member(api_key: int, asks_rights: bool) -> None:
    sides = Sides("*,!g")
    sides.take({"g": record("g", "coordinator", moves=True)})
    request = codec.decode_request(of_group(api_key, min(2, GROUP_APIS[api_key].newest), "g"))
    request.message.member_id = "m"
    story = (guard if asks_rights else unguarded)(request, sides=sides)
    wanted = story.send(None)
    if asks_rights:
        (right,) = wanted
        assert right.name == "g"
        denied = guard(request, sides=sides)
        denied.send(None)
        with pytest.raises(StopIteration) as ended:
            denied.send(frozenset())
        assert api_key == 8 or ended.value.value.error_code == Errors.GROUP_AUTHORIZATION_FAILED
        wanted = story.send(frozenset({right}))
    assert isinstance(wanted, Ask)
    assert [it.member_id for it in wanted.request.message.members] == ["m"]
    with pytest.raises(StopIteration) as ended:
        story.send(LeaveGroupResponse(version=3, throttle_time_ms=0, error_code=0, members=[]))
    assert api_key == 8 or ended.value.value.error_code == NOT_COORDINATOR


@pytest.mark.parametrize("side", SIDES)
def test_a_member_may_leave_and_one_that_joins_anew_is_told_to_wait(side: Side) -> None:
    talk = moving(("g", side))
    message = LeaveGroupRequest(version=1, group_id="g", member_id="m")
    talk.client(frame := codec.encode_request(message, 7, "c"))
    assert (talk.passed(), len(talk.gateway.asked)) == (([frame], 0) if side == "brokers" else ([], 1))
    talk = moving(("g", side))
    join = codec.decode_request(of_group(JoinGroupRequest.API_KEY, 5, "g")).message
    join.member_id, join.group_instance_id = "", None
    talk.client(codec.encode_request(join, 7, "c"))
    assert (talk.passed(), talk.gateway.asked) == ([], [])
    assert error_of(talk.told()[0], JoinGroupRequest.API_KEY, 5) == NOT_COORDINATOR


def test_leaves_of_moving_groups_keep_their_place_among_what_else_is_asked() -> None:
    talk = moving(("g", "brokers"))
    talk.client(
        beat(1)
        + codec.encode_request(
            HeartbeatRequest(version=0, group_id="o", generation_id=1, member_id="m"), 2, "c"
        )
    )
    first, second = talk.passed()
    assert [codec.decode_request(it).head.api_key for it in (first, second)] == [LEAVE, 12]
    talk.broker(
        codec.encode_response(LeaveGroupResponse(version=3, throttle_time_ms=0, error_code=0, members=[]), 1)
    )
    talk.broker(response(2))
    assert talk.numbers() == [1, 2]


# -- requests of many groups ---------------------------------------------------------------------------


@pytest.mark.parametrize("asks_rights", [False, True])
@pytest.mark.parametrize(("kind", "version"), MANY)
@given(
    named=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8),
    moved=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(SIDES)),
    records=st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(SIDES)),
)
def test_of_many_groups_those_that_move_are_told_so_and_the_others_are_asked_about(
    kind: type[Any],
    version: int,
    asks_rights: bool,
    named: list[str],
    moved: dict[str, Side],
    records: dict[str, Side],
) -> None:
    sides = Sides("a,b")
    sides.take({it: record(it, side) for it, side in records.items()})
    sides.take({it: record(it, side, moves=True) for it, side in moved.items()})
    request = codec.decode_request(codec.encode_request(naming(kind, version, named), 1, "c"))
    assert sides.are_theirs(request) == all(
        it not in moved and records.get(it, "brokers" if it in "ab" else "") == "brokers" for it in named
    )
    api = GROUP_APIS[kind.API_KEY]
    assert api.named is not None

    def ids(found: Any) -> list[str]:
        return [getattr(it, "group_id", getattr(it, "key", it)) for it in found]

    story, told = (guard if asks_rights else unguarded)(request, sides=sides), None
    asked: set[str] = set()
    while True:
        try:
            wanted = story.send(told)
        except StopIteration as end:
            frame = codec.encode_response(end.value, 1)
            break
        if isinstance(wanted, Ask | AskBroker):
            message = wanted.message if isinstance(wanted, AskBroker) else wanted.request.message
            asked |= set(ids(getattr(message, api.named.field)))
            told = broker_says(message, version, "")
        else:
            told = frozenset(wanted)
    results = getattr(codec.decode_response(kind.API_KEY, version, frame), api.results[0])
    assert ids(results) == list(dict.fromkeys(named))
    assert asked == set(named) - moved.keys()
    error = NOT_AVAILABLE if kind is FindCoordinatorRequest else NOT_COORDINATOR
    assert {it for it, result in zip(ids(results), results, strict=True) if result.error_code} == {
        it for it in named if it in moved
    }
    assert {result.error_code for result in results} <= {0, error}


# -- records -------------------------------------------------------------------------------------------


def test_the_newest_record_counts_and_the_patterns_for_groups_without_one() -> None:
    sides = Sides("*,!here")
    assert (sides.at_brokers("here"), sides.at_brokers("there")) == (False, True)
    sides.take({"here": record("here", "brokers"), "there": record("there", "coordinator")})
    assert (sides.at_brokers("here"), sides.at_brokers("there")) == (True, False)
    sides.take({"here": record("here", "brokers", moves=True)})
    assert (sides.at_brokers("here"), sides.is_moving("here")) == (True, True)
    sides.take({"here": record("here", "coordinator"), "there": None})
    assert (sides.at_brokers("here"), sides.is_moving("here"), sides.at_brokers("there")) == (
        False,
        False,
        True,
    )


def test_the_time_of_a_move_begins_with_its_first_record() -> None:
    sides = Sides("*")
    assert sides.moving_s(99_000) == 0
    sides.take({"a": record("a", "brokers", moves=True, at_ms=5_000)})
    sides.take({"b": record("b", "brokers", moves=True, at_ms=7_000)})
    sides.take({"a": record("a", "brokers", moves=True, at_ms=9_000)})
    assert sides.moving_s(10_000) == 5
    sides.take({"a": record("a", "coordinator")})
    assert sides.moving_s(10_000) == 3
    sides.take({"b": None})
    assert sides.moving_s(10_000) == 0
