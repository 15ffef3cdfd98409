"""The topics: what each must be like, made on request and otherwise checked before the query starts.

A wrong topic does not fail loudly later: without LogAppendTime clients' clocks decide who expires, without
compaction the groups are lost to retention. So a coordinator refuses to start on one.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, TopicAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from streaming.settings import Settings

__all__ = ["TopicError", "TopicSpec", "prepare_topics", "topic_specs"]

_DAY_MS = 24 * 60 * 60 * 1000


class TopicError(Exception):
    """Topics are missing or unsuitable; the message has a line for each and says what to do."""


class TopicSpec(NamedTuple):
    """A topic: `required` configs are checked, `initial` ones are only set when it is created.

    A required value of an int is a minimum, any other has to be equal.
    """

    name: str
    partitions: int
    required: dict[str, str | int]
    initial: dict[str, str]
    exact_partitions: bool = False


def topic_specs(settings: Settings) -> list[TopicSpec]:
    """What the coordinator's topics must be like under these settings."""
    largest = settings.group.max_record_bytes
    append_time: dict[str, str | int] = {
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
    }
    large: dict[str, str | int] = {"max.message.bytes": largest, "cleanup.policy": "delete"}
    compacted = large | {"cleanup.policy": "compact"}
    day, hour = {"retention.ms": str(_DAY_MS)}, {"retention.ms": str(_DAY_MS // 24)}
    return [
        TopicSpec(settings.topics_requests, settings.requests_partitions, append_time, day),
        TopicSpec(settings.topics_clock, 1, append_time, hour, exact_partitions=True),
        TopicSpec(settings.topics_responses, settings.responses_partitions, large, hour),
        TopicSpec(settings.topics_groups, settings.requests_partitions, compacted, {}),
        TopicSpec(settings.topics_offsets, settings.requests_partitions, compacted, {}),
        TopicSpec(
            settings.topics_events,
            settings.requests_partitions,
            large,
            {"retention.ms": str(7 * _DAY_MS)},
        ),
        TopicSpec(settings.topics_rejected, 1, large, day),
    ]


def prepare_topics(settings: Settings, client_config: Mapping[str, Any]) -> dict[str, int]:
    """Create missing topics if the settings say so, check all, and return their numbers of partitions.

    Raises `TopicError` for topics that are missing or unsuitable, or if the brokers cannot be reached.
    """
    specs = topic_specs(settings)
    try:
        admin = KafkaAdminClient(**client_config)
    except KafkaError as error:
        raise TopicError(f"cannot reach Kafka at {settings.bootstrap_servers}: {error}") from None
    try:
        existing = set(admin.list_topics())
        missing = [spec for spec in specs if spec.name not in existing]
        if missing and settings.create_topics:
            _create(admin, missing, settings.replication_factor)
        elif missing:
            names = ", ".join(spec.name for spec in missing)
            raise TopicError(f"topics are missing: {names}. Create them, or start with --create-topics")
        partitions = {
            topic["name"]: len(topic["partitions"])
            for topic in admin.describe_topics([spec.name for spec in specs])
        }
        _check(specs, partitions, _configs(admin, specs))
    except KafkaError as error:
        raise TopicError(f"cannot prepare the topics: {error}") from None
    finally:
        admin.close()
    return partitions


def _create(admin: KafkaAdminClient, specs: list[TopicSpec], replication_factor: int) -> None:
    topics = {
        spec.name: {
            "num_partitions": spec.partitions,
            "replication_factor": replication_factor,
            "configs": {name: str(value) for name, value in spec.required.items()} | spec.initial,
        }
        for spec in specs
    }
    # Another coordinator may be starting at the same time; what it makes is checked like any other topic.
    with contextlib.suppress(TopicAlreadyExistsError):
        admin.create_topics(topics)
    admin.wait_for_topics([spec.name for spec in specs])


def _configs(admin: KafkaAdminClient, specs: list[TopicSpec]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, spec.name) for spec in specs]
    described = admin.describe_configs(resources, config_filter="all")["topic"]
    return {
        topic: {name: config["value"] for name, config in configs.items()}
        for topic, configs in described.items()
    }


def _check(
    specs: list[TopicSpec], partitions: Mapping[str, int], configs: Mapping[str, Mapping[str, str]]
) -> None:
    problems = []
    for spec in specs:
        if spec.exact_partitions and partitions[spec.name] != spec.partitions:
            problems.append(
                f"{spec.name} has {partitions[spec.name]} partitions and must have {spec.partitions}"
            )
        for name, wanted in spec.required.items():
            found = configs[spec.name][name]
            if isinstance(wanted, int):
                if int(found) < wanted:
                    problems.append(f"{spec.name} has {name}={found} and needs at least {wanted}")
            elif found != wanted:
                problems.append(f"{spec.name} has {name}={found} and must have {name}={wanted}")
    if problems:
        raise TopicError(
            f"unsuitable topics: {'; '.join(problems)}. "
            "Change them with kafka-configs.sh, or name other topics"
        )
