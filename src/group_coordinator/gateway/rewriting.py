"""The brokers' addresses in their responses, replaced by those that the gateway has for them.

A client connects to the addresses that responses name. So behind each broker's node id it is told an address
of the gateway's. A broker without one is left out.

A response of Metadata or Produce may be about 100,000 partitions, and only what names brokers is read of it.
In Metadata that is the begin, and the rest passes piece by piece. In Produce it is the end.

Source: the message definitions of Apache Kafka 4.2; KIP-482, KIP-951.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec, wire
from group_coordinator.gateway.addresses import Address, rewrite_api_versions
from group_coordinator.gateway.apis import ALONE, BESIDE_BROKERS
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import LENGTH_BYTES, RESPONSE_HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from group_coordinator.gateway.apis import Offer
    from group_coordinator.gateway.frames import Piece

    OfNode: TypeAlias = Callable[[int, Address], Address | None]
    """Is given a broker's node id and its own address. Returns the gateway's, or None if there is none."""

_PRODUCE, _METADATA = ProduceResponse.API_KEY, MetadataResponse.API_KEY
_API_VERSIONS = ApiVersionsResponse.API_KEY
_WHOLE = (DescribeClusterResponse.API_KEY, FindCoordinatorResponse.API_KEY)
"""APIs whose responses are read whole."""
MOST_BEGIN = 1_000_000
"""Bytes in which the brokers of Metadata have to be: those of some 10,000."""
_HEAD = LENGTH_BYTES + RESPONSE_HEAD_BYTES
_THROTTLE_VERSION, _RACK_VERSION = 3, 1
"""The versions of Metadata that brought a field before the brokers, and one of each broker."""
_ENDPOINTS_VERSION = 10
"""The version of Produce from which on its responses may name addresses."""
_TOPIC_ID_VERSION, _TOPIC_ID_BYTES = 13, 16
_BATCH_FIND_VERSION = 4
_PARTITION_BYTES = 30
"""Of a partition's index, error, offsets and time in a response to Produce."""
_NO_MORE = b"\1\0\0"
"""No errors of records, no message, no tagged fields."""
_THROTTLE_BYTES, _NO_TAGS = 4, b"\0"
_NO_TOPICS = b"\0\1"
"""The begin of a response to Produce without topics, behind its head."""
_ONE_TOPIC, _ONE_PARTITION = b"\0\2", b"\2"
_SHORTEST = 1 + _PARTITION_BYTES + len(_NO_MORE) + 1 + _THROTTLE_BYTES + 1
"""Bytes behind the name of the one topic, if there is nothing that need not be there."""
_NOWHERE = (-1, "", -1)


def rewriter(
    api_key: int, version: int, of_node: OfNode, offer: Offer = ALONE
) -> Begin | Callable[[bytes], bytes] | None:
    """Return what the response to a request of this API goes through; None if it names no address."""
    if api_key == _API_VERSIONS:
        return partial(_offered, version, offer is ALONE)
    if api_key == _METADATA:
        return Begin(version, of_node)
    if api_key == _PRODUCE:
        return partial(_produced, version, of_node) if version >= _ENDPOINTS_VERSION else None
    return partial(_replaced, api_key, version, of_node) if api_key in _WHOLE else None


def _offered(version: int, is_alone: bool, frame: bytes) -> bytes:  # noqa: FBT001 - bound by a partial
    """A broker's ApiVersions without what the gateway does not offer."""
    if codec.is_api_versions_error(frame):
        return frame
    body = _offered_body(version, is_alone, frame[_HEAD:])
    return (RESPONSE_HEAD_BYTES + len(body)).to_bytes(LENGTH_BYTES) + frame[LENGTH_BYTES:_HEAD] + body


@lru_cache(maxsize=64)
def _offered_body(version: int, is_alone: bool, body: bytes) -> bytes:  # noqa: FBT001 - a part of the key
    """The same without length and head. A broker says the same to all, and clients ask again and again."""
    message = codec.decode_response(_API_VERSIONS, version, bytes(_HEAD) + body)
    rewrite_api_versions(message, ALONE if is_alone else BESIDE_BROKERS)
    return codec.encode_response(message, 0)[_HEAD:]


