"""Kafka's messages, read strictly and written as Kafka writes them.

kafka-python has the messages and their versions. It trusts what it reads: a length beyond the end of a
frame gives a shorter text, and a negative number of elements none. So each frame is measured first, by the
schema of its message. Every length is compared with what is left of the frame before anything is allocated.
The elements of a list are counted before the first of them is looked at, and so are tagged fields.
A null where none may be is refused, and so are bytes after the end of the message. Tagged fields that are
not known are passed over, as Kafka does. A text that is not UTF-8 is read as a broker reads it, with U+FFFD
in the place of what cannot be read.

Source: KIP-482; org.apache.kafka.common.protocol.ByteBufferAccessor and Readable.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka.protocol.admin.cluster import DescribeClusterRequest, DescribeClusterResponse
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.consumer.group import HeartbeatResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka.protocol.schemas.fields import ArrayField, SimpleField, StructArrayField, StructField

from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import (
    LENGTH_BYTES,
    REQUEST_HEAD_BYTES,
    RESPONSE_HEAD_BYTES,
    Request,
    read_request_head,
)
from group_coordinator.gateway.group_apis.consumer_group_heartbeat import PAIR as CONSUMERS_HEARTBEAT
from group_coordinator.gateway.group_apis.table import GROUP_APIS
from group_coordinator.gateway.messages import ConsumerGroupHeartbeatResponse
from group_coordinator.gateway.wire import COMPACT as _COMPACT
from group_coordinator.gateway.wire import LONGEST_TEXT, MOST_TAGS
from group_coordinator.gateway.wire import CutError as _CutError
from group_coordinator.gateway.wire import length_at as _length
from group_coordinator.gateway.wire import varint_at as _varint
from group_coordinator.gateway.wire import varint_of as _varint_of
from group_coordinator.gateway.wire import within as _within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka.protocol.schemas.fields import BaseField

_MESSAGES: dict[int, tuple[type[ApiMessage], type[ApiMessage]]] = {
    request.API_KEY: (request, response)
    for request, response in (
        *((api.request, api.response) for api in GROUP_APIS.values()),
        (ProduceRequest, ProduceResponse),
        (FetchRequest, FetchResponse),
        (AddOffsetsToTxnRequest, AddOffsetsToTxnResponse),
        (TxnOffsetCommitRequest, TxnOffsetCommitResponse),
        (MetadataRequest, MetadataResponse),
        (ApiVersionsRequest, ApiVersionsResponse),
        (DescribeClusterRequest, DescribeClusterResponse),
        (SaslHandshakeRequest, SaslHandshakeResponse),
        (SaslAuthenticateRequest, SaslAuthenticateResponse),
    )
}
MOST_ELEMENTS = 10_000
"""Elements of all lists of one request together. To read so many takes almost a tenth of a second, in which
no other client is served."""
_API_VERSIONS = ApiVersionsRequest.API_KEY
_PRODUCE = ProduceRequest.API_KEY
_NO_TEXT = b"\0"
_NO_TAGS = b"\0"
TRANSACTIONAL_PRODUCE = 3
"""The version of Produce that brought the transactional id, which stands before the acks."""


# -- reading -------------------------------------------------------------------------------------------


def decode_request(frame: bytes) -> Request:
    """Read a request, its length included. Raises `FrameError`."""
    head = read_request_head(frame[LENGTH_BYTES : LENGTH_BYTES + REQUEST_HEAD_BYTES])
    kind = _kind(head.api_key, head.api_version, 0)
    data, position, count = memoryview(frame), LENGTH_BYTES + REQUEST_HEAD_BYTES, _Count(MOST_ELEMENTS)
    with _strictly():
        start, position = position, _skip_text(data, position, count, 2, is_nullable=True)
        is_null = bytes(data[start : start + 2]) == b"\xff\xff"
        client_id = None if is_null else str(data[start + 2 : position], "utf-8", "replace")
        if is_flexible(head.api_key, head.api_version):
            position = _skip_tags(data, position, count, {})
        message = _decode(kind, head.api_version, data, position, count)
    return Request(head, client_id, message, MOST_ELEMENTS - count.left)


def decode_response(api_key: int, api_version: int, frame: bytes) -> Any:
    """Read a response, its length included, to a request of this API and version. Raises `FrameError`."""
    kind = _kind(api_key, api_version, 1)
    data, position, count = memoryview(frame), LENGTH_BYTES + RESPONSE_HEAD_BYTES, _Count(len(frame))
    with _strictly():
        if is_flexible(api_key, api_version) and api_key != _API_VERSIONS:
            position = _skip_tags(data, position, count, {})
        return _decode(kind, api_version, data, position, count)


def is_api_versions_error(frame: bytes) -> bool:
    """Whether a response to ApiVersions is an error, whose body may be of another version."""
    begin = LENGTH_BYTES + RESPONSE_HEAD_BYTES
    return frame[begin : begin + 2] != b"\0\0"


def produce_acks(frame: bytes | bytearray | memoryview, api_version: int) -> int | None:
    """The acknowledgements that the Produce with this begin asks for; 0: it has no response.

    None if more of it has to come first. Raises `FrameError`.
    """
    flexible = is_flexible(_PRODUCE, api_version)
    position = LENGTH_BYTES + REQUEST_HEAD_BYTES
    if flexible and (length := int.from_bytes(frame[position : position + 2])) <= LONGEST_TEXT:
        start = position + 2 + length
        if frame[start : start + 2] == _NO_TAGS + _NO_TEXT and len(frame) >= start + 4:
            # Mostly there are no tagged fields, and no transaction.
            return int.from_bytes(frame[start + 2 : start + 4], signed=True)
    data, count = memoryview(frame), _Count(MOST_TAGS)
    try:
        position = _skip_text(data, position, count, 2, is_nullable=True)
        if flexible:
            position = _skip_tags(data, position, count, {})
        if api_version >= TRANSACTIONAL_PRODUCE:
            position = _skip_text(data, position, count, _COMPACT if flexible else 2, is_nullable=True)
        acks = data[position : position + 2]
    except _CutError:
        return None
    return int.from_bytes(acks, signed=True) if len(acks) == 2 else None  # noqa: PLR2004 - an int16


@cache
def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether this version has compact lengths and tagged fields (KIP-482)."""
    return bool(_MESSAGES[api_key][0].flexible_version_q(api_version))


