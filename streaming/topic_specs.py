"""The topics: what each must be like, made on request and otherwise checked before the query starts.

A wrong topic does not fail loudly later: without LogAppendTime clients' clocks decide who expires, without
compaction the groups are lost to retention. So a coordinator refuses to start on one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka.admin import ACLOperation, ConfigResource, ConfigResourceType
from kafka.errors import (
    KafkaError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.new_topics import NoTopicError, make_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from kafka.admin import KafkaAdminClient

    from group_coordinator.jobs.settings import JobSettings
    from group_coordinator.streaming.settings import CoordinatorSettings

_HOUR_MS = 3_600_000
_BATCH_BYTES = 1_048_588
"""Kafka's default of `max.message.bytes`."""
# Each topic is checked, which also takes a right.
_READ = (ACLOperation.READ, ACLOperation.DESCRIBE_CONFIGS)
_WRITE = (ACLOperation.WRITE, ACLOperation.DESCRIBE_CONFIGS)


class TopicError(Exception):
    """Topics are missing, unsuitable or out of reach; the message is one line and says what to do."""


class TopicNote(Exception):  # noqa: N818 - not an error
    """A topic can be used, and the message says what the coordinator does not do with it."""


class TopicSpec(NamedTuple):
    """A topic: `required` configs are checked, `initial` ones are only set when it is created.

    A required value of an int is a minimum, any other has to be equal. `operations`: what the coordinator
    does with it, and so must be allowed to do. `probed`: it also writes probes (`probes.py`), if it may.
    """

    name: str
    partitions: int
    required: dict[str, str | int]
    initial: dict[str, str]
    operations: tuple[ACLOperation, ...]
    exact_partitions: bool = False
    probed: bool = False


def topic_specs(settings: CoordinatorSettings) -> list[TopicSpec]:
    """Return what the coordinator's topics must be like under these settings."""
    largest = settings.group.max_record_bytes
    append_time: dict[str, str | int] = {
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
    }
    requests = append_time | {"max.message.bytes": settings.group.max_request_record_bytes}
    large: dict[str, str | int] = {"max.message.bytes": largest, "cleanup.policy": "delete"}
    # Others than the coordinator write there, in batches as large as a topic takes by default.
    batches = {"max.message.bytes": str(max(_BATCH_BYTES, settings.group.max_request_record_bytes))}
    hour, day = _kept_for(_HOUR_MS, _HOUR_MS), _kept_for(24 * _HOUR_MS, _HOUR_MS)
    both = (ACLOperation.READ, *_WRITE)
    number, probed = settings.requests_partitions, settings.probes_enabled
    return [
        TopicSpec(settings.topics_requests, number, requests, day | batches, _READ, probed=probed),
        TopicSpec(settings.topics_clock, 1, append_time, hour, both, exact_partitions=True),
        *(
            TopicSpec(topic, settings.responses_partitions, large, hour, _WRITE)
            for topic in settings.response_topics
        ),
        # Read for the metrics, and for what a coordinator that was superseded may still write.
        *picture_specs(settings, ACLOperation.READ),
        TopicSpec(settings.topics_rejected, 1, large, day, _WRITE),
    ]


def picture_specs(settings: JobSettings, *operations: ACLOperation) -> list[TopicSpec]:
    """Return what the topics of pictures, committed offsets and events must be like.

    `operations`: what is done with the first two besides writing.
    """
    number = settings.requests_partitions
    large: dict[str, str | int] = {
        "max.message.bytes": settings.group.max_record_bytes,
        "cleanup.policy": "delete",
    }
    compacted = large | {"cleanup.policy": "compact"}
    week = _kept_for(7 * 24 * _HOUR_MS, 24 * _HOUR_MS)
    return [
        TopicSpec(settings.topics_groups, number, compacted, {}, (*operations, *_WRITE)),
        TopicSpec(settings.topics_offsets, number, compacted, {}, (*operations, *_WRITE)),
        TopicSpec(settings.topics_events, number, large, week, _WRITE),
    ]


