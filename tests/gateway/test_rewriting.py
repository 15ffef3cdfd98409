"""No response names a broker's own address, and nothing else of it changes."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import ProduceResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec, wire
from group_coordinator.gateway.addresses import Address
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import RESPONSE_HEAD_BYTES, Frames
from group_coordinator.gateway.rewriting import MOST_BEGIN, Begin, rewriter
from tests.depth import cases
from tests.gateway.messages import drawn

OURS = {1: Address("gateway", 20_001), 2: Address("gateway", 20_002)}


RESPONSES = {
    kind.API_KEY: kind
    for kind in (ProduceResponse, MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse)
}
EVERY = [
    (key, version)
    for key, kind in RESPONSES.items()
    for version in range(kind.max_version + 1)
    if key != ProduceResponse.API_KEY or version >= 10
]


def passed(key: int, version: int, frame: bytes, of_node: Any, pieces: int = 1_000) -> bytes:
    """What a client gets of a response that comes in pieces of so many bytes."""
    through = rewriter(key, version, of_node)
    frames = Frames(RESPONSE_HEAD_BYTES, lambda _head, _length: not isinstance(through, Begin))
    written = b""
    for start in range(0, len(frame), pieces):
        for piece in frames.receive(frame[start : start + pieces]):
            written += through.take(piece) if isinstance(through, Begin) else through(bytes(piece.data))
    return written


def rewritten(message: Any, known: dict[int, Address] = OURS) -> tuple[Any, list[tuple[int, Address]]]:
    """The message as a client gets it, and the addresses that it had."""
    seen: list[tuple[int, Address]] = []

    def of_node(node_id: int, own: Address) -> Address | None:
        seen.append((node_id, own))
        return known.get(node_id)

    key, version = message.API_KEY, message.version
    frame = passed(key, version, codec.encode_response(message, 1), of_node)
    assert b"broker" not in frame
    return codec.decode_response(key, version, frame), seen


def decoded(key: int, version: int, frame: bytes, of_node: Any) -> bytes:
    """The same by the way through kafka-python's messages."""

    def replaced(named: Any, node_id: int) -> bool:
        address = of_node(node_id, Address(named.host, named.port))
        if address is not None:
            named.host, named.port = address
        return address is not None

    message = codec.decode_response(key, version, frame)
    match message:
        case MetadataResponse():
            message.brokers = [each for each in message.brokers if replaced(each, each.node_id)]
        case DescribeClusterResponse():
            message.brokers = [each for each in message.brokers if replaced(each, each.broker_id)]
        case ProduceResponse():
            message.node_endpoints = [each for each in message.node_endpoints if replaced(each, each.node_id)]
        case FindCoordinatorResponse():
            for each in message.coordinators if version >= 4 else [message]:
                if each.error_code == Errors.NONE and not replaced(each, each.node_id):
                    each.error_code = Errors.COORDINATOR_NOT_AVAILABLE.value
                    each.node_id, each.host, each.port = -1, "", -1
    return codec.encode_response(message, 7)


@pytest.mark.parametrize(("key", "version"), EVERY)
@settings(max_examples=cases(5, deep=500))
@given(data=st.data())
def test_nothing_but_the_addresses_changes(key: int, version: int, data: st.DataObject) -> None:
    frame = codec.encode_response(drawn(data.draw, key, 1, version), 7)
    pieces = data.draw(st.integers(1, 50))

    def of_node(node_id: int, own: Address) -> Address | None:
        return Address(f"gateway-{own.host}", own.port ^ 1) if node_id % 3 else None

    assert passed(key, version, frame, of_node, pieces) == decoded(key, version, frame, of_node)


@pytest.mark.parametrize(("key", "version"), EVERY)
def test_a_response_that_is_cut_or_changed_is_refused_and_nothing_else(key: int, version: int) -> None:
    dice = random.Random(version)
    frame = bytes.fromhex("00000020") + dice.randbytes(32)
    for _ in range(cases(100, deep=20_000)):
        lying = bytearray(frame)
        lying[dice.randrange(8, len(lying))] = dice.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        with suppress(FrameError):
            assert passed(key, version, bytes(lying), lambda _id, own: own)[4:8] == lying[4:8]
        frame = bytes(lying)