def _kind(api_key: int, api_version: int, which: int) -> type[ApiMessage]:
    kinds = _MESSAGES.get(api_key)
    if kinds is None or not 0 <= api_version <= kinds[which].max_version:
        raise FrameError(f"API {api_key} in version {api_version} is not known")
    return kinds[which]


def _decode(kind: type[ApiMessage], version: int, data: memoryview, position: int, count: _Count) -> Any:
    measure = _plan(kind.API_KEY, kind.is_request(), version)
    end = measure(data, position, count)
    if end != len(data):
        raise FrameError(f"{len(data) - end} bytes after the end of {kind.name}")
    if not count.has_unknown_tags:
        try:
            return kind.decode(data[position:], version=version)
        except UnicodeDecodeError:
            pass
    return kind.decode(memoryview(_readable(measure, data, position)), version=version)


def _readable(measure: _Measure, data: memoryview, position: int) -> bytes:
    """The message again, with each text that is not UTF-8 as a broker reads it.

    It has no tagged fields that are not known: kafka-python copies the rest of the message for each place
    that has some.
    """
    count = _Count(len(data))
    count.edits = []
    measure(data, position, count)
    written, done = bytearray(), position
    for start, end, instead in count.edits:
        written += data[done:start]
        written += instead
        done = end
    return bytes(written + data[done:])


def _text_again(text: memoryview, length_bytes: int) -> bytes:
    """A text, with its length, as a broker reads it."""
    read = str(text, "utf-8", "replace").encode()
    if len(read) > LONGEST_TEXT:
        read = read[:LONGEST_TEXT].decode(errors="ignore").encode()
    length = len(read)
    return (_varint_of(length + 1) if length_bytes == _COMPACT else length.to_bytes(length_bytes)) + read


@contextmanager
def _strictly() -> Iterator[None]:
    """Whatever the library raises because of what it reads becomes a `FrameError`."""
    try:
        yield
    except (struct.error, ValueError, IndexError, OverflowError, TypeError) as error:
        raise FrameError(f"it cannot be read: {error}") from error


