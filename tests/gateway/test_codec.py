from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin.groups import DeleteGroupsRequest, DescribeGroupsRequest
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetFetchRequest,
)
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorRequest
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields

from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from tests.depth import cases
from tests.gateway.messages import VERSIONS, drawn, kind_of
from tests.gateway.worst import Counted, varint
from tests.gateway.worst import request as worst_request
from tests.gateway.worst import text as worst_text

MUTATED = cases(2_000, deep=100_000)


def encoded(draw: st.DrawFn, key: int, which: int, version: int) -> bytes:
    message = drawn(draw, key, which, version)
    if isinstance(message, ApiVersionsResponse):
        message.error_code = 0  # see is_api_versions_error
    if which == 0:
        return codec.encode_request(message, 7, draw(st.none() | st.text(max_size=5)))
    return codec.encode_response(message, 7)


def read_again(key: int, which: int, version: int, frame: bytes) -> bytes:
    """What is read of `frame`, written again."""
    if which == 0:
        request = codec.decode_request(frame)
        assert request.head == (key, version, 7)
        return codec.encode_request(request.message, 7, request.client_id)
    return codec.encode_response(codec.decode_response(key, version, frame), 7)


@pytest.mark.parametrize(("key", "which", "version"), VERSIONS)
@settings(max_examples=8)
@given(data=st.data())
def test_every_message_is_read_as_it_was_written(
    key: int, which: int, version: int, data: st.DataObject
) -> None:
    frame = encoded(data.draw, key, which, version)
    assert read_again(key, which, version, frame) == frame


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("correlation_id", [0, 1, 2**31 - 1, -1, -(2**31)])
def test_a_heartbeat_is_answered_with_the_bytes_of_its_response(version: int, correlation_id: int) -> None:
    for error_code in (0, 27, -1):
        response = HeartbeatResponse(version=version, throttle_time_ms=0, error_code=error_code)
        written = codec.encode_heartbeat_response(
            version, error_code, correlation_id.to_bytes(4, signed=True)
        )
        assert written == codec.encode_response(response, correlation_id)


@pytest.mark.parametrize(("key", "which", "version"), VERSIONS)
@settings(max_examples=3)
@given(data=st.data())
def test_a_message_that_is_cut_or_too_long_is_refused(
    key: int, which: int, version: int, data: st.DataObject
) -> None:
    frame = encoded(data.draw, key, which, version)
    begin = 12 if which == 0 else 8
    for end in range(begin, len(frame)):
        with pytest.raises(FrameError):
            read_again(key, which, version, frame[:end])
    with pytest.raises(FrameError, match="after the end of"):
        read_again(key, which, version, frame + b"\0")


