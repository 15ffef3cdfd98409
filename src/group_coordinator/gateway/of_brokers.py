"""The APIs of groups that only brokers have, for groups that are here: their refusals.

UNSUPPORTED_VERSION ends members and producers, as a broker without such an API would. Java's producer can
abort after GROUP_AUTHORIZATION_FAILED, and its program would try again for ever (TransactionManager).

Source: the message definitions of Apache Kafka 4.2; KIP-848, KIP-1071.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafka.protocol.producer import AddOffsetsToTxnResponse, TxnOffsetCommitResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import LENGTH_BYTES, RESPONSE_HEAD_BYTES
from group_coordinator.gateway.wire import Place, text, varint_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.frames import RequestHead

_REFUSED = Errors.UNSUPPORTED_VERSION
_NOT_SPOKEN = (
    "this group protocol is not spoken here: set group.protocol=classic, or let the group stay at the "
    "brokers (gateway.groups.brokers)"
)
STREAMS_HEARTBEAT, STREAMS_DESCRIBE = 88, 89
_NULL, _EMPTY, _NO_TAGS = b"\0", b"\1", b"\0"
_NOTHING_TOLD = bytes(8) + 4 * _NULL + bytes(4) + _NULL + _NO_TAGS
"""Two times, four lists, an epoch and a list, behind the interval in a response to StreamsGroupHeartbeat."""
_NO_TOPOLOGY = b"\xff"
_NOT_ASKED = (-(2**31)).to_bytes(4, signed=True)
"""No authorized operations."""


def refusal(head: RequestHead, frame: bytes, error: Errors = _REFUSED, text_: str = _NOT_SPOKEN) -> bytes:
    """Write the response to a request for a group that is here. Raises `FrameError`."""
    version, code = head.api_version, error.value
    if head.api_key == STREAMS_HEARTBEAT:
        # No member id, epoch and interval 0.
        body = bytes(4) + code.to_bytes(2) + text(text_, is_flexible=True) + _EMPTY + bytes(8)
        begin = head.correlation_id.to_bytes(RESPONSE_HEAD_BYTES, signed=True) + _NO_TAGS
        return _framed(begin + body + _NOTHING_TOLD)
    if head.api_key == AddOffsetsToTxnResponse.API_KEY:
        response = AddOffsetsToTxnResponse(version=version, throttle_time_ms=0, error_code=code)
        return codec.encode_response(response, head.correlation_id)
    kind = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
    entry = partial(kind.TxnOffsetCommitResponsePartition, version=version, error_code=code)
    # Java's producer asks again for ever if its partitions are not named.
    topics = [
        kind(
            version=version,
            name=topic.name,
            partitions=[entry(partition_index=each.partition_index) for each in topic.partitions],
        )
        for topic in codec.decode_request(frame).message.topics
    ]
    response = TxnOffsetCommitResponse(version=version, throttle_time_ms=0, topics=topics)
    return codec.encode_response(response, head.correlation_id)


def divided(frame: bytes, at_brokers: Callable[[str], bool]) -> tuple[bytes, Callable[[bytes], bytes] | None]:
    """Divide a StreamsGroupDescribe; returns the brokers' part, and what its response goes through.

    Groups that are here are not found, by which Java's tools know that these are classic ones.
    """
    place = Place(frame, is_flexible=True)
    place.skip_head()
    start, count = place.at, place.count()
    if count > codec.MOST_ELEMENTS:
        raise FrameError(f"has {count} groups, of at most {codec.MOST_ELEMENTS}: ask for fewer at a time")
    named = [str(place.text(), "utf-8", "replace") for _ in range(count)]
    theirs = [each for each in named if at_brokers(each)]
    if len(theirs) == count:
        return frame, None
    written = varint_of(len(theirs) + 1) + b"".join(text(each, is_flexible=True) for each in theirs)
    not_found = [
        Errors.GROUP_ID_NOT_FOUND.to_bytes(2)
        + text(f"Group {each} is not a streams group.", is_flexible=True)
        + text(each, is_flexible=True)
        # No state, and epochs 0.
        + _EMPTY
        + bytes(8)
        + _NO_TOPOLOGY
        + _EMPTY
        + _NOT_ASKED
        + _NO_TAGS
        for each in dict.fromkeys(named)
        if not at_brokers(each)
    ]
    return _framed(frame[LENGTH_BYTES:start] + written + frame[place.at :]), partial(_with, not_found)


def _with(entries: list[bytes], frame: bytes) -> bytes:
    """A broker's response, with these entries before its own."""
    place = Place(frame, is_flexible=True, at=LENGTH_BYTES + RESPONSE_HEAD_BYTES)
    place.skip_tags()
    place.skip(4)
    start, count = place.at, place.count()
    written = varint_of(len(entries) + count + 1) + b"".join(entries)
    return _framed(frame[LENGTH_BYTES:start] + written + frame[place.at :])


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES) + body
