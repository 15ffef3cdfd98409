"""The channel at its boundary with kafka-python, whose clients are small fakes here."""

from __future__ import annotations

import logging
import threading
from typing import ClassVar, NamedTuple

import msgspec
import pytest
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    TopicAuthorizationFailedError,
)
from kafka.future import Future
from kafka.structs import TopicPartition

from group_coordinator.client import channel as channel_module
from group_coordinator.client.channel import KafkaChannel, MissingTopicError
from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.coordinator_state.requests import HeartbeatRequest, TopicFacts
from group_coordinator.coordinator_state.responses import (
    HeartbeatResponse,
    InvalidRequestResponse,
    JoinGroupResponse,
)
from tests.client.brokers import Brokers


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None


class FakeKafka:
    """What the three clients share: topics, records, and a journal of calls."""

    def __init__(self):
        self.topics = {"coordinator.requests": 4, "coordinator.responses": 8, "a": 3}
        self.topic_ids = {}
        self.topic_errors = {}
        self.calls = []
        self.sent = []
        self.acks = []
        self.inbox = []
        self.settings = {}


class FakeClient:
    kafka = None

    def __init__(self, **settings):
        self.kafka.settings[type(self).__name__] = settings

    def close(self, **options):
        self.kafka.calls.append((type(self).__name__, "close"))


class FakeAdmin(FakeClient):
    DEFAULT_CONFIG: ClassVar = {
        "bootstrap_servers": None,
        "client_id": None,
        "security_protocol": None,
        "reconnect_backoff_max_ms": 30_000,
    }

    def describe_topics(self, topics):
        counts = self.kafka.topics
        return [
            {
                "name": topic,
                "error_code": self.kafka.topic_errors.get(topic, 0 if topic in counts else 3),
                "partitions": [None] * counts.get(topic, 0),
                **({"topic_id": self.kafka.topic_ids[topic]} if topic in self.kafka.topic_ids else {}),
            }
            for topic in topics
        ]


class FakeConsumer(FakeClient):
    DEFAULT_CONFIG: ClassVar = FakeAdmin.DEFAULT_CONFIG | {
        "group_id": None,
        "fetch_max_wait_ms": 500,
        "request_timeout_ms": 30_000,
    }

    def assign(self, partitions):
        self.kafka.calls.append(("assign", partitions))

    @property
    def _manager(self):
        return Brokers(
            {
                TopicPartition(name, number): (0, 42)
                for name, count in self.kafka.topics.items()
                for number in range(count)
            }
        )

    @property
    def config(self):
        return self.DEFAULT_CONFIG

    def seek(self, partition, offset):
        self.kafka.calls.append(("seek", partition, offset))

    def poll(self, timeout_ms):
        if not self.kafka.inbox:
            return {}
        records = self.kafka.inbox.pop(0)
        if isinstance(records, Exception):
            raise records
        return {"the partition": records}


class FakeProducer(FakeClient):
    DEFAULT_CONFIG: ClassVar = FakeAdmin.DEFAULT_CONFIG | {
        "linger_ms": 5,
        "compression_type": None,
        "max_request_size": 1_048_576,
    }

    def partitions_for(self, topic):
        return set(range(self.kafka.topics[topic]))

    def close(self, timeout=None):
        super().close()
        if not all(ack.is_done for ack in self.kafka.acks):
            raise KafkaTimeoutError("flush")

    def send(self, topic, key, value):
        self.kafka.calls.append(("send", topic))
        self.kafka.sent.append((topic, key, value))
        self.kafka.acks.append(Future())
        return self.kafka.acks[-1]


@pytest.fixture
def kafka(monkeypatch):
    kafka = FakeKafka()
    for name, fake in [
        ("KafkaAdminClient", FakeAdmin),
        ("KafkaConsumer", FakeConsumer),
        ("KafkaProducer", FakeProducer),
    ]:
        monkeypatch.setattr(fake, "kafka", kafka)
        monkeypatch.setattr(channel_module, name, fake)
    return kafka


def make_channel(instance="abcdef", **kafka_config):
    return KafkaChannel(
        client_id="c1",
        instance=instance,
        request_topic="coordinator.requests",
        response_topic="coordinator.responses",
        bootstrap_servers="localhost:1",
        **kafka_config,
    )


def heartbeat(request_id="c1-abcdef-1"):
    return HeartbeatRequest(
        request_id=request_id, client_id="c1", group_id="ördérs", generation_id=1, member_id="m1"
    )


def response(request_id="c1-abcdef-1"):
    return HeartbeatResponse(request_id=request_id, client_id="c1", group_id="orders")


# -- opening -----------------------------------------------------------------------------------------