@pytest.mark.drawn
def test_hostile_frames_are_refused_or_read_and_nothing_else() -> None:
    """Bytes that are changed, lengths that lie: FrameError, or a message, and nothing of the library's."""
    dice = random.Random(4)
    message = JoinGroupRequest(
        version=9,
        group_id="orders",
        session_timeout_ms=10_000,
        member_id="c1",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"x" * 9)],
    )
    frame = codec.encode_request(message, 7, "me")
    refused = 0
    for _ in range(MUTATED):
        mutated = bytearray(frame)
        for _ in range(dice.randrange(1, 4)):
            place = dice.randrange(12, len(mutated))
            mutated[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        try:
            codec.decode_request(bytes(mutated))
        except FrameError:
            refused += 1
    assert refused > MUTATED / 4


def test_a_length_that_lies_allocates_nothing() -> None:
    frame = codec.encode_request(LeaveGroupRequest(version=3, group_id="g", members=[]), 7, "me")
    assert frame.endswith(b"\0\0\0\0"), "no members"
    lying = frame[:-4] + (2**31 - 1).to_bytes(4)
    with pytest.raises(FrameError, match="2147483647 bytes are missing"):
        codec.decode_request(lying)


def test_what_must_not_be_null() -> None:
    frame = codec.encode_request(HeartbeatRequest(version=0, group_id=None, member_id="m"), 7, "me")
    with pytest.raises(FrameError, match="a length of -1"):
        codec.decode_request(frame)


@pytest.mark.parametrize(("key", "version"), [(11, 10), (11, -1), (99, 0)])
def test_what_is_not_known_is_refused(key: int, version: int) -> None:
    head = key.to_bytes(2) + version.to_bytes(2, signed=True) + bytes(4)
    with pytest.raises(FrameError, match="is not known"):
        codec.decode_request(bytes(4) + head + b"\xff\xff")


def test_tagged_fields_that_are_not_known_are_passed_over() -> None:
    frame = codec.encode_request(HeartbeatRequest(version=4, group_id="g", member_id="m"), 7, "me")
    assert frame.endswith(b"\0"), "no tagged fields"
    request = codec.decode_request(frame[:-1] + bytes([1, 99, 3]) + b"new")
    assert request.message.group_id == "g"


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("client_id", [None, "", "c", "c" * 300])
@pytest.mark.parametrize("transactional_id", [None, "t", "t" * 200])
def test_how_many_acknowledgements_a_produce_wants(
    version: int, acks: int, client_id: str | None, transactional_id: str | None
) -> None:
    fields = {"transactional_id": transactional_id} if version >= 3 else {}
    message = ProduceRequest(version=version, acks=acks, timeout_ms=1, **fields)
    frame = codec.encode_request(message, 1, client_id)
    found = [codec.produce_acks(frame[:end], version) for end in range(12, len(frame))]
    told = [each for each in found if each is not None]
    assert set(told) == {acks}
    assert found.index(told[0]) < len(found) - 2, "long before its end"
    assert None not in found[found.index(told[0]) :]


def test_every_class_is_read_by_some_version() -> None:
    assert {key for key, _, _ in VERSIONS} == {
        0,
        1,
        3,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        16,
        17,
        18,
        25,
        28,
        36,
        42,
        47,
        60,
        68,
        69,
    }
    assert kind_of(11, 0) is JoinGroupRequest


@pytest.mark.parametrize(
    "ask",
    [
        lambda names: DescribeGroupsRequest(version=5, groups=names),
        lambda names: DeleteGroupsRequest(version=2, groups_names=names),
        lambda names: FindCoordinatorRequest(version=4, coordinator_keys=names),
        lambda names: OffsetFetchRequest(
            version=8,
            groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=each, topics=None) for each in names],
        ),
    ],
)
def test_a_request_names_so_many_groups_and_no_more(ask: Callable[[list[str]], Any]) -> None:
    frame = codec.encode_request(ask(["g"] * codec.MOST_ELEMENTS), 1, "c")
    assert codec.decode_request(frame).client_id == "c"
    with pytest.raises(FrameError, match="has 1 elements too many"):
        codec.decode_request(codec.encode_request(ask(["g"] * (codec.MOST_ELEMENTS + 1)), 1, "c"))


def fetch(topics: int, partitions: int) -> bytes:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0] * partitions)
    return codec.encode_request(OffsetFetchRequest(version=5, group_id="g", topics=[topic] * topics), 7, "me")


def test_the_lists_of_a_request_have_a_limit_together() -> None:
    per_topic = codec.MOST_ELEMENTS // 100
    assert codec.decode_request(fetch(100, per_topic - 1)).elements == codec.MOST_ELEMENTS
    with pytest.raises(FrameError, match="has 1 elements too many"):
        codec.decode_request(fetch(1, codec.MOST_ELEMENTS))


def test_elements_are_counted_before_the_first_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = codec.encode_request(LeaveGroupRequest(version=3, group_id="g", members=[]), 7, "me")
    many = frame[:-4] + (10**6).to_bytes(4) + bytes(10**6 * 4)
    monkeypatch.setattr(codec, "_length", counted := Counted(codec._length))
    with pytest.raises(FrameError, match="elements too many"):
        codec.decode_request(many)
    assert counted.calls < 5