def _kept_for(retention_ms: int, segment_ms: int) -> dict[str, str]:
    """Keep records so long. Kafka deletes whole segments, and by its defaults one has a week."""
    return {"retention.ms": str(retention_ms), "segment.ms": str(segment_ms)}


class _Found(NamedTuple):
    """A topic as Kafka has it. `lacking`: operations that are not allowed, as Kafka's tools spell them."""

    partitions: int
    lacking: list[str]
    is_writable: bool


def prepare_topics(settings: CoordinatorSettings, client_config: Mapping[str, Any]) -> dict[str, int]:
    """Prepare the coordinator's topics, as `prepare` does."""
    return prepare(topic_specs(settings), settings, client_config)


def prepare(
    specs: list[TopicSpec], settings: JobSettings, client_config: Mapping[str, Any]
) -> dict[str, int]:
    """Create missing topics if the settings say so, check all, and return their numbers of partitions.

    Raises `TopicError` for topics that are missing, unsuitable or not this job's to use, or if the brokers
    cannot be reached.
    """
    try:
        with admin_client(client_config) as admin:
            partitions = _partitions(admin, specs)
            missing = [spec for spec in specs if spec.name not in partitions]
            if missing and settings.create_topics:
                _create(admin, _as_the_others(missing, partitions, settings), settings.replication_factor)
                partitions = _partitions(admin, specs)
            elif missing:
                names = ", ".join(spec.name for spec in missing)
                raise TopicError(f"topics are missing: {names}. Create them, or start with --create-topics")
            configs = _configs(admin, specs)
    except UnreachableError as error:
        raise TopicError(f"cannot reach Kafka at {settings.bootstrap_servers}: {error}") from None
    except KafkaError as error:
        raise TopicError(f"cannot prepare the topics: {error}") from None
    problems = [
        problem
        for spec in specs
        for problem in _problems(spec, partitions, configs[spec.name], settings.response_topics)
    ]
    if problems:
        raise TopicError(_unsuitable(problems))
    return partitions


def examine_topics(
    settings: CoordinatorSettings, client_config: Mapping[str, Any]
) -> dict[str, str | TopicNote | TopicError]:
    """Check what `prepare_topics` does, topic by topic, and create none.

    Of each topic that can be used or created, how it is; of each other one, the error. Raises `KafkaError`,
    and `UnreachableError` if the brokers cannot be reached.
    """
    specs = topic_specs(settings)
    with admin_client(client_config) as admin:
        found = _found(admin, specs)
        usable = [spec for spec in specs if spec.name in found and not found[spec.name].lacking]
        configs = _configs(admin, usable) if usable else {}
    partitions = {name: each.partitions for name, each in found.items()}
    examined: dict[str, str | TopicNote | TopicError] = {}
    for spec in specs:
        if spec.name not in found:
            examined[spec.name] = (
                "it is not there yet, and `run` will create it"
                if settings.create_topics
                else TopicError("it is missing: create it, or start with --create-topics")
            )
        elif lacking := found[spec.name].lacking:
            examined[spec.name] = TopicError(_rights_missing(" and ".join(lacking)))
        elif problems := list(_problems(spec, partitions, configs[spec.name], settings.response_topics)):
            examined[spec.name] = TopicError(_unsuitable(problems))
        elif spec.probed and not found[spec.name].is_writable:
            examined[spec.name] = TopicNote(
                "Write is not allowed, so nobody watches whether its partitions take requests: grant it, or "
                "set probes.enabled to false"
            )
        else:
            allowed = ", ".join(map(_spelled, spec.operations))
            examined[spec.name] = f"{partitions[spec.name]} partitions, settings as wanted, {allowed} allowed"
    return examined


def _partitions(admin: KafkaAdminClient, specs: Iterable[TopicSpec]) -> dict[str, int]:
    """Look the topics up: number of partitions of each that there is.

    Raises `TopicError` if something of what the coordinator will do is not allowed: it would be found out
    when the query runs, or, of a topic that is rarely written to, days later.
    """
    found = _found(admin, specs)
    refused = [
        f"{' and '.join(each.lacking)} on topic {name}" for name, each in found.items() if each.lacking
    ]
    if refused:
        raise TopicError(_rights_missing(*refused))
    return {name: each.partitions for name, each in found.items()}