@pytest.mark.parametrize("version", range(14))
def test_metadata(version: int) -> None:
    kind = MetadataResponse.MetadataResponseBroker
    brokers = [kind(version=version, node_id=each, host=f"broker{each}", port=9092) for each in (1, 2, 3)]
    told, seen = rewritten(MetadataResponse(version=version, brokers=brokers))
    assert [(each.node_id, each.host, each.port) for each in told.brokers] == [
        (1, "gateway", 20_001),
        (2, "gateway", 20_002),
    ], "one without an address is left out"
    assert seen[0] == (1, Address("broker1", 9092))


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(version: int) -> None:
    kind = DescribeClusterResponse.DescribeClusterBroker
    brokers = [kind(version=version, broker_id=2, host="broker2", port=9092)]
    told, _ = rewritten(DescribeClusterResponse(version=version, cluster_id="c", brokers=brokers))
    assert [(each.broker_id, each.host, each.port) for each in told.brokers] == [(2, "gateway", 20_002)]


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_a_transaction(version: int) -> None:
    fields = {"node_id": 1, "host": "broker1", "port": 9092, "error_code": 0}
    if version >= 4:
        kind = FindCoordinatorResponse.Coordinator
        found = [
            kind(version=version, key="t", **fields),
            kind(version=version, key="u", **fields | {"node_id": 3}),
            kind(version=version, key="v", node_id=-1, host="", port=-1, error_code=15),
        ]
        told, seen = rewritten(FindCoordinatorResponse(version=version, coordinators=found))
        assert [(each.error_code, each.node_id, each.host, each.port) for each in told.coordinators] == [
            (0, 1, "gateway", 20_001),
            (15, -1, "", -1),
            (15, -1, "", -1),
        ]
        assert [node_id for node_id, _ in seen] == [1, 3], "an error names no address"
    else:
        told, _ = rewritten(FindCoordinatorResponse(version=version, **fields))
        assert (told.node_id, told.host, told.port) == (1, "gateway", 20_001)


@pytest.mark.parametrize("version", range(10, 14))
def test_leaders_that_a_produce_is_told_of(version: int) -> None:
    kind = ProduceResponse.NodeEndpoint
    nodes = [kind(version=version, node_id=each, host="broker", port=9092, rack=None) for each in (2, 3)]
    told, _ = rewritten(ProduceResponse(version=version, responses=[], node_endpoints=nodes))
    assert [(each.node_id, each.host, each.port) for each in told.node_endpoints] == [(2, "gateway", 20_002)]


