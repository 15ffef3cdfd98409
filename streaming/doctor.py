"""Looks at all that a coordinator needs, and changes nothing.

`run` ends with the first thing that is wrong. Here each of its checks is made by itself, by the functions
that `run` calls, so that everything is known at once. Nothing is created, fetched or written. Spark is
started and stopped.
"""

from __future__ import annotations

import os
import shutil
import time
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyspark
from kafka.errors import KafkaError
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf
from pyspark.errors import PySparkException

from group_coordinator.checkpoints.disk import local_path, room_of
from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import Identity, recognise, secret_sha256
from group_coordinator.checkpoints.offset_log import newest_committed
from group_coordinator.checkpoints.times import append_times, readable_ends
from group_coordinator.checkpoints.topics import ids_of, read_topics
from group_coordinator.coordinator_state.stored import SCHEMA_VERSION
from group_coordinator.deploy.jars import JarError, are_there, cache_dir
from group_coordinator.deploy.java import JavaNotFound, find_java, java_version
from group_coordinator.jobs.connection import UnreachableError, admin_client
from group_coordinator.jobs.java_errors import first_line
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.session import create_session
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.streaming.daemon import daemon_defaults, session_defaults, why_not_short
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.leadership import check_alone
from group_coordinator.streaming.topic_specs import TopicError, TopicNote, examine_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from typing import Any

    from pyspark.sql import SparkSession

    from group_coordinator.checkpoints.topics import Topic
    from group_coordinator.streaming.settings import CoordinatorSettings

_MEGABYTE = 1_000_000
_LEAST_FREE_BYTES = 1_000 * _MEGABYTE
_LOOKED_BACK = 10
"""Records of each partition whose times are looked at."""
_MOST_AHEAD_S = 1.0


class Verdict(StrEnum):
    """The meaning of a finding."""

    OK = "ok"
    NOTE = "note"
    """It works, but differs from what one would want."""
    WRONG = "wrong"
    """`run` would not start, or not work."""
    UNKNOWN = "unknown"
    """Something else is wrong, without which it cannot be looked at."""


class Finding(NamedTuple):
    """A finding about one thing. `told`: a line, which also says what to do if something is wrong."""

    subject: str
    verdict: Verdict
    told: str


class _Kafka(NamedTuple):
    """The ids of the topics that a checkpoint is about, and whether a coordinator runs."""

    topic_ids: dict[str, str]
    has_coordinator: bool = False


class _Noted(Exception):  # noqa: N818 - not an error
    """It works; the message says what differs."""


def examine(settings: CoordinatorSettings, ports: Mapping[str, Callable[[], object]]) -> Iterator[Finding]:
    """Examine everything, and tell of each thing as soon as it is known.

    `ports`: functions that listen on a port of `run` for a moment, by setting. They raise `CannotListenError`
    if they cannot.
    """
    java = _look("java", _java)
    yield java
    yield _look("pyspark", _pyspark)
    jars = _look("jars", _jars)
    yield jars
    yield _look("disk", lambda: _disk(settings.checkpoint))
    kafka = yield from _examine_kafka(settings)
    for name, listen in ports.items():
        finding = _look(name, partial(_port, listen))
        if finding.verdict is Verdict.WRONG and kafka.has_coordinator:
            told = f"{finding.told}. The coordinator that runs may have it"
            finding = Finding(name, Verdict.NOTE, told)
        yield finding
    if missing := [each.subject for each in (java, jars) if each.verdict is not Verdict.OK]:
        yield Finding("checkpoint", Verdict.UNKNOWN, f"not looked at without {' and '.join(missing)}")
    else:
        yield from _examine_checkpoint(settings, kafka.topic_ids)


