"""What was compared with Kafka is what comes out of Spark.

The logs of some records, with the times at which the broker got each request, go through the real query.
What it answers has to be what the broker has answered. So far only the core had been asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, step
from group_coordinator.streaming import query
from group_coordinator.streaming.function import FunctionArguments, StatefulFunction
from tests.conformance.classic.game import ClassicGame, topic_of
from tests.conformance.classic.scripted import SCRIPTS
from tests.conformance.classic.setups import SETUPS
from tests.conformance.core import SECRET
from tests.conformance.recorded import read_records, replay
from tests.patience import wait_for
from tests.streaming import harness as streaming
from tests.streaming.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.conformance.game import Result
    from tests.conformance.setups import Setup

pytestmark = pytest.mark.spark

# Of how many sequences one is played. It takes a partition of its own, because its member ids tell offsets.
# Left out are those in which groups and offsets go at once: the moment is the broker's own.
EACH = {"plain": 8, "tight": 4}
_FOREVER_MS = 2**60

Answers = dict[tuple[str, str], dict[str, Any]]


@pytest.mark.parametrize("name", EACH)
def test_spark_answers_as_kafka_does(
    spark: SparkSession,
    bootstrap_servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    if name == "tight":
        monkeypatch.setattr(query, "StatefulFunction", pysparks_way)
    records = [
        record
        for record in read_records(ClassicGame).values()
        if record.name in SCRIPTS and record.mark.setup == name and not record.mark.nameless
    ]
    results = [
        replay(ClassicGame, record, group_id=record.name, partition=number)
        for number, record in enumerate(records[:: EACH[name]])
    ]
    setup = SETUPS[name]
    logs = [result.log for result in results if result.verdict == "same" and is_repeatable(result, setup)]
    expected = answers_of(results)
    # A choice that is Kafka's alone is not repeated by the core; but that is seldom.
    assert len(logs) > 0.8 * len(results)

    with Harness(spark, bootstrap_servers, tmp_path, **settings(name, len(results) + 1)) as harness:
        write_as_they_were(harness, bootstrap_servers, logs)
        harness.start()
        wanted = {key: answer for key, answer in expected.items() if key[0] in groups_of(logs)}
        harness.responses.until(lambda values: len(values) >= len(wanted))
        assert harness.stop()
        harness.responses.poll()
        told = harness.responses.values()

    assert wanted == {(answer["group_id"], answer["request_id"]): answer for answer in told}
    assert len(told) == len(wanted), "each is answered once"
    assert len(wanted) > 3 * len(logs)


def pysparks_way(arguments: FunctionArguments, count: Any) -> Callable[..., Any]:
    """A function of another kind than the worker knows, for which it does not take the short way."""
    function = StatefulFunction(arguments, count)

    def call(key: Any, frames: Any, state: Any) -> Any:
        yield from function(key, frames, state)

    return call


def settings(name: str, partitions: int) -> dict[str, object]:
    assert streaming.SECRET == SECRET, "member ids are made of it"
    config = SETUPS[name].core
    return {
        "topics_requests": topic_of(name),
        "requests_partitions": partitions,
        "group_min_session_timeout_ms": config.group_min_session_timeout_ms,
        "group_max_session_timeout_ms": config.group_max_session_timeout_ms,
        "group_initial_rebalance_delay_ms": config.group_initial_rebalance_delay_ms,
        "group_max_size": config.group_max_size,
        "offset_metadata_max_bytes": config.offset_metadata_max_bytes,
        "offsets_retention_minutes": config.offsets_retention_minutes,
        "offsets_retention_check_interval_ms": config.offsets_retention_check_interval_ms,
    }


def is_repeatable(result: Result, setup: Setup) -> bool:
    """Whether the core alone, without what Kafka left to chance, answers the log as the broker did."""
    key = result.log[0].key
    outputs = step(key, None, result.log, _FOREVER_MS, setup.core, SECRET).outputs
    told = [json.loads(it.value or b"") for it in outputs if it.channel is Channel.RESPONSES]
    return {(it["group_id"], it["request_id"]): it for it in told} == answers_of([result])


def answers_of(results: list[Result]) -> Answers:
    """The answers as JSON has them, by group and request."""
    return {
        ((result.log[0].key or b"").decode(), request_id): msgspec.to_builtins(answer)
        for result in results
        for request_id, answer in result.answers.items()
    }


def groups_of(logs: list[list[Record]]) -> set[str]:
    return {(log[0].key or b"").decode() for log in logs}


def write_as_they_were(harness: Harness, bootstrap_servers: str, logs: list[list[Record]]) -> None:
    """Write the records to their places with their times, which the topic must then leave alone."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    configs = {"message.timestamp.type": "CreateTime", "retention.ms": "-1"}
    topic = harness.settings.topics_requests
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=configs)])
    admin.close()
    # The broker takes its time to follow. (The records that see whether it has lie apart, and are rejected.)
    spare = harness.settings.requests_partitions - 1
    probe = {"value": b"no request", "partition": spare, "timestamp_ms": 1}
    wait_for(lambda: harness.producer.send(topic, **probe).get().timestamp == 1)
    for record in (record for log in logs for record in log):
        harness.producer.send(
            topic,
            key=record.key,
            value=record.value,
            partition=record.partition,
            timestamp_ms=record.timestamp_ms,
        )
    harness.producer.flush()
