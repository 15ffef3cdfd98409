"""Conversations without sockets: what a client and its broker send, and what each of them gets of that."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    SyncGroupRequest,
)
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslHandshakeRequest

from group_coordinator.gateway import codec
from group_coordinator.gateway.limits import Budget, Limits, Pending, largest
from group_coordinator.gateway.security import Security
from tests.gateway.talks import (
    ALIVE,
    GRANTED,
    MOST_PENDING,
    PLAIN,
    REQUEST_RATE,
    SASL,
    SHARE,
    Talk,
    accepted,
    asks_for_life,
    authenticate,
    authenticated,
    beat,
    fetch,
    handshake,
    leave,
    number,
    response,
)

# -- requests and responses ----------------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_questions() -> None:
    talk = Talk()
    gateway = talk.gateway
    talk.client(fetch(1) + beat(2) + fetch(3) + beat(4))
    assert talk.passed() == [fetch(1), fetch(3)], "a wait holds nothing up"
    assert len(gateway.asked) == 2
    talk.answer(1)
    talk.broker(response(1) + response(3, b"later"))
    assert talk.told() == [response(1)]
    talk.answer(0)
    assert talk.numbers() == [2, 3, 4]
    assert (gateway.clients[0].host, gateway.clients[0].node_id) == ("/10.0.0.7", 1)
    # By the second fetch and the second heartbeat, behind the first heartbeat.
    assert gateway.held_up_for == [talk.conversation.client] * 2
    talk.client(fetch(5) + beat(6))
    assert len(gateway.held_up_for) == 2, "no heartbeat waits before these"


def test_a_request_is_taken_however_its_bytes_come() -> None:
    talk = Talk()
    sent = fetch(1, b"body") + beat(2)
    for byte in sent:
        talk.client(bytes([byte]))
    assert talk.passed() == [fetch(1, b"body")]
    answer = response(1, b"records")
    for byte in answer:
        talk.broker(bytes([byte]))
    talk.answer()
    assert talk.told()[0] == answer
    assert talk.gateway.unfinished.total == 0


def test_a_produce_without_acknowledgements_has_no_response() -> None:
    talk = Talk()
    silent = codec.encode_request(ProduceRequest(version=9, acks=0, timeout_ms=1), 1, "c")
    spoken = codec.encode_request(ProduceRequest(version=9, acks=1, timeout_ms=1), 2, "c")
    for byte in silent:
        talk.client(bytes([byte]))
    talk.client(spoken + beat(3))
    assert talk.passed() == [silent, spoken]
    talk.broker(response(2))
    talk.answer()
    assert talk.numbers() == [2, 3]


def test_a_long_head_of_a_produce_is_looked_at_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def acks(frame: bytes, version: int) -> int | None:
        looked.append(len(frame))
        return known(frame, version)

    known = codec.produce_acks
    monkeypatch.setattr(codec, "produce_acks", acks)
    message = ProduceRequest(version=9, transactional_id="t" * 400, acks=1, timeout_ms=1)
    frame = codec.encode_request(message, 1, "c")
    talk = Talk()
    for start in range(0, len(frame), 5):
        talk.client(frame[start : start + 5])
    assert talk.passed() == [frame]
    assert len(looked) > 1
    assert all(2 * before <= after for before, after in itertools.pairwise(looked[:-1]))


def test_what_names_a_topic_of_the_coordinators_is_answered_in_its_turn_or_ends_the_connection() -> None:
    kind = ProduceRequest.TopicProduceData
    entry = kind.PartitionProduceData(version=9, index=0, records=b"r" * 40_000)
    small, large = (
        ProduceRequest(
            version=9, acks=1, timeout_ms=1, topic_data=[kind(version=9, name="own", partition_data=it)]
        )
        for it in ([], [entry])
    )
    talk = Talk(Security(own_topics=frozenset({"own"})))
    talk.client(fetch(1) + codec.encode_request(small, 2, "c") + fetch(3))
    assert talk.passed() == [fetch(1), fetch(3)]
    talk.broker(response(1) + response(3))
    assert talk.numbers() == [1, 2, 3]
    talk.client(codec.encode_request(large, 4, "c"))
    assert (talk.wires.ended, talk.gateway.reasons) == ("aborted", ["frame error"])


@pytest.mark.parametrize(("elements", "asked"), [(Limits.elements_alone, 3), (Limits.elements_alone + 1, 1)])
def test_a_large_request_holds_back_what_comes_after_it(elements: int, asked: int) -> None:
    talk = Talk()
    talk.client(leave(1, elements) + leave(2, elements) + beat(3))
    assert len(talk.gateway.asked) == asked
    for which in range(3):
        talk.answer(which)
        assert talk.numbers() == [which + 1]


# -- what is too large, or too much --------------------------------------------------------------------

LARGE = Limits.whole_frame + 1_000


def large(message: Any, fill: str) -> bytes:
    """A request whose bytes field `fill` makes it larger than what is kept."""
    message.group_id, message.member_id = "g", ""
    (entry,) = getattr(message, "protocols", None) or message.assignments
    setattr(entry, fill, bytes(LARGE))
    return codec.encode_request(message, 5, "c")


def test_a_request_that_is_too_large_to_be_kept_is_answered_and_the_connection_stays() -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id="m", assignment=b"")
    times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "protocol_type": "consumer"}
    joins = (JoinGroupRequest(version=version, protocols=[protocol], **times) for version in (0, 9))
    sent = [
        *((large(each, "metadata"), 11, each.version, 81) for each in joins),
        (large(SyncGroupRequest(version=5, assignments=[assignment]), "assignment"), 14, 5, -1),
    ]
    talk = Talk()
    for frame, api_key, version, error in sent:
        talk.client(frame[:-1])
        assert talk.gateway.unfinished.total == 0, "nothing of it is kept"
        talk.client(frame[-1:])
        (told,) = talk.told()
        assert codec.decode_response(api_key, version, told).error_code == error
    talk.client(beat(1))
    talk.answer()
    assert talk.numbers() == [1]


@pytest.mark.parametrize(
    ("api_key", "size", "security"),
    [(11, Limits.passed_frame + 1, PLAIN), (12, LARGE, PLAIN), (11, LARGE, SASL)],
)
def test_a_request_that_cannot_be_answered_so_is_closed(api_key: int, size: int, security: Security) -> None:
    talk = Talk(security)
    talk.client(size.to_bytes(4) + api_key.to_bytes(2) + bytes(2) + bytes(4))
    assert (talk.wires.ended, talk.gateway.reasons) == ("aborted", ["frame error"])


def test_the_connection_goes_whose_request_has_been_unfinished_longest() -> None:
    long = codec.encode_request(HeartbeatRequest(version=0, group_id="g" * 800, member_id="m"), 1, "c")
    talk = Talk()
    other = Talk(beside=talk)
    talk.client(long + long[:700])
    assert talk.gateway.unfinished.total == 700
    other.client(long[:500])
    assert (talk.wires.ended, other.wires.ended) == ("aborted", "")
    other.client(long[500:])
    assert (len(talk.gateway.asked), talk.gateway.unfinished.total) == (2, 0)
    assert talk.gateway.reasons == ["unfinished requests"]


def test_responses_that_wait_for_one_before_them_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Limits, "held", 40)
    talk = Talk()
    talk.client(b"".join(map(beat, range(5))))
    for which in (1, 2, 3):
        talk.answer(which)  # of 10 bytes
    assert talk.gateway.reasons == []
    talk.answer(0)
    assert talk.numbers() == [0, 1, 2, 3]
    talk.client(b"".join(map(beat, range(5, 10))))
    for which in range(5, 10):
        talk.answer(which)
    assert talk.gateway.reasons == ["frame error"]


def test_the_connection_goes_that_keeps_most_of_what_is_not_read() -> None:
    talk = Talk()
    gateway = talk.gateway
    gateway.unread = Budget("unread responses", "", 40, largest)
    other = Talk(beside=talk)
    talk.client(b"".join(map(beat, range(3))))
    other.client(b"".join(map(beat, range(4))))
    # Of 10 bytes each, behind one that waits.
    for which in (1, 2, 4, 5):
        talk.answer(which)
    assert gateway.unread.total == 40
    talk.answer(6)
    assert (talk.wires.ended, other.wires.ended) == ("", "aborted")
    talk.answer(0)
    assert talk.numbers() == [0, 1, 2]
    assert gateway.unread.total == 0
    assert gateway.reasons == ["unread responses"]


def test_a_user_that_asks_too_often_is_told_so_and_not_read_for_a_while() -> None:
    talk = Talk()
    host = talk.gateway.hosts.of("/10.0.0.7")
    for _ in range(2 * REQUEST_RATE):
        host.requests.take(talk.loop.now_s)
    talk.client(beat(1) + leave(2, 1) + beat(3))
    assert (len(talk.gateway.asked), talk.wires.is_read) == (2, False)
    talk.answer(0)
    assert talk.numbers() == [1], "heartbeats are not counted"
    talk.answer(1)
    (told,) = talk.told()
    throttle_ms = codec.decode_response(13, 3, told).throttle_time_ms
    assert 0 < throttle_ms <= 1_100
    talk.pass_time(throttle_ms / 1000 - 0.01)
    assert len(talk.gateway.asked) == 2
    talk.pass_time(0.02)
    assert (len(talk.gateway.asked), talk.wires.is_read) == (3, True)


def test_a_client_is_not_read_while_too_many_of_its_requests_wait() -> None:
    talk = Talk()
    gateway = talk.gateway
    other = Talk(beside=talk)
    # In one piece, and after it: what has been read is not taken either.
    talk.client(b"".join(map(beat, range(MOST_PENDING))))
    talk.client(fetch(99))
    assert (len(gateway.asked), talk.passed(), talk.wires.is_read) == (SHARE, [], False)
    assert gateway.stopped == [talk.conversation]
    other.client(beat(1))
    other.answer(SHARE)
    assert other.numbers() == [1], "others may ask"
    del gateway.asked[SHARE]
    for which in range(MOST_PENDING):
        talk.answer(which)
    assert (talk.passed(), talk.wires.is_read) == ([fetch(99)], True)
    assert (gateway.pending.count, gateway.pending.bytes) == (0, 0)


# -- a client that does not read, and a broker ---------------------------------------------------------


def test_a_client_that_does_not_read_holds_up_its_broker() -> None:
    talk = Talk()
    wires, unread = talk.wires, talk.gateway.unread
    talk.client(fetch(1) + beat(2))
    wires.client_unsent = 300_000
    talk.conversation.client_reads(talk.loop.now_s, is_reading=False)
    assert (wires.is_read, wires.broker_is_read, unread.total) == (False, False, 300_000)
    talk.broker(response(1))
    talk.answer()
    assert talk.told() == []
    wires.client_unsent = 0
    talk.conversation.client_reads(talk.loop.now_s, is_reading=True)
    assert talk.numbers() == [1, 2]
    assert (wires.is_read, wires.broker_is_read, unread.total) == (True, True, 0)


def test_a_broker_that_does_not_read_holds_up_its_client() -> None:
    talk = Talk()
    wires, unread = talk.wires, talk.gateway.unread
    wires.connects_at_once, wires.broker_unsent = False, 5
    talk.client(fetch(1))
    assert (wires.is_read, unread.total) == (False, 5), "nor is one read that is not connected"
    talk.conversation.broker_connected(1, is_connected=True)
    assert (wires.is_read, unread.total) == (True, 0)
    wires.broker_unsent = 300_000
    talk.conversation.broker_reads(is_reading=False)
    assert (wires.is_read, wires.broker_is_read, unread.total) == (False, True, 300_000)
    talk.conversation.broker_reads(is_reading=True)
    assert (wires.is_read, unread.total) == (True, 0)


def test_a_broker_is_not_read_while_its_response_has_to_wait() -> None:
    talk = Talk()
    talk.client(beat(1) + fetch(2))
    assert not talk.wires.broker_is_read
    talk.broker(response(2))
    talk.answer()
    assert talk.numbers() == [1, 2]
    assert talk.wires.broker_is_read


def test_nothing_more_is_sent_to_a_client_that_has_gone() -> None:
    talk = Talk()
    talk.client(beat(1) + beat(2))
    talk.answer(1)
    talk.wires.client_has_gone = True
    talk.answer(0)
    assert talk.numbers() == [1]


# -- a broker that goes --------------------------------------------------------------------------------


def test_an_idle_broker_may_go_and_the_client_notices_nothing() -> None:
    talk = Talk()
    for each in (1, 2):
        talk.client(fetch(each))
        talk.broker(response(each))
        talk.lose_broker()
        talk.client(beat(10 + each))
        talk.gateway.asked.pop()()
        assert talk.numbers() == [each, 10 + each]
    assert (talk.wires.ended, len(talk.wires.asked_to_serve)) == ("", 2)


def test_a_broker_that_goes_takes_its_client_along_after_what_it_does_not_owe() -> None:
    talk = Talk()
    talk.client(beat(1) + fetch(2) + beat(3))
    talk.lose_broker()
    talk.answer(1)
    assert talk.wires.ended == ""
    talk.answer(0)
    assert talk.numbers() == [1]
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["broker"])


def test_a_broker_that_goes_in_the_middle_of_a_request_takes_its_client_along() -> None:
    talk = Talk()
    talk.client(fetch(1) + fetch(2, b"a body")[:-1])
    talk.broker(response(1))
    talk.lose_broker()
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["broker"])


def test_a_client_whose_broker_goes_while_it_does_not_read_is_read_again() -> None:
    talk = Talk()
    silent = codec.encode_request(ProduceRequest(version=9, acks=0, timeout_ms=1), 1, "c")
    talk.client(silent)
    talk.wires.broker_unsent = 300_000
    talk.conversation.broker_reads(is_reading=False)
    assert (talk.wires.is_read, talk.gateway.unread.total) == (False, 300_000)
    talk.wires.broker_unsent = 0
    talk.lose_broker()
    assert (talk.wires.ended, talk.wires.is_read, talk.gateway.unread.total) == ("", True, 0)


def test_a_client_stays_with_the_broker_that_has_served_it() -> None:
    talk = Talk()
    talk.serving = [(2, ("other", 9092)), *talk.serving]
    talk.wires.connects_at_once = False
    talk.client(fetch(1))
    talk.conversation.broker_connected(2, is_connected=False)
    talk.conversation.broker_connected(1, is_connected=True)
    talk.broker(response(1))
    talk.lose_broker()
    talk.client(fetch(2))
    assert talk.wires.asked_to_serve == [talk.serving, talk.serving[1:]]
    assert talk.gateway.connections_to_brokers == [(2, False), (1, True)]


def test_a_response_that_nobody_has_asked_for_ends_the_connection() -> None:
    talk = Talk()
    talk.client(fetch(1))
    talk.broker(response(2))
    assert (talk.wires.ended, talk.gateway.reasons) == ("aborted", ["frame error"])
    assert talk.gateway.told == ["/10.0.0.7: the broker's response a response to 2 instead of 1"]


# -- logins --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [fetch(1), beat(1)])
def test_nothing_is_read_before_a_login(frame: bytes) -> None:
    talk = Talk(SASL)
    talk.client(frame)
    assert (talk.wires.ended, talk.passed(), talk.gateway.asked) == ("aborted", [], [])
    assert "comes before a login" in talk.gateway.told[0]


@pytest.mark.parametrize("key", [17, 18, 36])
def test_a_frame_before_a_login_has_512_kib_at_most(key: int) -> None:
    talk = Talk(SASL)
    talk.client((512 * 1024 + 1).to_bytes(4) + key.to_bytes(2) + (1).to_bytes(2) + bytes(4))
    assert "524289 bytes, of at most 524288" in talk.gateway.told[0]


def test_a_login_takes_its_turn_and_nothing_is_answered_before_the_broker_says_so() -> None:
    talk = Talk(SASL)
    talk.client(authenticate(1) + beat(2) + fetch(3) + authenticate(4) + fetch(5))
    assert talk.passed() == [authenticate(1)]
    talk.broker(authenticated(1))
    (asked,) = talk.passed()
    assert asks_for_life(asked)
    assert talk.gateway.asked == []
    talk.broker(ALIVE)
    assert talk.passed() == [fetch(3)]
    talk.broker(response(3))
    assert talk.passed() == [], "the heartbeat is not answered yet"
    talk.answer()
    assert talk.passed() == [authenticate(4)]
    talk.broker(authenticated(4))
    assert talk.passed() == [fetch(5)]
    talk.broker(response(5))
    assert talk.numbers() == [1, 2, 3, 4, 5]


def test_who_has_not_logged_in_to_the_end_is_closed_by_the_broker() -> None:
    talk = Talk(SASL)
    talk.client(authenticate(1) + beat(2))
    talk.broker(authenticated(1))  # the first of two rounds, as far as anybody can tell
    talk.lose_broker()
    assert talk.numbers() == [1]
    assert (talk.gateway.asked, talk.wires.ended, talk.gateway.reasons) == ([], "closed", ["broker"])


def test_a_session_that_is_over_ends_the_connection() -> None:
    talk = Talk(SASL)
    talk.gateway.accepts = True
    talk.log_in(lifetime_ms=1_000)
    talk.pass_time(0.9)
    talk.client(beat(3))
    assert len(talk.gateway.asked_again) == 1
    talk.pass_time(0.2)
    talk.client(beat(4))
    assert talk.numbers() == [1]
    assert (talk.wires.ended, talk.gateway.reasons) == ("aborted", ["frame error"])


def test_requests_have_the_name_that_the_broker_has_accepted() -> None:
    talk = Talk(SASL)
    gateway = talk.gateway
    talk.client(handshake(1) + authenticate(2) + beat(3))
    talk.broker(accepted(1))
    assert talk.conversation.client.principal is None
    talk.broker(authenticated(2, lifetime_ms=1_000_000))
    talk.broker(ALIVE)
    assert [each.principal for each in gateway.clients] == ["alice"]
    talk.answer()
    # A second login that the broker refuses takes nothing of the first one.
    talk.client(handshake(4) + authenticate(5, b"mallory") + beat(6))
    talk.broker(accepted(4))
    talk.broker(authenticated(5, error_code=58))
    assert [each.principal for each in gateway.clients] == ["alice", "alice"]
    talk.pass_time(500)
    talk.client(beat(7))
    assert talk.gateway.reasons == []
    talk.pass_time(501)
    talk.client(beat(8))
    assert talk.gateway.reasons == ["frame error"]


def test_a_login_is_kept_alive_and_is_lost_with_its_broker() -> None:
    talk = Talk(SASL)
    talk.log_in()
    talk.answer()
    assert talk.numbers() == [1, 2]
    talk.pass_time(Limits.keep_alive_s - 1)
    assert talk.passed() == []
    talk.pass_time(2)
    (asked,) = talk.passed()
    assert asks_for_life(asked)
    talk.broker(ALIVE)
    assert talk.told() == [], "the client learns nothing of it"
    talk.lose_broker()
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["broker"])


def test_a_broker_is_asked_nothing_in_the_middle_of_a_login() -> None:
    talk = Talk(SASL)
    talk.log_in()
    talk.answer()
    talk.client(handshake(3))
    talk.broker(accepted(3))
    assert talk.numbers() == [1, 2, 3]
    talk.passed()
    talk.pass_time(Limits.keep_alive_s + 1)
    assert talk.passed() == [], "it would take nothing but the next part of the login"


def test_a_login_without_frames_is_refused() -> None:
    talk = Talk()
    talk.client(codec.encode_request(SaslHandshakeRequest(version=0, mechanism="PLAIN"), 9, "c"))
    assert talk.told() == [bytes.fromhex("0000000a00000009002300000000")]
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["frame error"])


# -- a heartbeat that comes again ----------------------------------------------------------------------


def test_a_heartbeat_that_comes_again_is_known_by_its_bytes() -> None:
    talk = Talk()
    gateway = talk.gateway
    gateway.accepts = True
    talk.client(beat(1))
    talk.answer()
    assert talk.numbers() == [1]
    talk.client(beat(2))
    assert len(gateway.asked_again) == 1
    talk.client(fetch(3))
    talk.broker(response(3))
    assert gateway.held_up_for == [talk.conversation.client]
    talk.answer_again(error_code=27)
    refusal = HeartbeatResponse(version=0, error_code=27)
    assert talk.told() == [codec.encode_response(refusal, 2), response(3)]
    # What only ends with such bytes is another request.
    longer = fetch(4, beat(5))
    talk.passed()
    talk.client(longer[: -len(beat(5))])
    talk.client(beat(5))
    assert talk.passed() == [longer]
    # So is one of another generation, and that of before is another one then.
    for each, generation_id in ((6, 2), (7, 1)):
        message = HeartbeatRequest(version=0, group_id="g", generation_id=generation_id, member_id="m")
        talk.client(codec.encode_request(message, each, "c"))
        assert len(gateway.asked) == each - 4
    assert len(gateway.asked_again) == 1
    assert gateway.metrics.requests[HeartbeatRequest.API_KEY].total == 4
    for which in (1, 2):
        talk.answer(which)
    assert gateway.pending.count == 0


def test_one_that_the_coordinator_cannot_read_is_not_taken_again() -> None:
    talk = Talk()
    for each in (1, 2):
        talk.client(beat(each))
        assert len(talk.gateway.asked) == each
    assert talk.gateway.asked_again == []


def test_one_that_is_large_is_not_kept() -> None:
    # A tag that nobody knows (KIP-482): a broker passes over it.
    small = codec.encode_request(HeartbeatRequest(version=4, group_id="g", member_id="m"), 1, "c")
    body = small[4:-1] + b"\x01\x63\x90\x4e" + bytes(10_000)
    large = len(body).to_bytes(4) + body
    assert Limits.kept_frame < len(large) < Limits.local_frame
    talk = Talk()
    talk.gateway.accepts = True
    for each in (1, 2):
        talk.client(large)
        assert len(talk.gateway.asked) == each
    assert talk.gateway.asked_again == []
    assert talk.conversation._local.beat is None


def test_clients_whose_heartbeats_come_again_are_not_read_either_while_too_many_wait() -> None:
    talk = Talk()
    gateway = talk.gateway
    gateway.accepts = True
    for each in range(SHARE):
        talk.client(beat(each))
    assert (len(gateway.asked), len(gateway.asked_again)) == (1, SHARE - 1)
    assert (list(gateway.pending.stopped), talk.wires.is_read) == ([talk.conversation], False)
    talk.answer()
    assert talk.wires.is_read
    talk.client(beat(99))
    for which in range(SHARE):
        talk.answer_again(which)
    assert talk.numbers() == [*range(SHARE), 99]
    assert gateway.pending.count == 0


@pytest.mark.parametrize("waits_s", [59, 61])
def test_one_that_comes_again_needs_its_right_again(waits_s: float) -> None:
    talk = Talk(Security(asks_rights=True))
    gateway = talk.gateway
    gateway.accepts = True
    talk.client(beat(1))
    talk.broker(GRANTED)
    assert (len(talk.passed()), len(gateway.asked)) == (1, 1)
    talk.pass_time(waits_s)
    talk.client(beat(2))
    if waits_s < 60:
        assert (talk.passed(), len(gateway.asked_again)) == ([], 1)
    else:
        assert (len(talk.passed()), gateway.asked_again) == (1, [])
        talk.broker(GRANTED)
        assert len(gateway.asked) == 2


def test_one_that_comes_again_needs_no_other_login_and_none_that_is_lost() -> None:
    talk = Talk(SASL)
    gateway = talk.gateway
    gateway.accepts = True
    talk.log_in()
    talk.answer()
    talk.client(beat(3))
    talk.answer_again()
    assert talk.numbers() == [1, 2, 3]
    # While the client logs in again, what comes next has to wait.
    talk.client(authenticate(4))
    assert talk.passed() == [authenticate(4)]
    talk.client(beat(5))
    assert (len(gateway.asked), len(gateway.asked_again)) == (1, 1)
    talk.broker(authenticated(4))
    assert len(gateway.asked) == 2
    talk.answer(1)
    assert talk.numbers() == [4, 5]


# -- rights --------------------------------------------------------------------------------------------


def test_a_request_waits_for_its_rights_and_what_comes_next_for_it() -> None:
    talk = Talk(Security(asks_rights=True))
    talk.client(beat(1) + fetch(2) + beat(3))
    question = HeartbeatRequest(version=0, group_id="g", generation_id=-1, member_id="")
    assert talk.passed() == [codec.encode_request(question, 0, "group-coordinator-gateway")]
    assert talk.gateway.asked == []
    talk.broker(GRANTED)
    assert talk.passed() == [fetch(2)], "the second heartbeat's right is known"
    assert len(talk.gateway.asked) == 2
    talk.answer(0)
    talk.answer(1)
    talk.broker(response(2))
    assert talk.numbers() == [1, 2, 3]


def test_rights_are_asked_for_with_the_prefix_of_groups_also_for_one_that_comes_again() -> None:
    talk = Talk(Security(asks_rights=True, groups_prefix="tenant-"))
    talk.gateway.accepts = True
    talk.client(beat(1))
    (question,) = talk.passed()
    assert b"tenant-g" in question
    talk.broker(GRANTED)
    talk.client(beat(2))
    assert len(talk.gateway.asked_again) == 1


def test_a_broker_that_goes_before_it_tells_of_a_right_takes_its_client_along() -> None:
    talk = Talk(Security(asks_rights=True))
    talk.client(beat(1) + fetch(2))
    talk.lose_broker()
    assert (talk.gateway.asked, talk.told()) == ([], [])
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["broker"])


# -- turns ---------------------------------------------------------------------------------------------

A_TURN_S = 0.02
"""Of work for each request: more than there is in a turn."""


def test_a_client_with_many_requests_in_one_piece_lets_others_in_between() -> None:
    many = 50
    talk = Talk()
    gateway = talk.gateway
    gateway.pending = Pending(1_000, 1_000_000, gateway.stopped.append)
    other = Talk(beside=talk)
    talk.loop.each_look_s = A_TURN_S
    # Both have come before the loop goes on.
    talk.conversation.receive(b"".join(map(beat, range(many))), talk.loop.now_s)
    other.client(beat(1))
    assert len(gateway.asked) == many + 1
    assert gateway.clients.index(other.conversation.client) < 10, "it did not wait for all of them"


def test_answers_that_come_together_let_others_in_between() -> None:
    many = 20
    talk = Talk()
    gateway = talk.gateway
    gateway.pending = Pending(1_000, 1_000_000, gateway.stopped.append)
    other = Talk(beside=talk)
    talk.client(b"".join(leave(each, 1) for each in range(many)))
    assert len(gateway.asked) == many
    talk.loop.each_look_s = A_TURN_S
    for answer in gateway.asked[:many]:
        answer()
    # This client has waited for nothing yet, and is read before the others are answered.
    other.client(beat(1))
    assert len(gateway.asked) == many + 1
    assert gateway.owed[-1] > many // 2
    assert talk.numbers() == list(range(many))


def test_a_request_that_took_long_to_read_lets_others_in_before_it_is_asked() -> None:
    talk = Talk()
    gateway = talk.gateway
    other = Talk(beside=talk)
    talk.loop.each_look_s = A_TURN_S
    talk.conversation.receive(leave(1, Limits.elements_alone + 1), talk.loop.now_s)
    other.conversation.receive(beat(1), talk.loop.now_s)
    assert not gateway.asked, "both wait"
    talk.loop.run()
    assert gateway.clients == [other.conversation.client, talk.conversation.client]


# -- time passes, and the end --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "silent_s", "ended"),
    [
        (b"", Limits.first_frame_s - 1, ""),
        (b"", Limits.first_frame_s + 1, "closed"),
        # One byte after the other, and so never silent.
        (beat(1)[:-1], Limits.local_frame_s, ""),
        (beat(1)[:-1], Limits.local_frame_s + 1, "aborted"),
    ],
)
def test_a_connection_of_which_nothing_whole_comes_is_closed(
    sent: bytes, silent_s: float, ended: str
) -> None:
    talk = Talk()
    if sent:
        # The limit of a first request is another one.
        talk.client(fetch(0))
        talk.broker(response(0))
    step_s = silent_s / max(1, len(sent) - 1)
    for place, byte in enumerate(sent):
        talk.loop.pass_time(step_s if place else 0)
        talk.client(bytes([byte]))
    talk.pass_time(0 if sent else silent_s)
    assert talk.wires.ended == ended


def test_a_client_that_does_not_read_goes_though_it_is_owed_something() -> None:
    talk = Talk()
    talk.client(beat(1))
    talk.pass_time(2 * Limits.idle_s)
    assert talk.wires.ended == ""
    talk.conversation.client_reads(talk.loop.now_s, is_reading=False)
    talk.pass_time(2 * Limits.idle_s)
    assert talk.wires.ended == "aborted"


@pytest.mark.parametrize("is_passed", [True, False])
def test_a_client_that_has_closed_its_side_is_answered(is_passed: bool) -> None:
    talk = Talk()
    talk.client(fetch(1) if is_passed else beat(1))
    talk.conversation.receive_end(talk.loop.now_s)
    assert talk.wires.ended == ""
    if is_passed:
        talk.broker(response(1))
    else:
        talk.answer()
    assert talk.numbers() == [1]
    assert (talk.wires.ended, talk.gateway.reasons) == ("closed", ["client"])


def test_a_client_that_goes_while_it_is_not_read_is_noticed() -> None:
    talk = Talk()
    talk.client(b"".join(map(beat, range(MOST_PENDING))) + fetch(99))
    talk.wires.client_has_gone = True
    talk.pass_time(1)
    assert (talk.wires.ended, talk.gateway.reasons) == ("aborted", ["client"])
    # What it has sent and was not read does not count: it may have sent it again, elsewhere.
    assert (len(talk.gateway.asked), talk.passed()) == (SHARE, [])
    assert (talk.gateway.pending.count, talk.gateway.pending.stopped) == (0, {})


def test_what_a_client_has_asked_that_has_gone_does_not_wait() -> None:
    talk = Talk()
    gateway = talk.gateway
    gateway.accepts = True
    talk.client(beat(1) + beat(2))
    talk.answer(0)
    talk.client(beat(3))
    assert len(gateway.asked_again) == 1
    talk.conversation.receive_end(talk.loop.now_s)
    talk.pass_time(Limits.end_s)
    assert gateway.pending.count == 2, "it may only have closed its side"
    talk.pass_time(1)
    assert (talk.wires.ended, gateway.pending.count) == ("aborted", 0)
    # An answer that comes later is not counted again.
    talk.answer(1)
    talk.answer_again()
    assert (gateway.pending.count, gateway.pending.bytes) == (0, 0)
    assert talk.numbers() == [1]


def test_one_that_there_is_no_room_for_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    monkeypatch.setattr(talk.gateway, "entered", lambda _conversation: None)
    other = Talk(beside=talk)
    talk.loop.run()
    assert (other.wires.ended, talk.gateway.reasons) == ("aborted", ["too many"])


def test_a_bug_in_an_answer_ends_this_client_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    talk = Talk()
    other = Talk(beside=talk)

    def broken(*_: Any) -> None:
        raise KeyError("a bug")

    talk.client(beat(1))
    other.client(beat(2))
    monkeypatch.setattr(codec, "encode_response", broken)
    talk.answer(0)
    monkeypatch.undo()
    talk.answer(1)
    assert (talk.wires.ended, talk.told()) == ("aborted", [])
    assert ([number(each) for each in other.told()], other.wires.ended) == ([2], "")
    assert "a response cannot be given" in caplog.text
