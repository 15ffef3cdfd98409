"""Brokers that answer a watch, as far as they know: one may lag behind, or not answer at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from kafka.protocol.metadata import MetadataResponse

from group_coordinator.coordinator_state.responses import KnownTopic
from group_coordinator.jobs.topic_answers import topics_in
from group_coordinator.streaming.watching.watch import Due, Record, Watch

NONE, UNKNOWN, NO_LEADER, UNSEEN = 0, 3, 5, 29

_Topic = MetadataResponse.MetadataResponseTopic
_Broker = MetadataResponse.MetadataResponseBroker


def topic_id(number: int) -> str:
    return str(UUID(int=number))


def answer(
    topics: Iterable[tuple[str, int, int, int]], version: int = 12, controller: int = 1, replicas: int = 3
) -> bytes:
    """A broker's answer without its header: name, error code, number of the id, and partitions."""
    partition = _Topic.MetadataResponsePartition
    lists: dict[str, Any] = {
        "replica_nodes": list(range(replicas)),
        "isr_nodes": list(range(replicas)),
        "offline_replicas": [],
    }
    response = MetadataResponse(
        throttle_time_ms=0,
        brokers=[_Broker(node_id=each, host=f"host{each}", port=9092, rack=None) for each in range(3)],
        cluster_id="cluster",
        controller_id=controller,
        error_code=0,
        topics=[
            _Topic(
                error_code=error,
                name=name,
                topic_id=UUID(int=number),
                is_internal=False,
                partitions=[
                    partition(error_code=0, partition_index=each, leader_id=1, leader_epoch=0, **lists)
                    for each in range(partitions)
                ],
            )
            for name, error, number, partitions in topics
        ],
    )
    return bytes(response.encode(version=version))


class Cluster:
    """One broker, or several that know the same. `topics`: error code, number of the id, and partitions."""

    def __init__(self, **topics: tuple[int, int, int]) -> None:
        self.topics = topics
        self.asked: list[list[str]] = []

    def answer(self, names: Iterable[str]) -> bytes:
        found = [(name, *self.topics.get(name, (UNKNOWN, 0, 0))) for name in names]
        return topics_in(answer(found))


def known(name: str, number: int = 0, partitions: int = 0) -> KnownTopic:
    """A topic in a picture. Without a number it has no id."""
    return KnownTopic(name=name, topic_id=topic_id(number) if number else None, partitions=partitions)


class Watching:
    """A watch and its time, which goes on by a tenth of a second."""

    def __init__(self, cluster: Cluster, watch: Watch | None = None) -> None:
        self.cluster = cluster
        self.watch = Watch(interval_s=5, most_bytes=10_000) if watch is None else watch
        self.now_s = 1_000.0
        self.watch.begin(self.now_s)
        self.is_away = False
        self.rounds: list[float] = []

    def step(self) -> list[Record]:
        due: Due = self.watch.due(self.now_s)
        if due.begins_round:
            self.rounds.append(self.now_s)
        for part in due.parts:
            self.cluster.asked.append(list(part.names))
            if self.is_away:
                self.watch.missed(part)
            else:
                self.watch.told(part, self.cluster.answer(part.names))
        self.now_s = round(self.now_s + 0.1, 1)
        return due.records

    def go_on(self, seconds: float) -> list[Record]:
        """Let time pass; returns all records."""
        records = []
        for _ in range(round(seconds * 10)):
            records += self.step()
        return records