class Begin:
    """The begin of a response of Metadata, which is kept until all of its brokers are there."""

    def __init__(self, version: int, of_node: OfNode) -> None:
        self._version, self._of_node = version, of_node
        self._held: bytearray | None = bytearray()
        """None once it has been given out."""
        self._looked_at = 0
        """How long it has to be before it is looked at again."""

    def take(self, piece: Piece) -> bytes | memoryview:
        """Return what a client is to have of the response next. Raises `FrameError`."""
        if self._held is None:
            return piece.data
        self._held += piece.data
        if len(self._held) < self._looked_at and not piece.is_last:
            return b""
        place = wire.Place(self._held, is_flexible=codec.is_flexible(_METADATA, self._version), at=_HEAD)
        try:
            changed = self._changed(place)
        except wire.CutError as error:
            if piece.is_last or len(self._held) > MOST_BEGIN:
                raise FrameError(f"does not end its brokers within {len(self._held)} bytes") from error
            self._looked_at = 2 * len(self._held)
            return b""
        length = int.from_bytes(self._held[:LENGTH_BYTES]) + LENGTH_BYTES + len(changed) - place.at
        rest, self._held = self._held[place.at :], None
        return length.to_bytes(LENGTH_BYTES) + changed + rest

    def _changed(self, place: wire.Place) -> bytes:
        """All after the length up to the end of the brokers."""
        place.skip_tags()
        place.skip(4 if self._version >= _THROTTLE_VERSION else 0)
        before, told, count = place.since(LENGTH_BYTES), list[bytes](), 0
        for _ in range(place.count()):
            node_id, host, port = place.number(4), str(place.text(), "utf-8", "replace"), place.number(4)
            start, address = place.at, self._of_node(node_id, Address(host, port))
            if self._version >= _RACK_VERSION:
                place.text()
            place.skip_tags()
            if address is not None:
                told += [
                    node_id.to_bytes(4, signed=True),
                    wire.text(address.host, is_flexible=place.is_flexible),
                    address.port.to_bytes(4, signed=True),
                    place.since(start),
                ]
                count += 1
        return before + wire.count(count, is_flexible=place.is_flexible) + b"".join(told)


def _produced(version: int, of_node: OfNode, frame: bytes) -> bytes:
    """The addresses of new leaders are a tagged field at the end, and there only if a leader has moved."""
    if version < _TOPIC_ID_VERSION and _is_shortest(frame):
        return frame
    end = _end_of_topics(frame, version)
    if frame[end + _THROTTLE_BYTES :] == _NO_TAGS:
        return frame
    begin = frame[LENGTH_BYTES:_HEAD] + _NO_TOPICS
    changed = _replaced(_PRODUCE, version, of_node, _framed(begin + frame[end:]))
    return _framed(frame[LENGTH_BYTES:end] + changed[LENGTH_BYTES + len(begin) :])


def _is_shortest(frame: bytes) -> bool:
    """Whether a response about one partition, as most are, is as short as it can be: it names no address."""
    begin = frame[_HEAD : _HEAD + 3]
    if len(begin) < 3 or begin[:2] != _ONE_TOPIC or begin[2] > 0x7F:  # noqa: PLR2004 - a length in one byte
        return False
    partition = _HEAD + 2 + begin[2]
    return frame[partition : partition + 1] == _ONE_PARTITION and len(frame) == partition + _SHORTEST


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(LENGTH_BYTES) + body


def _end_of_topics(frame: bytes, version: int) -> int:
    """Where the topics of a response to Produce end. A client may have named 100,000 partitions."""
    place = wire.Place(frame, is_flexible=True, at=_HEAD)
    place.skip_tags()
    for _ in range(place.count()):
        if version >= _TOPIC_ID_VERSION:
            place.skip(_TOPIC_ID_BYTES)
        else:
            place.text()
        for _ in range(place.count()):
            place.at += _PARTITION_BYTES
            if frame[place.at : place.at + len(_NO_MORE)] == _NO_MORE:
                place.at += len(_NO_MORE)
                continue
            for _ in range(place.count()):
                place.skip(4)
                place.text()
                place.skip_tags()
            place.text()
            place.skip_tags()
        place.skip_tags()
    return place.at


def _replaced(api_key: int, version: int, of_node: OfNode, frame: bytes) -> bytes:
    """The response, read whole."""
    message = codec.decode_response(api_key, version, frame)
    replace_addresses(message, of_node)
    return codec.encode_response(message, int.from_bytes(frame[LENGTH_BYTES:_HEAD], signed=True))


def replace_addresses(message: Any, of_node: OfNode) -> None:
    """Replace the addresses in a response of DescribeCluster, Produce or FindCoordinator, if it is one."""

    def replace(named: Any, node_id: int) -> bool:
        address = of_node(node_id, Address(named.host, named.port))
        if address is not None:
            named.host, named.port = address
        return address is not None

    match message:
        case DescribeClusterResponse():
            message.brokers = [each for each in message.brokers if replace(each, each.broker_id)]
        case ProduceResponse():
            nodes = message.node_endpoints or []
            message.node_endpoints = [each for each in nodes if replace(each, each.node_id)]
        case FindCoordinatorResponse():
            # Before version 4 there is one, whose fields are the message's own.
            for each in message.coordinators if message.version >= _BATCH_FIND_VERSION else [message]:
                if each.error_code == Errors.NONE and not replace(each, each.node_id):
                    each.error_code = Errors.COORDINATOR_NOT_AVAILABLE.value
                    each.node_id, each.host, each.port = _NOWHERE
