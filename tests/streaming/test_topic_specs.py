from __future__ import annotations

import gc
import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import TopicError, prepare_topics, topic_specs

pytestmark = pytest.mark.spark

NAMES = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def admin(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    yield admin
    admin.close()


@pytest.fixture
def settings(bootstrap_servers: str) -> CoordinatorSettings:
    """Settings with topics that are nobody else's and not yet there."""
    prefix = f"topics{next(_numbers)}"
    return CoordinatorSettings.load(
        None,
        {},
        {
            "bootstrap.servers": bootstrap_servers,
            "checkpoint": "unused",
            "create.topics": True,
            "requests.partitions": 3,
            "responses.partitions": 2,
            **{f"topics.{name}": f"{prefix}.{name}" for name in NAMES},
        },
    )


def changed(settings: CoordinatorSettings, **fields: Any) -> CoordinatorSettings:
    return CoordinatorSettings(
        **({name: getattr(settings, name) for name in settings.__struct_fields__} | fields)
    )


def prepare(settings: CoordinatorSettings) -> dict[str, int]:
    return prepare_topics(settings, python_client_config(settings.bootstrap_servers, {}))


def refusal(settings: CoordinatorSettings) -> str:
    with pytest.raises(TopicError) as caught:
        prepare(settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def create(
    admin: KafkaAdminClient, settings: CoordinatorSettings, name: str, partitions: int = 1, **configs: str
) -> None:
    """Make the topic of that setting beforehand, as somebody else would; underscores for dots in configs."""
    topic = getattr(settings, f"topics_{name}")
    right = next(spec for spec in topic_specs(settings) if spec.name == topic)
    wanted = {key: str(value) for key, value in right.required.items()}
    wanted |= {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": wanted}})
    admin.wait_for_topics([topic])


def configs_of(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    described = admin.describe_configs([resource], config_filter="all")["topic"][topic]
    return {name: config["value"] for name, config in described.items()}


def test_missing_topics_are_created_on_request(
    settings: CoordinatorSettings, admin: KafkaAdminClient
) -> None:
    partitions = prepare(settings)

    assert partitions == {
        settings.topics_requests: 3,
        settings.topics_clock: 1,
        settings.topics_responses: 2,
        settings.topics_groups: 3,
        settings.topics_offsets: 3,
        settings.topics_events: 3,
        settings.topics_rejected: 1,
    }
    largest = str(settings.group.max_record_bytes)
    wanted = {
        "requests": {
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": "delete",
            # As by default, because others write there in batches.
            "max.message.bytes": "1048588",
        },
        "clock": {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "delete"},
        "responses": {"max.message.bytes": largest, "cleanup.policy": "delete"},
        "groups": {"max.message.bytes": largest, "cleanup.policy": "compact"},
        "offsets": {"max.message.bytes": largest, "cleanup.policy": "compact"},
        "events": {"max.message.bytes": largest, "cleanup.policy": "delete"},
        "rejected": {"max.message.bytes": largest, "cleanup.policy": "delete"},
    }
    found = {name: configs_of(admin, getattr(settings, f"topics_{name}")) for name in NAMES}
    assert {name: {key: found[name][key] for key in wanted[name]} for name in NAMES} == wanted


def test_short_lived_topics_do_not_grow_for_ever(
    settings: CoordinatorSettings, admin: KafkaAdminClient
) -> None:
    prepare(settings)

    hours = {
        name: tuple(
            int(configs_of(admin, getattr(settings, f"topics_{name}"))[config]) // 3_600_000
            for config in ("retention.ms", "segment.ms")
        )
        for name in ("requests", "clock", "responses", "events", "rejected")
    }
    # Kept so long, in segments of that length: Kafka deletes whole ones.
    assert hours == {
        "requests": (24, 1),
        "clock": (1, 1),
        "responses": (1, 1),
        "events": (168, 24),
        "rejected": (24, 1),
    }


def test_topics_that_are_there_are_left_as_they_are(
    settings: CoordinatorSettings, admin: KafkaAdminClient
) -> None:
    create(admin, settings, "requests", partitions=5, retention_ms="12345")
    first = prepare(settings)
    again = prepare(changed(settings, requests_partitions=1))

    assert first == again
    assert first[settings.topics_requests] == 5
    assert configs_of(admin, settings.topics_requests)["retention.ms"] == "12345"


def test_retention_is_the_operators_business(settings: CoordinatorSettings, admin: KafkaAdminClient) -> None:
    for name in NAMES:
        create(admin, settings, name, retention_ms="12345")

    assert set(prepare(changed(settings, create_topics=False)).values()) == {1}


def test_missing_topics_are_named(settings: CoordinatorSettings, admin: KafkaAdminClient) -> None:
    for name in ("clock", "groups", "offsets", "events", "rejected"):
        create(admin, settings, name)

    message = refusal(changed(settings, create_topics=False))

    assert message == (
        f"topics are missing: {settings.topics_requests}, {settings.topics_responses}. "
        "Create them, or start with --create-topics"
    )


@pytest.mark.parametrize(
    ("name", "config", "found", "wanted"),
    [
        ("requests", "message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("clock", "message.timestamp.type", "CreateTime", "LogAppendTime"),
        ("requests", "cleanup.policy", "compact", "delete"),
        ("responses", "cleanup.policy", "compact", "delete"),
        ("groups", "cleanup.policy", "delete", "compact"),
        ("groups", "cleanup.policy", "compact,delete", "compact"),
    ],
)
def test_refuses_a_topic_with_another_config(
    settings: CoordinatorSettings, admin: KafkaAdminClient, name: str, config: str, found: str, wanted: str
) -> None:
    create(admin, settings, name, **{config.replace(".", "_"): found})

    topic = getattr(settings, f"topics_{name}")
    assert refusal(settings) == (
        f"unsuitable topics: {topic} has {config}={found} and must have {config}={wanted}. "
        "Change them with kafka-configs.sh, or name other topics"
    )


@pytest.mark.parametrize("name", ["responses", "groups", "offsets", "events", "rejected"])
def test_refuses_a_topic_that_cannot_take_the_largest_record(
    settings: CoordinatorSettings, admin: KafkaAdminClient, name: str
) -> None:
    create(admin, settings, name, max_message_bytes="1048588")

    topic = getattr(settings, f"topics_{name}")
    largest = settings.group.max_record_bytes
    assert f"{topic} has max.message.bytes=1048588 and needs at least {largest}." in refusal(settings)


def test_refuses_a_request_topic_that_cannot_take_the_largest_request(
    settings: CoordinatorSettings, admin: KafkaAdminClient
) -> None:
    create(admin, settings, "requests", max_message_bytes="1000012", message_timestamp_type="LogAppendTime")

    topic, largest = settings.topics_requests, settings.group.max_request_record_bytes
    assert 1_000_000 < largest <= 1_048_588, "what brokers take by default is enough by default"
    assert f"{topic} has max.message.bytes=1000012 and needs at least {largest}." in refusal(settings)


def test_a_request_topic_is_made_for_the_largest_request(
    settings: CoordinatorSettings, admin: KafkaAdminClient
) -> None:
    group = msgspec.structs.replace(settings.group, max_request_bytes=5_000_000)
    prepare(msgspec.structs.replace(settings, group=group))

    found = configs_of(admin, settings.topics_requests)["max.message.bytes"]
    assert int(found) == group.max_request_record_bytes > 5_000_000


def test_a_topic_that_takes_larger_records_will_do(
    settings: CoordinatorSettings, admin: KafkaAdminClient
) -> None:
    create(admin, settings, "groups", max_message_bytes=str(settings.group.max_record_bytes + 1))

    assert prepare(settings)[settings.topics_groups] == 1


def test_refuses_a_clock_with_two_partitions(settings: CoordinatorSettings, admin: KafkaAdminClient) -> None:
    create(admin, settings, "clock", partitions=2)

    assert f"{settings.topics_clock} has 2 partitions and must have 1." in refusal(settings)


def test_all_that_is_wrong_is_told_at_once(settings: CoordinatorSettings, admin: KafkaAdminClient) -> None:
    create(admin, settings, "clock", partitions=2, message_timestamp_type="CreateTime")
    create(admin, settings, "groups", cleanup_policy="delete")

    message = refusal(settings)

    assert message.count(" must have ") == 3


# kafka-python leaves the sockets of connections that failed to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("listening", [False, True])
def test_brokers_that_do_not_answer_are_given_up(settings: CoordinatorSettings, listening: bool) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        if listening:  # takes connections and says nothing
            nobody.listen()
        servers = f"127.0.0.1:{nobody.getsockname()[1]}"
        config = python_client_config(servers, {}) | {"bootstrap_timeout_ms": 1_000}
        begun = time.monotonic()
        with pytest.raises(TopicError) as caught:
            prepare_topics(changed(settings, bootstrap_servers=servers), config)
        gc.collect()

    assert str(caught.value).startswith(f"cannot reach Kafka at {servers}: ")
    assert listening or str(caught.value).endswith("start Kafka, or name another --bootstrap-server")
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 10