def test_position_is_fixed_before_anything_is_sent(kafka):
    channel = make_channel()
    channel.send(heartbeat())

    partition = TopicPartition("coordinator.responses", partition_for_key(b"c1", 8))
    assert channel.reply_partition == partition.partition
    assert kafka.calls == [
        ("assign", [partition]),
        ("seek", partition, 42),
        ("send", "coordinator.requests"),
    ]


@pytest.mark.parametrize("topic", ["coordinator.requests", "coordinator.responses"])
def test_missing_topic_is_named_and_nothing_stays_open(kafka, topic):
    del kafka.topics[topic]

    with pytest.raises(MissingTopicError, match=topic):
        make_channel()
    assert kafka.calls == [("FakeAdmin", "close")]


def test_settings_reach_the_clients_that_have_them(kafka):
    make_channel(security_protocol="SSL", fetch_max_wait_ms=10, compression_type="gzip")

    admin, consumer, producer = (
        kafka.settings[each] for each in ("FakeAdmin", "FakeConsumer", "FakeProducer")
    )
    assert admin.pop("request_timeout_ms") == 5_000
    assert admin == {
        "bootstrap_servers": "localhost:1",
        "client_id": "c1",
        "security_protocol": "SSL",
        # A member that waits for longer may be out of its group when Kafka comes back.
        "reconnect_backoff_max_ms": 1_000,
    }
    assert admin.items() <= consumer.items()
    assert (consumer["fetch_max_wait_ms"], consumer["group_id"]) == (10, None)
    assert admin.items() <= producer.items()
    assert (producer["acks"], producer["linger_ms"], producer["compression_type"]) == ("all", 0, "gzip")


@pytest.mark.parametrize("given", [{}, {"max_request_size": 5_000_000}])
def test_requests_are_as_large_as_the_coordinator_takes_them(kafka, given):
    make_channel(**given)
    producer = kafka.settings["FakeProducer"]
    assert producer["max_request_size"] == given.get("max_request_size", 2**31 - 1)


def test_the_longest_wait_for_kafka_may_be_chosen(kafka):
    make_channel(reconnect_backoff_max_ms=5_000)
    waits = [kafka.settings[each]["reconnect_backoff_max_ms"] for each in ("FakeConsumer", "FakeProducer")]
    assert waits == [5_000, 5_000]


@pytest.mark.parametrize(("given", "wait_ms"), [({}, 5_000), ({"request_timeout_ms": 3_000}, 1_500)])
def test_a_member_that_is_told_nothing_asks_seldom(kafka, given, wait_ms):
    make_channel(**given)
    assert kafka.settings["FakeConsumer"]["fetch_max_wait_ms"] == wait_ms


@pytest.mark.parametrize(("name", "message"), [("nonsense", "neither"), ("acks", "cannot be chosen")])
def test_settings_that_make_no_sense_are_refused(kafka, name, message):
    with pytest.raises(ValueError, match=f"'{name}'.*{message}"):
        make_channel(**{name: 1})


def test_partition_counts_are_without_missing_topics(kafka):
    assert make_channel().partition_counts({"a", "missing"}) == {"a": 3}
    assert make_channel().partition_counts(set()) == {}


def test_topic_facts_are_of_topics_with_ids(kafka):
    kafka.topics |= {"b": 1, "unready": 0}
    kafka.topic_ids |= {"a": "id-a", "unready": "id-u"}

    assert make_channel().topic_facts({"a", "b", "unready", "missing"}) == {"a": TopicFacts("a", 3, "id-a")}


def test_topic_that_cannot_be_looked_up_is_not_taken_for_missing(kafka):
    channel = make_channel()
    kafka.topic_errors["a"] = LeaderNotAvailableError.errno

    with pytest.raises(LeaderNotAvailableError):
        channel.partition_counts(["a"])
    with pytest.raises(LeaderNotAvailableError):
        channel.topic_facts(["a"])


# -- sending -----------------------------------------------------------------------------------------


def test_request_is_json_under_the_group_id(kafka):
    make_channel().send(heartbeat())

    ((topic, key, value),) = kafka.sent
    assert (topic, key) == ("coordinator.requests", "ördérs".encode())
    assert msgspec.json.decode(value, type=HeartbeatRequest) == heartbeat()


def test_request_that_failed_for_good_is_raised_by_what_comes_next(kafka):
    channel = make_channel()
    channel.send(heartbeat())
    kafka.acks[0].failure(TopicAuthorizationFailedError("coordinator.requests"))

    with pytest.raises(TopicAuthorizationFailedError):
        channel.send(heartbeat())
    with pytest.raises(TopicAuthorizationFailedError):
        channel.receive(0)


