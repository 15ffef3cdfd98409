"""The coordinator's topics, which no client writes or reads in the gateway's name.

Where clients do not log in at the brokers, these take all of them for the gateway. So a client could write
requests in anybody's name, and read the answers of others. Where clients log in, the brokers' ACLs judge each
of them, and nothing is looked through here.

Only Produce and Fetch need more than to see a topic. A small one comes whole, and mostly none of the names is
among its bytes. That is all that is looked for then. A large one is gone through as it comes, from name to
name, and the records in between are passed over. A broker does nothing of a request that has not come whole.
So the connection ends before the client's request does.

Source: ProduceRequest.json, FetchRequest.json and RequestHeader.json of Apache Kafka 4.2; KIP-482.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import LENGTH_BYTES, REQUEST_HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeAlias

    from group_coordinator.gateway.frames import Piece, RequestHead

    _Steps: TypeAlias = Generator[int, bytes, None]
    """Yields how many bytes it wants next and is sent them; minus that many are passed over."""
    _Number: TypeAlias = Generator[int, bytes, int]

__all__ = ["OwnTopics"]

_PRODUCE, _FETCH = ProduceRequest.API_KEY, FetchRequest.API_KEY
_DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.value
_SMALL_BYTES = 32 * 1024
"""Up to here to look for the names costs less than to go through the request."""
_MOST_NAMED = 20_000
"""Topics and partitions in one request that is gone through. Others wait while those of one piece are."""
_MOST_TAGS = 4
"""Tagged fields at one place. No version that is offered has any before the end of the topics."""
_LONGEST_NAME = 2**15 - 1
_VARINT_BYTES = 5


class OwnTopics:
    """Looks through the requests of one connection. `names`: the topics; without any all requests pass."""

    __slots__ = ("_names", "_walk")

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._walk: _Walk | None = None

    def refusal(self, head: RequestHead, piece: Piece) -> bytes | None:
        """Return the response to a request that names one of the topics; None: the piece may pass.

        Raises `FrameError` where a part of the request has passed already, or none is answered.
        """
        if head.api_key not in (_PRODUCE, _FETCH) or not self._names:
            return None
        if piece.is_first:
            self._walk = None
            if piece.is_last and len(piece.data) <= _SMALL_BYTES:
                is_there = _pattern(self._names).search(piece.data)
                return _refusal(head, bytes(piece.data), self._names) if is_there else None
            self._walk = _Walk(_steps(head, self._names))
        if self._walk is not None:
            self._walk.take(piece.data)
        return None


@cache
def _pattern(names: frozenset[str]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(re.escape(each.encode()) for each in sorted(names)))


# -- small requests ------------------------------------------------------------------------------------


def _refusal(head: RequestHead, frame: bytes, names: frozenset[str]) -> bytes | None:
    """The response to a request that came whole, if it names one of the topics.

    Nothing of it is passed, not even what names other topics: no client but a hostile one mixes them.
    """
    message = codec.decode_request(frame).message
    is_produce = head.api_key == _PRODUCE
    topics = (
        {each.name: each.partition_data for each in message.topic_data}
        if is_produce
        else ({each.topic: each.partitions for each in message.topics})
    )
    named = names.intersection(topics)
    if not named:
        return None
    if is_produce and message.acks == 0:
        # Kafka closes the connection as well, because there is no response.
        raise FrameError(_is_refused(min(named)))
    refused = (_produce_refused if is_produce else _fetch_refused)(head.api_version, topics)
    return codec.encode_response(refused, head.correlation_id)


def _produce_refused(version: int, topics: dict[str, list[Any]]) -> Any:
    kind = ProduceResponse.TopicProduceResponse
    entry = partial(kind.PartitionProduceResponse, version=version, error_code=_DENIED, base_offset=-1)
    responses = [
        kind(version=version, name=name, partition_responses=[entry(index=each.index) for each in partitions])
        for name, partitions in topics.items()
    ]
    return ProduceResponse(version=version, responses=responses, throttle_time_ms=0)


def _fetch_refused(version: int, topics: dict[str, list[Any]]) -> Any:
    kind = FetchResponse.FetchableTopicResponse
    empty = {"high_watermark": -1, "aborted_transactions": [], "records": b""}
    entry = partial(kind.PartitionData, version=version, error_code=_DENIED, **empty)
    responses = [
        kind(version=version, topic=name, partitions=[entry(partition_index=each.partition) for each in its])
        for name, its in topics.items()
    ]
    return FetchResponse(version=version, throttle_time_ms=0, responses=responses)


def _is_refused(name: str) -> str:
    return f"it names {name}, which is the coordinator's own: connect to the brokers for it"


# -- large requests ------------------------------------------------------------------------------------


class _Walk:
    """Gives the bytes of a request to `steps`, as they come and as they are wanted."""

    __slots__ = ("_kept", "_passed_over", "_steps", "_wanted")

    def __init__(self, steps: _Steps) -> None:
        self._steps = steps
        self._kept = b""
        self._passed_over = 0
        """Bytes that are to come and that are not wanted."""
        self._wanted = next(steps)

    def take(self, data: bytes | memoryview) -> None:
        """Go on with the next bytes. Raises what `steps` raises."""
        position, end = 0, len(data)
        while position < end or not self._wanted:
            if self._wanted <= 0:
                self._passed_over -= self._wanted
                self._wanted = self._next(b"")
                continue
            if self._passed_over:
                step = min(self._passed_over, end - position)
                position, self._passed_over = position + step, self._passed_over - step
                continue
            until = position + self._wanted - len(self._kept)
            self._kept += data[position:until]
            position = until
            if position > end:
                return
            kept, self._kept = self._kept, b""
            self._wanted = self._next(kept)

    def _next(self, given: bytes) -> int:
        try:
            return self._steps.send(given)
        except StopIteration:
            # More than can come: what is behind the topics may be anything.
            self._passed_over = 2 * INT32_MAX
            return 1


def _steps(head: RequestHead, names: frozenset[str]) -> _Steps:
    """Go through the topics of a Produce or a Fetch. Raises `FrameError` at one of the names."""
    is_flexible = codec.is_flexible(head.api_key, head.api_version)
    is_produce = head.api_key == _PRODUCE
    yield -(LENGTH_BYTES + REQUEST_HEAD_BYTES)
    yield -max(0, (yield from _fixed(2)))
    if is_flexible:
        yield from _tags()
    if is_produce and head.api_version >= codec.TRANSACTIONAL_PRODUCE:
        yield -max(0, (yield from _length(2, is_flexible)))
    # Acks and timeout; or replica, longest wait, least and most bytes, isolation level, session, its epoch.
    version = head.api_version
    yield -(6 if is_produce else 12 + 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7))  # noqa: PLR2004
    left = _MOST_NAMED
    for _ in range((yield from _length(4, is_flexible))):
        length = yield from _length(2, is_flexible)
        if not 0 <= length <= _LONGEST_NAME:
            raise FrameError(f"a name of {length} bytes")
        name = (yield length).decode(errors="replace") if length else ""
        if name in names:
            raise FrameError(_is_refused(name))
        partitions = yield from _length(4, is_flexible)
        left -= 1 + max(0, partitions)
        if left < 0:
            raise FrameError(f"it names more than {_MOST_NAMED} topics and partitions")
        yield from _partitions(partitions, is_produce, version, is_flexible)
        if is_flexible:
            yield from _tags()


def _partitions(count: int, is_produce: bool, version: int, is_flexible: bool) -> _Steps:  # noqa: FBT001
    # Index; or index, offset and most bytes, start of the log, epoch of the leader, that of the last record.
    size = 4 if is_produce else 16 + 8 * (version >= 5) + 4 * (version >= 9) + 4 * (version >= 12)  # noqa: PLR2004
    for _ in range(count):
        yield -size
        if is_produce:
            yield -max(0, (yield from _length(4, is_flexible)))
        if is_flexible:
            yield from _tags()


def _fixed(size: int) -> _Number:
    return int.from_bytes((yield size), signed=True)


def _length(size: int, is_compact: bool) -> _Number:  # noqa: FBT001 - of the version
    """A length or a number of elements; -1 is null."""
    return (yield from _varint()) - 1 if is_compact else (yield from _fixed(size))


def _varint() -> _Number:
    value = 0
    for number in range(_VARINT_BYTES):
        (byte,) = yield 1
        value |= (byte & 0x7F) << (7 * number)
        if not byte & 0x80:
            # Java would take it for a negative number, and find the next name elsewhere.
            if value > INT32_MAX:
                break
            return value
    raise FrameError("a varint of more than 31 bits")


def _tags() -> _Steps:
    count = yield from _varint()
    if count > _MOST_TAGS:
        raise FrameError(f"{count} tagged fields where there are none")
    for _ in range(count):
        yield from _varint()
        yield -(yield from _varint())