def test_tagged_fields_have_a_limit() -> None:
    frame = codec.encode_request(HeartbeatRequest(version=4, group_id="g", member_id="m"), 7, "me")
    tags = b"".join(bytes([number, 0]) for number in range(20, 120))
    assert codec.decode_request(frame[:-1] + bytes([100]) + tags).message.group_id == "g"
    with pytest.raises(FrameError, match="has 101 tagged fields in one place, of at most 100"):
        codec.decode_request(frame[:-1] + bytes([101]) + tags + bytes([120, 0]))


def test_a_text_is_no_longer_than_at_a_broker() -> None:
    text = "t" * (2**15 - 1)
    frame = codec.encode_request(HeartbeatRequest(version=4, group_id=text, member_id="m"), 7, "me")
    assert codec.decode_request(frame).message.group_id == text
    frame = codec.encode_request(HeartbeatRequest(version=4, group_id=text + "t", member_id="m"), 7, "me")
    with pytest.raises(FrameError, match="a text of 32768 bytes, of at most 32767"):
        codec.decode_request(frame)


@pytest.mark.parametrize("version", [0, 5, 9])
def test_texts_that_are_no_utf_8_are_read_as_at_a_broker(version: int) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="r_nge", metadata=b"\xfc")
    message = JoinGroupRequest(
        version=version, group_id="B_ro", member_id="", protocol_type="c_nsumer", protocols=[protocol] * 3
    )
    frame = codec.encode_request(message, 7, "Bu_ro-PC").replace(b"_", b"\xfc")
    request = codec.decode_request(frame)
    assert request.client_id == "Bu\ufffdro-PC"
    read = request.message
    assert (read.group_id, read.protocol_type) == ("B\ufffdro", "c\ufffdnsumer")
    assert [(each.name, each.metadata) for each in read.protocols] == [("r\ufffdnge", b"\xfc")] * 3


@pytest.mark.parametrize("version", [0, 4])
def test_a_text_that_grows_by_being_read_stays_within_its_length(version: int) -> None:
    text = "_" * (2**15 - 1)
    frame = codec.encode_request(HeartbeatRequest(version=version, group_id=text, member_id="m"), 7, "me")
    read = codec.decode_request(frame.replace(b"_", b"\xfc")).message
    assert read.group_id == "\ufffd" * ((2**15 - 1) // 3)
    assert read.member_id == "m"


def leave(members: int, tags: bytes) -> bytes:
    """A LeaveGroup, each of whose members has these tagged fields."""
    element = worst_text(b"m\xfc") + b"\0\0" + tags
    body = worst_text(b"g") + varint(members + 1) + element * members + tags
    return worst_request(13, 5, body)


def test_the_library_is_given_no_tagged_field_that_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    # For each place that has some it copies the rest of the message: 10,000 times 16 MB.
    monkeypatch.setattr(TaggedFields, "decode", lambda *_, **__: pytest.fail("the rest was copied"))
    request = codec.decode_request(leave(3, bytes([2, 77, 3]) + b"new" + bytes([99, 0])))
    assert [(each.member_id, each.reason) for each in request.message.members] == [("m\ufffd", None)] * 3
    assert request.elements == 3 + 2 * 4


def test_a_tagged_field_that_is_known_is_read_beside_one_that_is_not() -> None:
    message = FetchRequest(version=12, topics=[], forgotten_topics_data=[], cluster_id="c_uster")
    frame = codec.encode_request(message, 7, "me").replace(b"_", b"\xfc")
    at = frame.rindex(b"\1\0\x08")
    tagged = frame[:at] + bytes([2, 99, 1, 5]) + frame[at + 1 :]
    assert codec.decode_request(tagged).message.cluster_id == "c\ufffduster"


def test_tagged_fields_count_as_elements_do() -> None:
    most = codec.MOST_ELEMENTS // 2 - 1
    assert codec.decode_request(leave(most, bytes([1, 77, 0]))).elements == 2 * most + 1
    with pytest.raises(FrameError, match="elements too many"):
        codec.decode_request(leave(most + 1, bytes([1, 77, 0])))
