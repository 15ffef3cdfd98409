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
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.wire import CutError, Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from group_coordinator.gateway.frames import Piece, RequestHead

    _Part: TypeAlias = "Callable[[_Walk, Place], _Part]"

_PRODUCE, _FETCH = ProduceRequest.API_KEY, FetchRequest.API_KEY
_DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.value
_SMALL_BYTES = 32 * 1024
"""Up to here to look for the names costs less than to go through the request."""
_MOST_NAMED = 20_000
"""Topics and partitions in one request that is gone through. Others wait while those of one piece are."""
_LONGEST_PART = 128 * 1024
"""Bytes of one part of a request, which is kept until it is whole. Its head has two texts."""


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
            self._walk = _Walk(head.api_key, head.api_version, self._names, _MOST_NAMED, _Walk.begin)
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


@dataclass(eq=False, slots=True)
class _Walk:
    """Goes through the topics of a request as it comes, part by part. A part that is cut off waits for more.

    A part is a method, which reads it and returns the next one. It changes nothing before all of it is read.
    """

    api_key: int
    version: int
    names: frozenset[str]
    left: int
    """Topics and partitions that it may still name."""
    part: _Part
    kept: bytearray = field(default_factory=bytearray)
    """The begin of a part that is cut off."""
    to_skip: int = 0
    """Bytes that are to come and that are passed over: records, and all behind the topics."""
    topics: int = 0
    partitions: int = 0
    """How many there are still to come."""

    def take(self, data: bytes | memoryview) -> None:
        """Go on with the next bytes. Raises `FrameError` at one of the names."""
        if self.to_skip >= len(data):
            # Most of a large request are records.
            self.to_skip -= len(data)
            return
        there: bytes | bytearray | memoryview = data[self.to_skip :]
        if self.kept:
            self.kept += there
            there = self.kept
        place = Place(there, is_flexible=codec.is_flexible(self.api_key, self.version))
        start = 0
        try:
            while place.at < len(there):
                start = place.at
                self.part = self.part(self, place)
        except CutError:
            if len(there) - start > _LONGEST_PART:
                raise FrameError(f"more than {_LONGEST_PART} bytes for a name") from None
            self.to_skip = 0
            if start or there is not self.kept:
                self.kept = bytearray(there[start:])
            return
        self.kept, self.to_skip = bytearray(), place.at - len(there)

    def begin(self, place: Place) -> _Part:
        place.skip_head()
        if self.api_key == _PRODUCE:
            if self.version >= codec.TRANSACTIONAL_PRODUCE:
                place.text()
            # Acks and timeout.
            place.skip(6)
        else:
            # Replica, longest wait, least and most bytes, isolation level, session and its epoch.
            version = self.version
            place.skip(12 + 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7))  # noqa: PLR2004
        self.topics = place.count()
        return self._next_topic()

    def _next_topic(self) -> _Part:
        return _Walk._topic if self.topics else _Walk._end

    def _topic(self, place: Place) -> _Part:
        name = place.text().decode(errors="replace")
        if name in self.names:
            raise FrameError(_is_refused(name))
        partitions = place.count()
        self.left -= 1 + partitions
        if self.left < 0:
            raise FrameError(f"it names more than {_MOST_NAMED} topics and partitions")
        self.topics -= 1
        self.partitions = partitions
        return self._next_partition()

    def _next_partition(self) -> _Part:
        return _Walk._partition if self.partitions else _Walk._topic_end

    def _partition(self, place: Place) -> _Part:
        if self.api_key == _PRODUCE:
            place.skip(4)
            place.at = place.end_of_bytes()
        else:
            # Index, offset and most bytes, start of the log, epoch of the leader, that of the last record.
            version = self.version
            place.skip(16 + 8 * (version >= 5) + 4 * (version >= 9) + 4 * (version >= 12))  # noqa: PLR2004
        return _Walk._partition_end

    def _partition_end(self, place: Place) -> _Part:
        place.skip_tags()
        self.partitions -= 1
        return self._next_partition()

    def _topic_end(self, place: Place) -> _Part:
        place.skip_tags()
        return self._next_topic()

    def _end(self, place: Place) -> _Part:
        # More than can come.
        place.at += 2 * INT32_MAX
        return _Walk._end
