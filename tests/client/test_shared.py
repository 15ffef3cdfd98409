"""Many members of one program, and the one connection they share."""

from __future__ import annotations

from contextlib import ExitStack

import msgspec
import pytest
from kafka.errors import KafkaConnectionError

from group_coordinator import GroupMember, SharedConnection
from group_coordinator.client import shared
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import HeartbeatRequest, LeaveGroupRequest, LeavingMember
from group_coordinator.coordinator_state.responses import (
    HeartbeatResponse,
    InvalidRequestResponse,
    MemberResult,
)
from tests.client.memory import Coordinator, MemoryChannel, poll_until
from tests.patience import wait_for

UNITS = [f"u{number}" for number in range(6)]


@pytest.fixture
def coordinator():
    return Coordinator()


@pytest.fixture
def kafka(coordinator):
    return MemoryChannel(coordinator, "host")


@pytest.fixture
def connect(kafka):
    """Make a connection, which is closed in the end, after its members."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            SharedConnection(
                **({"client_id": "host", "heartbeat_linger_ms": 60, "channel": kafka} | settings)
            )
        )


@pytest.fixture
def make(coordinator):
    with ExitStack() as members:

        def make(connection, client_id, group_id="orders", **settings):
            member = GroupMember(
                **{
                    "group_id": group_id,
                    "client_id": client_id,
                    "client_host": "h1",
                    "session_timeout_ms": 90_000,
                    "heartbeat_interval_ms": 100,
                    "channel": connection.channel(),
                }
                | settings
            )
            members.callback(member.close)
            member.subscribe(units=UNITS)
            return member

        # Before the connection is closed, whose fixture comes after this one in a test's arguments.
        yield make


def share(*members):
    poll_until(lambda: {unit for each in members for unit in each.assignment} == set(UNITS), *members)
    poll_until(lambda: len({each.generation_id for each in members}) == 1, *members)


def together(coordinator):
    return [each for each in coordinator.requests(HeartbeatRequest) if len(each.beats) > 1]


def test_members_of_a_group_send_one_heartbeat_and_each_hears_its_own_answer(connect, make, coordinator):
    connection = connect()
    members = [make(connection, f"c{number}") for number in range(3)]
    share(*members)
    ids = {each.member_id for each in members}
    coordinator.log.clear()

    poll_until(
        lambda: any({it.member_id for it in each.beats} == ids for each in together(coordinator)), *members
    )

    beats = together(coordinator)[0]
    assert (beats.client_id, beats.reply_partition, beats.quiet) == ("host", 0, True)
    # A newcomer makes them join again, of which they only hear by the answers to their heartbeats.
    newcomer = make(connection, "c3")
    share(*members, newcomer)
    assert len({each.generation_id for each in (*members, newcomer)}) == 1


def test_groups_do_not_mix(connect, make, coordinator):
    connection = connect()
    one, other = (
        [make(connection, f"{group_id}-{number}", group_id) for number in range(2)] for group_id in ("g", "h")
    )
    share(*one)
    share(*other)
    coordinator.log.clear()

    poll_until(lambda: {each.group_id for each in together(coordinator)} == {"g", "h"}, *one, *other)

    ids = {"g": {each.member_id for each in one}, "h": {each.member_id for each in other}}
    for each in together(coordinator):
        assert {it.member_id for it in each.beats} <= ids[each.group_id]


def test_a_heartbeat_alone_is_sent_as_it_is(connect, make, coordinator):
    member = make(connect(heartbeat_linger_ms=1), "c1")
    share(member)
    coordinator.log.clear()
    poll_until(lambda: coordinator.requests(HeartbeatRequest), member)

    assert {each.client_id for each in coordinator.requests(HeartbeatRequest)} == {"c1"}
    assert together(coordinator) == []


def test_without_lingering_each_beats_for_itself(connect, make, coordinator):
    connection = connect(heartbeat_linger_ms=0)
    members = [make(connection, f"c{number}") for number in range(3)]
    share(*members)
    coordinator.log.clear()
    poll_until(lambda: len(coordinator.requests(HeartbeatRequest)) > 6, *members)

    assert together(coordinator) == []


def beat(n, number=1, group_id="g"):
    return HeartbeatRequest(
        request_id=f"c{n}-i-{number}",
        client_id=f"c{n}",
        group_id=group_id,
        generation_id=1,
        member_id=f"m{n}",
    )


def test_nothing_overtakes_a_heartbeat(connect, coordinator):
    connection = connect(heartbeat_linger_ms=60_000)
    channels = [connection.channel() for _ in range(2)]
    for n, channel in enumerate(channels):
        channel.send(beat(n))
        channel.send(beat(n, group_id="another"))
    leave = LeaveGroupRequest(
        request_id="c0-i-2", client_id="c0", group_id="g", members=[LeavingMember(member_id="m0")]
    )
    channels[0].send(leave)

    beats, then = coordinator.log
    assert [each.member_id for each in beats.beats] == ["m0", "m1"]
    assert then == leave


def test_one_of_them_that_is_out_hears_of_it(connect, make, coordinator):
    connection = connect()
    members = [make(connection, f"c{number}") for number in range(2)]
    share(*members)
    out, stays = members
    before = out.member_id, stays.member_id
    coordinator.append(
        LeaveGroupRequest(
            request_id="r", client_id="admin", group_id="orders", members=[LeavingMember(member_id=before[0])]
        )
    )

    poll_until(lambda: out.member_id not in ("", before[0]), *members)
    share(*members)
    assert stays.member_id == before[1]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            lambda it: HeartbeatResponse.to(it.reply_to, "g", Errors.UNSUPPORTED_VERSION),
            "UNSUPPORTED_VERSION",
        ),
        (
            lambda it: InvalidRequestResponse(
                api="heartbeat", request_id=it.request_id, client_id="host", group_id="g", error_message="why"
            ),
            "INVALID_REQUEST",
        ),
    ],
)
def test_what_is_wrong_with_all_is_told_to_each(connect, kafka, coordinator, answer, expected):
    coordinator.paused = True
    connection = connect(heartbeat_linger_ms=1)
    channels = [connection.channel() for _ in range(2)]
    sent = [beat(n) for n in range(2)]
    for channel, request in zip(channels, sent, strict=True):
        channel.send(request)
    wait_for(lambda: together(coordinator))
    (beats,) = together(coordinator)
    kafka.put(answer(beats))

    for channel, request in zip(channels, sent, strict=True):
        (told,) = channel.receive(10_000)
        assert (told.request_id, told.client_id, told.error) == (
            request.request_id,
            request.client_id,
            expected,
        )


def test_an_error_of_a_newer_coordinator_ends_no_connection(connect, kafka, coordinator):
    coordinator.paused = True
    connection = connect(heartbeat_linger_ms=1)
    channels = [connection.channel() for _ in range(2)]
    for n, channel in enumerate(channels):
        channel.send(beat(n))
    wait_for(lambda: together(coordinator))
    (beats,) = together(coordinator)
    results = [MemberResult(member_id=f"m{n}", error_code=code) for n, code in enumerate((0, 999))]
    kafka.put(HeartbeatResponse.to(beats.reply_to, "g", Errors.NONE, members=results))
    told = [it.error for channel in channels for it in channel.receive(10_000)]
    assert told == ["NONE", "UNKNOWN_SERVER_ERROR"]


def test_a_repeated_answer_and_one_to_nobody_change_nothing(connect, kafka, coordinator):
    connection = connect(heartbeat_linger_ms=1)
    channels = [connection.channel() for _ in range(2)]
    for n, channel in enumerate(channels):
        channel.send(beat(n))
    # The coordinator in memory answers twice.
    told = [channel.receive(10_000) for channel in channels]
    kafka.put(HeartbeatResponse(request_id="who-1", client_id="c0", group_id="g"))
    channels[0].send(beat(0, 2))

    assert [[(it.request_id, it.error) for it in each] for each in told] == [
        [(f"c{n}-i-1", "UNKNOWN_MEMBER_ID")] for n in range(2)
    ]
    assert {it.request_id for it in channels[0].receive(10_000)} == {"c0-i-2"}


def test_what_ends_the_connection_is_raised_by_each_member(connect, make, kafka):
    connection = connect()
    members = [make(connection, f"c{number}") for number in range(2)]
    share(*members)
    kafka.receive_error = KafkaConnectionError("gone")

    for member in members:
        with pytest.raises(KafkaConnectionError, match="gone"):
            poll_until(lambda: False, member)


def test_answers_that_are_never_given_are_not_waited_for_for_ever(connect, coordinator):
    coordinator.paused = True
    connection = connect(heartbeat_linger_ms=60_000)
    channels = [connection.channel() for _ in range(2)]
    for round_ in range(1_100):
        for n, channel in enumerate(channels):
            channel.send(beat(n, round_, f"g{round_}"))
    connection.close()

    assert len(together(coordinator)) == 1_100
    assert len(connection._awaited) == 1_000


def test_answers_that_do_not_come_are_not_waited_for_for_long(connect, coordinator, monkeypatch):
    coordinator.paused = True
    now = [0]
    monkeypatch.setattr(shared, "now_ms", lambda: now[0])
    connection = connect(heartbeat_linger_ms=60_000)
    channels = [connection.channel() for _ in range(2)]
    for at_s in (0, 50, 61):
        now[0] = at_s * 1_000
        for n, channel in enumerate(channels):
            channel.send(beat(n, at_s, f"g{at_s}"))
        with connection._lock:
            connection._flush([f"g{at_s}"])
    assert [each.sent_at for each in connection._awaited.values()] == [50_000, 61_000]


def test_a_heartbeat_of_all_is_quiet_if_each_is(connect, coordinator):
    connection = connect(heartbeat_linger_ms=60_000)
    channels = [connection.channel() for _ in range(2)]
    for group_id, quiets in (("g", (True, True)), ("h", (True, msgspec.UNSET))):
        for n, (channel, quiet) in enumerate(zip(channels, quiets, strict=True)):
            channel.send(msgspec.structs.replace(beat(n, group_id=group_id), quiet=quiet))
    connection.close()
    assert {each.group_id: each.quiet for each in together(coordinator)} == {"g": True, "h": msgspec.UNSET}


def test_so_many_at_most_are_sent_together(connect, coordinator):
    coordinator.paused = True
    connection = connect(heartbeat_linger_ms=60_000)
    channel = connection.channel()
    for n in range(1_001):
        channel.send(beat(n))
    assert [len(each.beats) for each in coordinator.requests(HeartbeatRequest)] == [1_000]
    connection.close()
    connection.close()

    assert [len(each.beats) for each in coordinator.requests(HeartbeatRequest)] == [1_000, 1]


def test_an_answer_about_other_members_ends_no_connection(connect, kafka, coordinator):
    coordinator.paused = True
    connection = connect(heartbeat_linger_ms=1)
    channels = [connection.channel() for _ in range(2)]
    for n, channel in enumerate(channels):
        channel.send(beat(n))
    wait_for(lambda: together(coordinator))
    (beats,) = together(coordinator)
    for names in (["m0"], ["m1", "m0"]):
        results = [MemberResult(member_id=each, error_code=25) for each in names]
        kafka.put(HeartbeatResponse.to(beats.reply_to, "g", Errors.NONE, members=results))
    results = [MemberResult(member_id=f"m{n}") for n in range(2)]
    kafka.put(HeartbeatResponse.to(beats.reply_to, "g", Errors.NONE, members=results))
    assert [it.error for channel in channels for it in channel.receive(10_000)] == ["NONE", "NONE"]
