"""What a heartbeat costs in a group with many committed offsets, beside one without.

* `core`: one call of `step` with one heartbeat, as in `core.py`; no Spark.
* `query`: a batch of the real query with one heartbeat in each of some groups. Per group, what the stateful
  operator takes to read, update and write its state (Spark's figures `allUpdatesTimeMs`, `commitTimeMs`).

`ratio` is what the offsets make of it, in the same round. The last columns are a commit to one partition,
and an answer that lists all, in the core.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.load import Load, Request, call
from benchmarks.report import show, write
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import step
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.session import create_session
from group_coordinator.jobs.stopping import stop_after_batch
from group_coordinator.streaming.clock import Clock
from group_coordinator.streaming.counts import Counts, CountsParam
from group_coordinator.streaming.daemon import session_defaults
from group_coordinator.streaming.function import FunctionArguments
from group_coordinator.streaming.query import start_query
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.topic_specs import prepare_topics

SIZES = (0, 1_000, 10_000)
_TOPICS = 20
_RUN_S = 0.5
_PARTITION = 0
_SESSION_MS = 1_800_000
_JOIN = {
    "api": "join_group",
    "api_version": 3,  # a member at once, without a second request
    "session_timeout_ms": _SESSION_MS,
    "protocol_type": "connect",
    "protocols": [{"name": "p", "metadata": ""}],
}


def run(groups: int, rounds: int, file: Path | None) -> None:
    """Measure, print and write."""
    core = [_core_round() for _ in range(rounds)]
    query = _query_rounds(groups, rounds)
    median: dict[str, dict[int, float]] = {
        name: {size: statistics.median(each[size][name] for each in core) for size in SIZES}
        for name in ("heartbeat", "commit", "fetch")
    }
    median["query"] = {size: statistics.median(each[size] for each in query) for size in SIZES}

    def ratio(name: str, size: int) -> str:
        return f"{median[name][size] / median[name][0]:.2f}"

    show(
        f"A heartbeat in a group with offsets (medians of {rounds} rounds)",
        ["offsets", "core µs", "ratio", "query ms", "ratio", "commit µs", "fetch all µs"],
        [
            [
                f"{size:,}",
                f"{median['heartbeat'][size]:.1f}",
                ratio("heartbeat", size),
                f"{median['query'][size]:.2f}",
                ratio("query", size),
                f"{median['commit'][size]:.0f}",
                f"{median['fetch'][size]:.0f}",
            ]
            for size in SIZES
        ],
    )
    write(file, {"groups": groups, "medians": median, "core_us": core, "query_ms": query})


def _topics(size: int) -> list[dict[str, Any]]:
    return [
        {
            "name": f"topic-{topic}",
            "partitions": [
                {"partition_index": partition, "committed_offset": 1_000_000 + partition}
                for partition in range(size // _TOPICS)
            ],
        }
        for topic in range(_TOPICS)
    ]


# -- the core --------------------------------------------------------------------------------------------


def _core_round() -> dict[int, dict[str, float]]:
    """Microseconds of a call, by number of offsets."""
    return {size: _core(size) for size in SIZES}


def _core(size: int) -> dict[str, float]:
    config = GroupConfig(group_initial_rebalance_delay_ms=0)
    now = 1_732_000_000_000

    def call_with(state: bytes | None, api: str, **fields: Any) -> tuple[dict[str, Any], bytes | None]:
        record = record_of(api, **fields)
        result = step(b"g", state, [record], now, config, b"secret")
        return msgspec.json.decode(result.outputs[0].value or b""), result.state

    def record_of(api: str, **fields: Any) -> Record:
        head = {"api": api, "request_id": "r", "client_id": "bench", "group_id": "g"}
        return Record("requests", 0, 0, now, b"g", msgspec.json.encode(head | fields))

    joined, state = call_with(None, **_JOIN)
    ids = {"member_id": joined["member_id"], "generation_id": 1}
    _, state = call_with(state, "sync_group", **ids, protocol_type="connect", protocol_name="p")
    if size:
        answer, state = call_with(state, "offset_commit", **ids, topics=_topics(size))
        assert answer["error"] == "NONE"
    one = [{"name": "topic-0", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    records = {
        "heartbeat": record_of("heartbeat", **ids),
        "commit": record_of("offset_commit", **ids, topics=one),
        "fetch": record_of("offset_fetch"),
    }
    return {
        name: _microseconds(lambda record=record: step(b"g", state, [record], now, config, b"secret"))
        for name, record in records.items()
    }


def _microseconds(action: Callable[[], object]) -> float:
    action()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < _RUN_S:
        action()
        count += 1
    return (time.perf_counter() - begin) / count * 1e6


# -- the query -------------------------------------------------------------------------------------------


def _query_rounds(groups: int, rounds: int) -> list[dict[int, float]]:
    """Milliseconds of the stateful operator per group, by number of offsets, in each round."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="group-coordinator-")))
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka"))
        values = {
            "bootstrap.servers": broker.bootstrap_servers,
            "create.topics": True,
            "checkpoint": str(directory / "c"),
            "group.initial.rebalance.delay.ms": 0,
        }
        settings = CoordinatorSettings.load(None, {}, values)
        client_config = python_client_config(broker.bootstrap_servers, {})
        partitions = prepare_topics(settings, client_config)
        spark = create_session(settings, settings.checkpoint, defaults=session_defaults(settings))
        stack.callback(spark.stop)
        counts = spark.sparkContext.accumulator(Counts(), CountsParam())
        arguments = FunctionArguments.of(settings, b"secret", partitions)
        stack.enter_context(
            Clock(settings.topics_clock, Pace.of(settings), client_config, "benchmark")
        ).resume()
        query = start_query(spark, settings, arguments, counts.add)
        stack.callback(stop_after_batch, spark, query, 20)
        load = Load(broker.bootstrap_servers, settings.topics_requests, settings.topics_responses, _PARTITION)
        members = {size: _members(load, size, groups) for size in SIZES}
        for size in SIZES:
            call(load, members[size])  # once for the JVM
        figures = []
        for _ in range(rounds):
            figures.append({})
            for size in SIZES:
                before = query.lastProgress["batchId"]
                call(load, members[size])
                figures[-1][size] = _operator_ms(query, before, groups)
        return figures


