"""Produce and Fetch of the coordinator's own topics: which are refused, whole and in pieces."""

from __future__ import annotations

import random
from typing import Any

import pytest
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.producer import ProduceRequest

from group_coordinator.gateway import codec, own_topics
from group_coordinator.gateway.apis import APIS
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import REQUEST_HEAD_BYTES, Frames, RequestHead, read_request_head
from group_coordinator.gateway.own_topics import OwnTopics
from group_coordinator.gateway.settings import GatewaySettings

OWN = "coordinator.requests"
PRODUCE, FETCH = ProduceRequest.API_KEY, FetchRequest.API_KEY
PRODUCED, FETCHED = range(3, APIS[PRODUCE].newest + 1), range(4, APIS[FETCH].newest + 1)  # type: ignore[operator]
EACH = [*((PRODUCE, version) for version in PRODUCED), *((FETCH, version) for version in FETCHED)]
DENIED = 29


def produce(version: int, topics: list[tuple[str, list[bytes | None]]], acks: int = 1) -> Any:
    kind = ProduceRequest.TopicProduceData
    entry = kind.PartitionProduceData
    data = [
        kind(
            version=version,
            name=name,
            partition_data=[
                entry(version=version, index=number, records=each) for number, each in enumerate(records)
            ],
        )
        for name, records in topics
    ]
    return ProduceRequest(version=version, transactional_id="t", acks=acks, timeout_ms=1, topic_data=data)


def fetch(version: int, topics: list[tuple[str, list[bytes | None]]]) -> Any:
    kind = FetchRequest.FetchTopic
    entry = kind.FetchPartition
    data = [
        kind(
            version=version,
            topic=name,
            partitions=[
                entry(version=version, partition=number, fetch_offset=5, partition_max_bytes=9)
                for number, _ in enumerate(records)
            ],
        )
        for name, records in topics
    ]
    return FetchRequest(version=version, max_wait_ms=1, min_bytes=1, topics=data)


def request(api_key: int, version: int, topics: list[tuple[str, list[bytes | None]]]) -> bytes:
    message = (produce if api_key == PRODUCE else fetch)(version, topics)
    return codec.encode_request(message, 7, "client")


class Client:
    """Sends frames in parts, and knows what was passed on and answered."""

    def __init__(self, *names: str) -> None:
        self.own = OwnTopics(frozenset(names))
        self.head = RequestHead(0, 0, 0)
        self.frames = Frames(REQUEST_HEAD_BYTES, self._begin)
        self.passed = bytearray()
        self.answers: list[bytes] = []

    def _begin(self, head: bytes, _length: int) -> bool:
        self.head = read_request_head(head)
        return False

    def send(self, data: bytes, size: int | None = None) -> None:
        step = size or len(data)
        for begin in range(0, len(data), step):
            for piece in self.frames.receive(data[begin : begin + step]):
                answer = self.own.refusal(self.head, piece)
                if answer is None:
                    self.passed += piece.data
                else:
                    self.answers.append(answer)


MIXED: list[tuple[str, list[bytes | None]]] = [
    ("orders", [b"a", None]),
    (OWN, [b"x", b"y"]),
    ("later", [b"z"]),
]
OTHERS: list[tuple[str, list[bytes | None]]] = [
    (f"{OWN}.not", [b"a", None, b""]),
    (f"not.{OWN}", [f"{OWN} in a record".encode()]),
    (OWN.upper(), []),
]


@pytest.mark.parametrize(("api_key", "version"), EACH)
def test_a_small_request_that_names_one_is_answered_and_not_passed(api_key: int, version: int) -> None:
    client = Client(OWN, "coordinator.groups")
    client.send(request(api_key, version, MIXED))
    (answer,) = client.answers
    assert answer[4:8] == (7).to_bytes(4)
    told = codec.decode_response(api_key, version, answer)
    if api_key == PRODUCE:
        errors = {
            (topic.name, each.index): each.error_code
            for topic in told.responses
            for each in topic.partition_responses
        }
    else:
        errors = {
            (topic.topic, each.partition_index): each.error_code
            for topic in told.responses
            for each in topic.partitions
        }
    named = {(name, number) for name, records in MIXED for number, _ in enumerate(records)}
    assert errors == dict.fromkeys(named, DENIED)
    assert client.passed == b""


@pytest.mark.parametrize("size", [1, 3, 50, None])
@pytest.mark.parametrize(("api_key", "version"), EACH)
def test_one_that_is_like_it_passes_whole_and_in_parts(api_key: int, version: int, size: int | None) -> None:
    client = Client(OWN)
    frame = request(api_key, version, OTHERS)
    client.send(frame * 2, size)
    assert client.passed == frame * 2
    assert client.answers == []