def _look(subject: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(subject, Verdict.OK, look())
    except (_Noted, TopicNote) as note:
        return Finding(subject, Verdict.NOTE, str(note))
    except (
        CheckpointError,
        CoordinatorError,
        JarError,
        JavaNotFound,
        SettingsError,
        TopicError,
        UnreachableError,
    ) as error:
        return Finding(subject, Verdict.WRONG, str(error))
    except KafkaError as error:
        return Finding(subject, Verdict.WRONG, f"Kafka says: {error}")
    except (PySparkException, Py4JJavaError) as error:
        return Finding(subject, Verdict.WRONG, f"Spark says: {first_line(error)}")


# -- this machine --------------------------------------------------------------------------------------


def _java() -> str:
    java = find_java()
    return f"Java {java_version(java)} at {java}"


def _pyspark() -> str:
    conf = SparkConf(loadDefaults=False).setAll(list(daemon_defaults().items()))
    if (why := why_not_short(conf)) is not None:
        raise _Noted(f"groups take pyspark's own Python worker, which holds a tenth as many: {why}")
    return f"pyspark {pyspark.__version__}, with the shorter Python worker"


def _jars() -> str:
    if not are_there("spark", "local"):
        raise _Noted(
            f"some are not in {cache_dir()}: `run` fetches them, "
            "or `python -m group_coordinator.deploy.jars` beforehand"
        )
    return f"all are in {cache_dir()}, and are the locked ones"


def _port(listen: Callable[[], object]) -> str:
    listen()
    return "it is free"


def _disk(checkpoint: str) -> str:
    path = local_path(checkpoint)
    if path is None:
        return f"{checkpoint} is not on this machine"
    path = path.absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not os.access(there, os.W_OK):
        raise CheckpointError(f"{there} cannot be written to: give it to this user, or choose another place")
    free = shutil.disk_usage(there).free
    line = f"{free // _MEGABYTE:,} MB are free at {there}"
    if free < _LEAST_FREE_BYTES:
        raise CheckpointError(f"{line}: a full disk stops the coordinator, so make room")
    return line


# -- Kafka -----------------------------------------------------------------------------------------------


def _examine_kafka(settings: CoordinatorSettings) -> Generator[Finding, None, _Kafka]:
    read = (settings.topics_requests, settings.topics_clock)
    # Which raises for settings that no client can follow.
    kafka = _look("kafka", lambda: _brokers(settings))
    yield kafka
    if kafka.verdict is not Verdict.OK:
        for subject in ("topics", "coordinator", "clocks"):
            yield Finding(subject, Verdict.UNKNOWN, "not looked at without kafka")
        return _Kafka({})
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    try:
        examined = examine_topics(settings, client_config)
    except (KafkaError, UnreachableError) as error:
        yield Finding("topics", Verdict.WRONG, f"Kafka says: {error}")
        return _Kafka({})
    for topic, told in examined.items():
        yield _look(f"topic {topic}", partial(_topic, told))
    coordinator = _look("coordinator", lambda: _coordinator(settings))
    yield coordinator
    there = read_topics(client_config, read)
    yield _look("clocks", lambda: _clocks(client_config, there))
    return _Kafka(ids_of(there), coordinator.verdict is Verdict.NOTE)


def _brokers(settings: CoordinatorSettings) -> str:
    with admin_client(python_client_config(settings.bootstrap_servers, settings.kafka)) as admin:
        cluster = admin.describe_cluster()
    brokers = len(cluster["brokers"])
    return f"cluster {cluster['cluster_id']}, {brokers} broker{'s' * (brokers > 1)}"


def _topic(told: str | TopicNote | TopicError) -> str:
    if isinstance(told, str):
        return told
    raise told


def _coordinator(settings: CoordinatorSettings) -> str:
    try:
        check_alone(msgspec.structs.replace(settings, standby=False))
    except CoordinatorError as error:
        raise _Noted(str(error)) from None
    return "none runs with these topics"


def _clocks(client_config: Mapping[str, Any], topics: Mapping[str, Topic]) -> str:
    """Compare the newest append times with this machine's clock: none can be of the future."""
    newest = []
    for name, topic in topics.items():
        ends = readable_ends(client_config, name, range(topic.partitions))
        begins = {partition: end - _LOOKED_BACK for partition, end in ends.items()}
        found = append_times(client_config, name, begins, ends)
        newest += [(max(times), name, partition) for partition, times in found.items() if times]
    if not newest:
        raise _Noted("there is no record yet whose time could be compared")
    at_ms, name, partition = max(newest)
    ahead_s = at_ms / 1000 - time.time()
    if ahead_s > _MOST_AHEAD_S:
        raise TopicError(
            f"partition {partition} of {name} has a record of {ahead_s:.1f} s in the future: "
            "set its leader's clock and this machine's by one time server"
        )
    return f"the newest record is {-ahead_s:.0f} s old, and none is of the future"


# -- Spark -----------------------------------------------------------------------------------------------


def _examine_checkpoint(settings: CoordinatorSettings, topic_ids: Mapping[str, str]) -> Iterator[Finding]:
    sessions: list[SparkSession] = []

    def start() -> str:
        sessions.append(create_session(settings, settings.checkpoint, defaults=session_defaults(settings)))
        return f"Spark {sessions[0].version} starts"

    spark = _look("spark", start)
    yield spark
    if spark.verdict is not Verdict.OK:
        yield Finding("checkpoint", Verdict.UNKNOWN, "not looked at without spark")
        return
    try:
        yield _look("checkpoint", lambda: _checkpoint(sessions[0], settings, topic_ids))
    finally:
        sessions[0].stop()


def _checkpoint(spark: SparkSession, settings: CoordinatorSettings, topic_ids: Mapping[str, str]) -> str:
    secret = settings.member_id_secret
    wanted = Identity(
        schema_version=SCHEMA_VERSION,
        request_topic=settings.topics_requests,
        clock_topic=settings.topics_clock,
        state_partitions=settings.state_partitions,
        # A new checkpoint would have one of its own.
        secret="" if secret else "new",
        secret_sha256=secret_sha256(secret),
        topic_ids=dict(topic_ids),
    )
    files = CheckpointFiles(spark, settings.checkpoint)
    if recognise(spark, files, wanted) is None:
        return f"{settings.checkpoint} is new: `run` begins there"
    done = newest_committed(files)
    batch = "no batch is done" if done is None else f"batch {done.batch_id} is done"
    room = room_of(settings.checkpoint)
    on_disk = "" if room is None else f" ({room.taken / _MEGABYTE:.1f} MB on the disk)"
    return f"{settings.checkpoint} is this coordinator's: {batch}, {files.size() / _MEGABYTE:.1f} MB{on_disk}"