# -- writing -------------------------------------------------------------------------------------------


def encode_response(message: Any, correlation_id: int) -> bytes:
    """Write a response, which knows its version, with its length and header."""
    body = bytes(message.encode())
    header = correlation_id.to_bytes(RESPONSE_HEAD_BYTES, signed=True)
    if message.API_KEY != _API_VERSIONS and is_flexible(message.API_KEY, message.version):
        header += _NO_TAGS
    return (len(header) + len(body)).to_bytes(LENGTH_BYTES) + header + body


def encode_heartbeat_response(version: int, error_code: int, correlation_id: bytes) -> bytes:
    """Write the response to a heartbeat, with its length and header."""
    before, after = _heartbeat_response(version, error_code)
    return before + correlation_id + after


@lru_cache(maxsize=100)
def _heartbeat_response(version: int, error_code: int) -> tuple[bytes, bytes]:
    """What stands before and after its correlation id, of which there are few."""
    frame = encode_response(HeartbeatResponse(version=version, throttle_time_ms=0, error_code=error_code), 0)
    return frame[:LENGTH_BYTES], frame[LENGTH_BYTES + RESPONSE_HEAD_BYTES :]


def encode_consumers_answer(version: int, told: Any, correlation_id: bytes) -> bytes:
    """Write the contract's answer to a heartbeat of the consumer protocol, with its length and header."""
    if told.error_code or told.assignment is not None:
        message = CONSUMERS_HEARTBEAT.response(None, version, [told])
        return encode_response(message, int.from_bytes(correlation_id, signed=True))
    before, after = _consumers_answer(version, told.member_id, told.member_epoch, told.heartbeat_interval_ms)
    return before + correlation_id + after


@lru_cache(maxsize=10_000)
def _consumers_answer(version: int, member_id: str, epoch: int, interval_ms: int) -> tuple[bytes, bytes]:
    """What stands before and after its correlation id, without news: a member gets it again and again."""
    response = ConsumerGroupHeartbeatResponse(
        version=version,
        throttle_time_ms=0,
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=None,
    )
    frame = encode_response(response, 0)
    return frame[:LENGTH_BYTES], frame[LENGTH_BYTES + RESPONSE_HEAD_BYTES :]


def encode_request(message: Any, correlation_id: int, client_id: str | None) -> bytes:
    """Write a request, which knows its version, with its length and header."""
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(message.encode(header=True, framed=True))


# -- measuring -----------------------------------------------------------------------------------------
# A measure takes a frame and the position where something begins, and returns the position where it ends. It
# counts the elements of lists before it looks at them. It raises FrameError if there are too many, or if the
# end is beyond the frame, and allocates nothing.


class _Count:
    """The elements that one frame may still have. `edits`: those of `_readable`, if they are wanted."""

    __slots__ = ("edits", "has_unknown_tags", "left")

    def __init__(self, most: int) -> None:
        self.left = most
        self.has_unknown_tags = False
        self.edits: list[tuple[int, int, bytes]] | None = None
        """Places in the frame that are to be replaced: begin and end of each, and the bytes instead."""

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise FrameError(f"has {-self.left} elements too many: ask for less at a time")


_Measure: TypeAlias = "Callable[[memoryview, int, _Count], int]"


@cache
def _plan(api_key: int, is_request: bool, version: int) -> _Measure:  # noqa: FBT001 - a part of the key
    """How to measure a message of this kind."""
    kind = _MESSAGES[api_key][0 if is_request else 1]
    return _struct(kind._struct, version, flexible=kind.flexible_version_q(version))  # noqa: SLF001


def _struct(schema: StructField, version: int, *, flexible: bool) -> _Measure:
    measures = [_field(each, version, flexible=flexible) for each in schema.untagged_fields(version)]
    tagged = schema.tagged_fields(version)._tags if flexible else {}  # noqa: SLF001 - has no other way
    tags = {number: _field(field, version, flexible=True) for number, field in tagged.items()}
    is_nullable = schema.nullable_for_version_q(version)

    def measure(data: memoryview, position: int, count: _Count) -> int:
        if is_nullable:
            is_null, position = data[position] == _NULL_STRUCT, position + 1
            if is_null:
                return position
        for each in measures:
            position = each(data, position, count)
        if not flexible:
            return position
        if position < len(data) and not data[position]:
            # Almost always: there is no tag.
            return position + 1
        return _skip_tags(data, position, count, tags)

    return measure