@pytest.mark.parametrize("size", [1, 3, 50])
@pytest.mark.parametrize(("api_key", "version"), EACH)
def test_one_that_comes_in_parts_ends_before_its_last_part(api_key: int, version: int, size: int) -> None:
    client = Client(OWN)
    frame = request(api_key, version, MIXED)
    with pytest.raises(FrameError, match=r"it names coordinator\.requests, .*: connect to the brokers"):
        client.send(frame, size)
    assert OWN.encode() not in client.passed
    assert len(client.passed) < len(frame)


@pytest.mark.parametrize("api_key", [PRODUCE, FETCH])
def test_a_large_one_is_gone_through(api_key: int) -> None:
    pad: list[bytes | None] = [b"r" * 1_000] * 500 if api_key == PRODUCE else [None] * 4_000
    draw = random.Random(57)
    for version in PRODUCED if api_key == PRODUCE else FETCHED:
        fine = request(api_key, version, [("orders", pad), ("later", pad)])
        bad = request(api_key, version, [("orders", pad), (OWN, [b"x"])])
        client = Client(OWN)
        client.send(fine)
        client.send(fine, draw.randrange(2_000, 20_000))
        assert client.passed == fine * 2
        with pytest.raises(FrameError, match="it names"):
            client.send(bad)


def test_one_without_a_response_ends_the_connection() -> None:
    with pytest.raises(FrameError, match="it names"):
        Client(OWN).send(codec.encode_request(produce(9, MIXED, acks=0), 1, "c"))


def test_where_clients_log_in_all_passes() -> None:
    client = Client()
    frame = request(PRODUCE, 9, MIXED)
    client.send(frame)
    client.send(frame, 1)
    assert client.passed == frame * 2


@pytest.mark.parametrize(
    "length",
    [
        b"\xff\xff\xff\xff\x0f",  # Java reads it as null, and a topic behind it
        b"\x80\x80\x80\x80\x10",  # Java reads it as 0
        b"\xff\xff\xff\xff\xff\x01",
    ],
)
def test_lengths_that_java_reads_as_others_hide_no_topic(length: bytes) -> None:
    topics: list[tuple[str, list[bytes | None]]] = [("orders", [b"RECORDS"]), (OWN, [b"x"])]
    frame = request(PRODUCE, 9, topics).replace(b"\x08RECORDS", length)
    frame = (len(frame) - 4).to_bytes(4) + frame[4:]
    with pytest.raises(FrameError, match="varint of more than 31 bits"):
        Client(OWN).send(frame, 10)


def test_lengths_that_are_longer_than_need_be_hide_no_topic() -> None:
    frame = request(PRODUCE, 9, MIXED)
    name = bytes([len(OWN) + 1]) + OWN.encode()
    frame = frame.replace(name, bytes([len(OWN) + 1 | 0x80, 0x80, 0]) + OWN.encode())
    frame = (len(frame) - 4).to_bytes(4) + frame[4:]
    client = Client(OWN)
    client.send(frame)
    assert (client.passed, len(client.answers)) == (b"", 1)
    with pytest.raises(FrameError, match="it names"):
        Client(OWN).send(frame, 10)


def test_no_request_is_gone_through_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_topics, "_MOST_NAMED", 9)
    client = Client(OWN)
    client.send(request(FETCH, 12, [("t", [None] * 2)] * 3), 9)
    with pytest.raises(FrameError, match="more than 9 topics and partitions"):
        client.send(request(FETCH, 12, [("t", [None] * 4)] * 2), 9)
    tagged = request(FETCH, 12, []).replace(b"client\0", b"client\x65")
    with pytest.raises(FrameError, match="101 tagged fields"):
        Client(OWN).send(tagged, 9)


def test_no_part_of_a_request_is_kept_for_ever() -> None:
    long = "n" * 200_000
    frame = request(FETCH, 12, [(long, [None])])
    with pytest.raises(FrameError, match="more than 131072 bytes for a name"):
        Client(OWN).send(frame, 1_000)


def test_the_names_are_those_of_all_the_coordinators_topics() -> None:
    given = {"topics.lag": "", "topics.groups": "g", "responses.topics.a-": "coordinator.responses.a"}
    assert GatewaySettings.load(None, {}, given, needed=()).all_topics == {
        "g",
        "coordinator.responses.a",
        *(
            f"coordinator.{it}"
            for it in ("requests", "responses", "clock", "offsets", "events", "rejected", "sides")
        ),
    }
    assert "coordinator.lag" in GatewaySettings().all_topics