@pytest.mark.parametrize("version", range(10, 13))
def test_an_answer_to_a_produce_that_names_no_leader_passes_as_it_is(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = ProduceResponse.TopicProduceResponse(version=version, name="topic", partition_responses=[])
    frame = codec.encode_response(ProduceResponse(version=version, responses=[topic], throttle_time_ms=9), 7)
    monkeypatch.setattr(codec, "decode_response", Mock(side_effect=AssertionError))
    passing = rewriter(ProduceResponse.API_KEY, version, Mock(side_effect=AssertionError))
    assert callable(passing)
    assert passing(frame) is frame


@pytest.mark.parametrize("name", ["", "t", "t" * 126, "t" * 127, "t" * 249])
@pytest.mark.parametrize("version", range(10, 13))
def test_a_small_answer_to_a_produce_is_looked_through_only_if_it_may_name_a_leader(
    version: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = ProduceResponse.TopicProduceResponse
    partitions = [kind.PartitionProduceResponse(version=version, error_code=6)]
    topic = kind(version=version, name=name, partition_responses=partitions)
    plain = codec.encode_response(ProduceResponse(version=version, responses=[topic]), 7)
    endpoint = ProduceResponse.NodeEndpoint(version=version, node_id=1, host="broker", port=9092)
    message = ProduceResponse(version=version, responses=[topic], node_endpoints=[endpoint])
    told, _ = rewritten(message)
    assert [each.host for each in told.node_endpoints] == ["gateway"]
    if len(name) < 127:
        monkeypatch.setattr(wire, "varint_at", Mock(side_effect=AssertionError))
    passing = rewriter(ProduceResponse.API_KEY, version, Mock(side_effect=AssertionError))
    assert callable(passing)
    assert passing(plain) is plain


@pytest.mark.parametrize("version", range(4, 7))
def test_an_answer_without_coordinators_names_no_address(version: int) -> None:
    told, seen = rewritten(FindCoordinatorResponse(version=version, coordinators=[]))
    assert (told.coordinators, seen) == ([], [])


def metadata(topics: int) -> bytes:
    kind = MetadataResponse.MetadataResponseBroker
    brokers = [kind(version=9, node_id=1, host="broker1", port=9092)]
    topic = MetadataResponse.MetadataResponseTopic(version=9, name="topic", partitions=[])
    return codec.encode_response(MetadataResponse(version=9, brokers=brokers, topics=[topic] * topics), 7)


def test_what_stands_behind_the_brokers_is_not_looked_at() -> None:
    passing, frame = Begin(9, lambda node_id, _own: OURS[node_id]), metadata(10_000)
    frames = Frames(RESPONSE_HEAD_BYTES, lambda _head, _length: False)
    begin, rest = memoryview(frame)[:100], memoryview(frame)[100:]
    (first,) = frames.receive(begin)
    told = passing.take(first)
    assert int.from_bytes(told[:4]) == len(told) + len(rest) - 4, (
        "the length is told before the rest is there"
    )
    (last,) = frames.receive(rest)
    assert passing.take(last) is last.data


def test_a_begin_that_comes_byte_by_byte_is_looked_at_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    changed = Begin._changed
    monkeypatch.setattr(Begin, "_changed", lambda self, place: read.append(1) or changed(self, place))
    kind = MetadataResponse.MetadataResponseBroker
    brokers = [kind(version=1, node_id=1, host="b" * 200, port=1) for _ in range(100)]
    frame = codec.encode_response(MetadataResponse(version=1, brokers=brokers), 7)
    passed(MetadataResponse.API_KEY, 1, frame, lambda *_: OURS[1], 1)
    assert len(read) < 20


def test_brokers_that_never_end_are_not_kept() -> None:
    frame = (2**30).to_bytes(4) + (7).to_bytes(4) + (2**20).to_bytes(4) + bytes(MOST_BEGIN)
    with pytest.raises(FrameError, match="does not end its brokers within 1000012 bytes"):
        passed(MetadataResponse.API_KEY, 0, frame, lambda _id, own: own, 2**21)


@pytest.mark.parametrize("version", range(10, 14))
def test_partitions_that_have_nothing_to_say_are_passed_over_at_once(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = ProduceResponse.TopicProduceResponse
    entry = kind.PartitionProduceResponse
    plain = entry(version=version, error_code=3)
    moved = entry(version=version, error_code=6, error_message="moved")
    topic = kind(version=version, name="t", partition_responses=[*[plain] * 1_000, moved])
    endpoint = ProduceResponse.NodeEndpoint(version=version, node_id=1, host="broker", port=9092)
    message = ProduceResponse(version=version, responses=[topic], node_endpoints=[endpoint])
    read: list[int] = []
    varint_at = wire.varint_at
    monkeypatch.setattr(
        wire, "varint_at", lambda data, position: read.append(position) or varint_at(data, position)
    )
    frame = passed(0, version, codec.encode_response(message, 7), lambda node_id, _own: OURS[node_id])
    assert (b"gateway" in frame, b"broker" in frame) == (True, False)
    assert len(read) < 50