def test_outage_is_logged_once_and_so_is_its_end(kafka, monkeypatch, caplog):
    clock = [100.0]
    monkeypatch.setattr(channel_module.time, "monotonic", lambda: clock[0])
    channel = make_channel()
    for _ in range(5):
        channel.send(heartbeat())
        clock[0] += 3
        channel.receive(0)
    assert len(caplog.records) == 1
    assert "acknowledged no request" in caplog.text

    for ack in kafka.acks:
        ack.success(None)
    channel.receive(0)

    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert "can be reached again" in caplog.text


# -- receiving ---------------------------------------------------------------------------------------


def test_answers_are_decoded_in_order(kafka):
    sent = [
        response("c1-abcdef-1"),
        JoinGroupResponse(request_id="c1-abcdef-2", client_id="c1", group_id="g"),
    ]
    kafka.inbox.append([Record(b"c1", msgspec.json.encode(each)) for each in sent])

    assert make_channel().receive(0) == sent


@pytest.mark.parametrize(
    "record",
    [
        Record(b"c2", msgspec.json.encode(response())),
        Record(None, msgspec.json.encode(response())),
        Record(b"c1", None),
        Record(b"c1", msgspec.json.encode(response("c1-fedcba-1"))),
    ],
)
def test_records_for_others_are_not_even_decoded(kafka, monkeypatch, record):
    monkeypatch.setattr(channel_module, "_answers", None)
    kafka.inbox.append([record])

    assert make_channel().receive(0) == []


def test_answers_to_several_client_ids(kafka):
    channel = make_channel(instance="")
    channel.listen_to("c2")
    answers = [response("c1-1"), HeartbeatResponse(request_id="c2-1", client_id="c2", group_id="g")]
    kafka.inbox.append(
        [Record(key, msgspec.json.encode(each)) for key, each in zip((b"c1", b"c2"), answers, strict=True)]
        + [Record(b"c3", msgspec.json.encode(response("c3-1")))]
    )

    assert channel.receive(0) == answers


def test_answer_to_an_unreadable_request_is_one(kafka):
    answer = InvalidRequestResponse(api=None, request_id="c1-abcdef-1", client_id="c1", group_id=None)
    kafka.inbox.append([Record(b"c1", msgspec.json.encode(answer))])

    assert make_channel().receive(0) == [answer]


@pytest.mark.parametrize("value", [b"abcdef", b'{"api": "abcdef"}', b'"abcdef"', b'{"abcdef'])
@pytest.mark.usefixtures("tells_all_that_is_skipped")
def test_answer_that_cannot_be_read_is_logged_and_skipped(kafka, caplog, value):
    kafka.inbox.append([Record(b"c1", value), Record(b"c1", msgspec.json.encode(response()))])

    assert make_channel().receive(0) == [response()]
    assert "is skipped" in caplog.text


def test_reading_goes_on_after_an_error_that_may_pass(kafka):
    kafka.inbox += [KafkaConnectionError("gone"), [Record(b"c1", msgspec.json.encode(response()))]]
    channel = make_channel()

    assert channel.receive(1) == []
    assert channel.receive(1) == [response()]


def test_error_that_does_not_pass_is_raised(kafka):
    kafka.inbox.append(TopicAuthorizationFailedError("coordinator.responses"))

    with pytest.raises(TopicAuthorizationFailedError):
        make_channel().receive(0)


def test_close_does_not_wait_for_kafka_for_ever(kafka, caplog):
    channel = make_channel()
    channel.send(heartbeat())
    channel.close(timeout_ms=0)

    assert kafka.calls[-1] == ("FakeAdmin", "close")
    assert "not delivered" in caplog.text


def test_close_closes_everything_and_ends_a_wait(kafka):
    channel = make_channel()
    kafka.inbox.append(KafkaConnectionError("gone"))
    waiting = threading.Thread(target=channel.receive, args=(60_000,))
    waiting.start()
    channel.close(timeout_ms=0)
    waiting.join(30)

    assert not waiting.is_alive()
    assert [call for call in kafka.calls if call[1] == "close"] == [
        ("FakeProducer", "close"),
        ("FakeConsumer", "close"),
        ("FakeAdmin", "close"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"api":"\xff"}',
        b'{"request_id":"\xff"}',
        b'{"a":' + b"[" * 100_000,
        b'{"api":"heartbeat","a":' + b"[" * 100_000,
    ],
)
@pytest.mark.usefixtures("tells_all_that_is_skipped")
def test_an_answer_that_cannot_be_read_is_skipped_with_a_warning(caplog, value):
    assert channel_module.read_answer(value) is None
    assert "a response is no answer and is skipped: " in caplog.text