def _found(admin: KafkaAdminClient, specs: Iterable[TopicSpec]) -> dict[str, _Found]:
    described = {topic["name"]: topic for topic in admin.describe_topics([spec.name for spec in specs])}
    found = {}
    for spec in specs:
        topic = described[spec.name]
        error = for_code(topic["error_code"])
        if error is UnknownTopicOrPartitionError:
            continue
        if error not in (NoError, TopicAuthorizationFailedError):
            raise error(spec.name)
        # Kafka tells no more if the user may not even describe the topic, for which Read or Write is enough.
        unknown = [ACLOperation.DESCRIBE_CONFIGS.name]
        allowed = topic["authorized_operations"] if error is NoError else unknown
        lacking = [_spelled(it) for it in spec.operations if it.name not in allowed]
        is_writable = ACLOperation.WRITE.name in allowed
        found[spec.name] = _Found(len(topic["partitions"]), lacking, is_writable)
    return found


def _rights_missing(*rights: str) -> str:
    """Say that each of these, such as "Write on topic t", is not granted."""
    return (
        f"rights are missing: {', '.join(rights)}. "
        "Grant them with kafka-acls.sh; docs/security.md lists all that the coordinator needs"
    )


def _spelled(operation: ACLOperation) -> str:
    """As Kafka's tools spell it: DescribeConfigs."""
    return "".join(word.capitalize() for word in operation.name.split("_"))


def _as_the_others(
    missing: list[TopicSpec], partitions: Mapping[str, int], settings: JobSettings
) -> list[TopicSpec]:
    """Give new topics of responses as many partitions as the ones have that are there."""
    there = [partitions[topic] for topic in settings.response_topics if topic in partitions]
    return [
        spec._replace(partitions=there[0]) if there and spec.name in settings.response_topics else spec
        for spec in missing
    ]


def _create(admin: KafkaAdminClient, specs: list[TopicSpec], replication_factor: int) -> None:
    configs = ({name: str(value) for name, value in spec.required.items()} | spec.initial for spec in specs)
    wanted = {spec.name: (spec.partitions, each) for spec, each in zip(specs, configs, strict=True)}
    try:
        # Another coordinator may be starting at the same time; what it makes is checked like any other topic.
        make_topics(admin, wanted, replication_factor)
    except NoTopicError as error:
        raise TopicError(str(error)) from None


def _configs(admin: KafkaAdminClient, specs: list[TopicSpec]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, spec.name) for spec in specs]
    described = admin.describe_configs(resources, config_filter="all")["topic"]
    return {
        topic: {name: config["value"] for name, config in configs.items()}
        for topic, configs in described.items()
    }


def _problems(
    spec: TopicSpec,
    partitions: Mapping[str, int],
    configs: Mapping[str, str],
    response_topics: tuple[str, ...],
) -> Iterator[str]:
    """Say what of a topic is not as the coordinator needs it. `partitions`: how many each topic has."""
    found = partitions[spec.name]
    # A request may name the partition to answer on, and does not say of which topic.
    default, *others = response_topics
    wanted = partitions.get(default, found)
    if spec.name in others and found != wanted:
        yield f"{spec.name} has {found} partitions and must have {wanted}, as {default} has"
    if spec.exact_partitions and found != spec.partitions:
        yield f"{spec.name} has {found} partitions and must have {spec.partitions}"
    for name, needed in spec.required.items():
        value = configs[name]
        if isinstance(needed, int):
            if int(value) < needed:
                yield f"{spec.name} has {name}={value} and needs at least {needed}"
        elif value != needed:
            yield f"{spec.name} has {name}={value} and must have {name}={needed}"


def _unsuitable(problems: Iterable[str]) -> str:
    return (
        f"unsuitable topics: {'; '.join(problems)}. Change them with kafka-configs.sh, or name other topics"
    )
