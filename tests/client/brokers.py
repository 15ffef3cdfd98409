"""The connections of a kafka-python client, to brokers in memory that say where logs begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition

__all__ = ["Brokers"]

Log = tuple[int, int]
_UNKNOWN_TOPIC = 3


class _HangsError(Exception):
    """A broker does not answer."""


class _Topic(SimpleNamespace):
    def to_dict(self) -> dict[str, Any]:
        return vars(self)


class Brokers:
    """`logs`: where each partition begins and ends. `since`: the first offset that is not older, or -1.

    Without it, records have the timestamps 1000, 1001, ...

    `leaders`: 1 for a partition that is not named, -1 for none. `failing`: the error of each broker that
    answers nothing, or None for one that hangs. `codes`: the error code of topics, or of partitions. The id
    of a topic is the length of its name.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log] | Callable[[], Mapping[TopicPartition, Log]],
        since: Callable[[TopicPartition, int], int] | None = None,
    ) -> None:
        self._logs, self._since = logs, since
        self.leaders: dict[TopicPartition, int] = {}
        self.failing: dict[int, KafkaError | None] = {}
        self.codes: dict[str | TopicPartition, int] = {}
        self.nodes = [1, 2]
        self.asked: list[tuple[str, int]] = []
        """The kind of each request and the broker that it was sent to."""
        self.updates = 0
        self.now_s = 0.0
        """A clock that goes on while somebody waits for brokers."""
        self.isolation_levels: set[int] = set()
        self.cluster = SimpleNamespace(
            brokers=lambda: [SimpleNamespace(node_id=each) for each in self.nodes],
            request_update=self._update,
        )
        self._net = SimpleNamespace(sleep=self._sleep)
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens between two attempts."""

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        return self._logs() if callable(self._logs) else self._logs

    def _update(self) -> None:
        self.updates += 1

    async def _sleep(self, seconds: float) -> None:
        self.meanwhile()
        self.now_s += seconds

    def least_loaded_node(self) -> int:
        return self.nodes[-1]

    def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        return asyncio.run(function(*arguments))

    def call_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        return asyncio.ensure_future(function(*arguments))

    async def wait_for(self, future: Any, timeout_ms: float) -> Any:
        try:
            return await future
        except _HangsError:
            self.now_s += timeout_ms / 1_000
            raise KafkaTimeoutError from None

    async def send(self, request: Any, node_id: int) -> Any:
        self.asked.append((type(request).__name__, node_id))
        if node_id in self.failing:
            raise self.failing[node_id] or _HangsError
        if isinstance(request, MetadataRequest):
            return SimpleNamespace(topics=self._topics([each.name for each in request.topics]))
        self.isolation_levels.add(request.isolation_level)
        return SimpleNamespace(
            topics=[
                SimpleNamespace(
                    name=topic.name,
                    partitions=[
                        self._told(TopicPartition(topic.name, each.partition_index), each.timestamp)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _topics(self, names: Collection[str]) -> list[_Topic]:
        known = {each.topic for each in self.logs}
        return [
            _Topic(
                name=name,
                topic_id=UUID(int=0 if name in self.codes else len(name)),
                error_code=self.codes.get(name, 0 if name in known else _UNKNOWN_TOPIC),
                partitions=[
                    SimpleNamespace(partition_index=each.partition, leader_id=self.leaders.get(each, 1))
                    for each in self.logs
                    if each.topic == name and name not in self.codes
                ],
            )
            for name in names
        ]

    def _told(self, partition: TopicPartition, spec: int) -> SimpleNamespace:
        begin, end = self.logs[partition]
        if spec < 0:
            found = {-1: end, -2: begin}[spec]
        elif self._since is not None:
            found = self._since(partition, spec)
        else:
            found = max(begin, spec - 1000) if spec - 1000 < end else -1
        code = self.codes.get(partition, 0)
        return SimpleNamespace(
            partition_index=partition.partition,
            error_code=code,
            offset=-1 if code else found,
            timestamp=-1,
            leader_epoch=0,
        )
