"""The stand-in for a coordinator: its core, without Spark. It ticks, but for groups time stands still."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import msgspec
from kafka import KafkaConsumer, KafkaProducer

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel, step

_POLL_MS = 50
_TICK_S = 1.0


@contextmanager
def answering(
    bootstrap_servers: str, topics: Mapping[str, str], states: Mapping[str, bytes], now_ms: int
) -> Iterator[None]:
    """Answer requests about groups in these states while the context is open; it is `now_ms` all the time."""
    stopping = threading.Event()
    thread = threading.Thread(
        target=_answer, args=(bootstrap_servers, topics, dict(states), now_ms, stopping)
    )
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _answer(
    servers: str,
    topics: Mapping[str, str],
    states: dict[str, bytes | None],
    now_ms: int,
    stopping: threading.Event,
) -> None:
    config = {"bootstrap_servers": servers, "group_id": None, "auto_offset_reset": "earliest"}
    with (
        closing(KafkaConsumer(topics["topics.requests"], **config, enable_auto_commit=False)) as consumer,
        closing(KafkaProducer(bootstrap_servers=servers)) as producer,
    ):
        ticks, ticked_at = 0, time.monotonic()
        while not stopping.is_set():
            if ticks == 0 or time.monotonic() - ticked_at >= _TICK_S:
                ticks, ticked_at = ticks + 1, time.monotonic()
                tick = msgspec.json.encode({"tick": ticks, "coordinator": "stand-in"})
                producer.send(topics["topics.clock"], tick, partition=0)
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                for each in records:
                    group_id = each.key.decode()
                    record = Record(each.topic, each.partition, each.offset, now_ms, each.key, each.value)
                    result = step(each.key, states.get(group_id), [record], now_ms, GroupConfig(), b"secret")
                    states[group_id] = result.state
                    for output in result.outputs:
                        if output.channel is Channel.RESPONSES:
                            producer.send(
                                topics["topics.responses"],
                                output.value,
                                output.key,
                                partition=output.partition,
                            )
            producer.flush()