def _members(load: Load, size: int, groups: int) -> list[Request]:
    """Make groups with one member and `size` offsets each; their heartbeats."""
    names = [f"{size}-{number}" for number in range(groups)]
    joined = [json.loads(each) for each in call(load, [_request(name, **_JOIN) for name in names])]
    ids = [{"member_id": each["member_id"], "generation_id": 1} for each in joined]
    protocol = {"protocol_type": "connect", "protocol_name": "p"}
    todo = [("sync_group", protocol)] + ([("offset_commit", {"topics": _topics(size)})] if size else [])
    for api, fields in todo:
        requests = [_request(name, api=api, **its, **fields) for name, its in zip(names, ids, strict=True)]
        assert {json.loads(each)["error"] for each in call(load, requests)} == {"NONE"}
    return [_request(name, api="heartbeat", **its) for name, its in zip(names, ids, strict=True)]


def _request(group_id: str, **fields: Any) -> Request:
    request_id = f"{fields['api']}-{group_id}"
    head = {"request_id": request_id, "client_id": "bench", "group_id": group_id}
    value = json.dumps(head | {"reply_partition": _PARTITION} | fields).encode()
    return Request(request_id, group_id.encode(), value)


def _operator_ms(query: Any, after: int, groups: int) -> float:
    """What the operator took for each of `groups` groups, in the batches after batch `after`."""
    deadline = time.monotonic() + 60
    while True:
        batches = [each for each in query.recentProgress if each["batchId"] > after]
        operators = [operator for batch in batches for operator in batch["stateOperators"]]
        if sum(each["numRowsUpdated"] for each in operators) >= groups:
            busy = [each for each in operators if each["numRowsUpdated"]]
            return sum(each["allUpdatesTimeMs"] + each["commitTimeMs"] for each in busy) / groups
        if time.monotonic() > deadline:
            raise TimeoutError("the batch is not over")
        time.sleep(0.1)