def _field(schema: BaseField, version: int, *, flexible: bool, is_element: bool = False) -> _Measure:
    # The library says of the elements of a list what holds for the list.
    is_nullable = schema.nullable_for_version_q(version) and not is_element
    match schema:
        case StructArrayField():
            element = _struct(schema.array_of, version, flexible=flexible)
            return partial(_skip_array, element, _COMPACT if flexible else 4, is_nullable)
        case ArrayField():
            element = _field(schema.array_of, version, flexible=flexible, is_element=True)
            return partial(_skip_array, element, _COMPACT if flexible else 4, is_nullable)
        case StructField():
            return _struct(schema, version, flexible=flexible)
        case SimpleField(type_str="string"):
            return partial(_skip_text, length_bytes=_COMPACT if flexible else 2, is_nullable=is_nullable)
        case SimpleField(type_str="bytes" | "records"):
            return partial(_skip_bytes, length_bytes=_COMPACT if flexible else 4, is_nullable=is_nullable)
        case SimpleField():
            return partial(_skip_fixed, _SIZES[schema.type_str])
        case _:
            raise AssertionError(schema)


_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "bitfield": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}
_NULL_STRUCT = 0xFF


def _skip_fixed(size: int, data: memoryview, position: int, _count: _Count) -> int:
    return _within(data, position + size)


def _skip_bytes(
    data: memoryview, position: int, _count: _Count, length_bytes: int, *, is_nullable: bool
) -> int:
    length, position = _length(data, position, length_bytes, is_nullable=is_nullable)
    return _within(data, position + max(length, 0))


def _skip_text(
    data: memoryview, position: int, count: _Count, length_bytes: int, *, is_nullable: bool
) -> int:
    if length_bytes == _COMPACT and position < len(data) and 0 < (byte := data[position]) <= 0x7F:  # noqa: PLR2004
        # Almost all of them: the length takes a byte.
        length, start = byte - 1, position + 1
    else:
        length, start = _length(data, position, length_bytes, is_nullable=is_nullable)
    if length > LONGEST_TEXT:
        raise FrameError(f"a text of {length} bytes, of at most {LONGEST_TEXT}")
    end = _within(data, start + max(length, 0))
    if count.edits is not None and length > 0:
        count.edits.append((position, end, _text_again(data[start:end], length_bytes)))
    return end


def _skip_array(
    element: _Measure,
    length_bytes: int,
    is_nullable: bool,  # noqa: FBT001 - bound by a partial
    data: memoryview,
    position: int,
    count: _Count,
) -> int:
    elements, position = _length(data, position, length_bytes, is_nullable=is_nullable)
    # An element takes a byte at least.
    _within(data, position + max(elements, 0))
    count.take(max(elements, 0))
    for _ in range(elements):
        position = element(data, position, count)
    return position


def _skip_tags(data: memoryview, position: int, count: _Count, known: dict[int, _Measure]) -> int:
    begin = position
    tags, position = _varint(data, position)
    if tags > MOST_TAGS:
        raise FrameError(f"has {tags} tagged fields in one place, of at most {MOST_TAGS}")
    count.take(tags)
    behind_number, before = position, len(count.edits or ())
    unknown = 0
    for _ in range(tags):
        start = position
        number, position = _varint(data, position)
        size, position = _varint(data, position)
        end = _within(data, position + size)
        if number not in known:
            unknown += 1
            if count.edits is not None:
                count.edits.append((start, end, b""))
        elif known[number](data, position, count) != end:
            raise FrameError(f"tag {number} does not take the {size} bytes that it says")
        position = end
    if unknown:
        count.has_unknown_tags = True
        if count.edits is not None:
            count.edits.insert(before, (begin, behind_number, _varint_of(tags - unknown)))
    return position
