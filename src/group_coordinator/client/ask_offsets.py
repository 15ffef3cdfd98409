"""One way to ask the brokers where logs begin and end, and what is at a time.

kafka-python raises a KeyError for a partition without a leader, or tells the same of it as of one without
records. One broker that hangs keeps it from telling what the others have said, for half a minute.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import OffsetSpec
from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownBrokerIdError,
    for_code,
)
from kafka.protocol.consumer import IsolationLevel, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import OffsetAndTimestamp, TopicPartition

from group_coordinator.coordinator_state.naming import some_of

_PATIENCE_MS = 10_000
_TRY_MS = 2_000
"""How long one broker is waited for that is asked for leaders, before another one is."""
_AGAIN_S = 0.1
_MOST_NAMED = 3

Specs = Mapping[TopicPartition, int]
"""kafka-python's OffsetSpec, or a time in ms, for each partition."""
Found = dict[TopicPartition, OffsetAndTimestamp]
Client: TypeAlias = KafkaConsumer | KafkaAdminClient


class UnansweredError(KafkaTimeoutError):  # type: ignore[misc]
    """No broker has told of these partitions in time. The message is one line."""

    def __init__(self, partitions: Collection[TopicPartition], timeout_ms: float) -> None:
        self.partitions = frozenset(partitions)
        named = some_of(sorted(partitions), _MOST_NAMED, lambda each: f"{each.topic}-{each.partition}")
        super().__init__(f"no leader has told of {named} within {timeout_ms / 1_000:g} s")


def ask_offsets(
    client: Client, specs: Specs, timeout_ms: float = _PATIENCE_MS, isolation_level: str | None = None
) -> Found:
    """Ask for offsets, and return those that are there.

    Partitions without a leader are left out, and so are those of a topic that is not there or that this
    program may not see. Leaders that do not answer are waited for until the timeout. A time after all records
    has offset -1. `isolation_level`: None for the client's.

    Raises a KafkaError, `UnansweredError` if no broker says who leads.
    """
    level = isolation_level or client.config.get("isolation_level", "read_uncommitted")
    return _asked(client, specs, timeout_ms, level, is_complete=False)


def offsets_of(client: Client, specs: Specs, timeout_ms: float | None = None) -> dict[TopicPartition, int]:
    """Ask for the offsets of all these partitions, which are waited for.

    `timeout_ms`: None for the client's `request_timeout_ms`. Raises `UnansweredError`, or another KafkaError.
    """
    patience_ms = client.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
    level = client.config.get("isolation_level", "read_uncommitted")
    found = _asked(client, specs, patience_ms, level, is_complete=True)
    return {each: found[each].offset for each in specs}


def begins_of(
    client: Client, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
) -> dict[TopicPartition, int]:
    """The first offset of each partition. See `offsets_of`."""
    return offsets_of(client, dict.fromkeys(partitions, OffsetSpec.EARLIEST), timeout_ms)


def ends_of(
    client: Client, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
) -> dict[TopicPartition, int]:
    """The offset after the last of each partition. See `offsets_of`."""
    return offsets_of(client, dict.fromkeys(partitions, OffsetSpec.LATEST), timeout_ms)


def leaders_of(
    client: Client, topics: Collection[str], timeout_ms: float = _PATIENCE_MS
) -> dict[TopicPartition, int]:
    """The node id of the leader of each partition that has one. Raises a KafkaError."""
    # There are no public names for the requests of a client.
    manager = client._manager  # noqa: SLF001
    leaders: dict[TopicPartition, int] = manager.run(_leaders, manager, topics, Deadline(timeout_ms))
    return leaders


def topics_of(
    client: Client, topics: Collection[str], timeout_ms: float = _PATIENCE_MS
) -> list[dict[str, Any]]:
    """Describe topics, which are not empty, as kafka-python's admin client does. Raises a KafkaError."""
    manager = client._manager  # noqa: SLF001
    described = manager.run(_topics, manager, topics, Deadline(timeout_ms))
    return [each.to_dict() for each in described]


def _asked(client: Client, specs: Specs, timeout_ms: float, level: str, *, is_complete: bool) -> Found:
    if not specs:
        return {}
    isolation = IsolationLevel.build_from(level)
    question = _Question(client._manager, isolation, Deadline(timeout_ms), is_complete)  # noqa: SLF001
    found: Found = client._manager.run(question.ask, dict(specs))  # noqa: SLF001
    return found


class Deadline:
    """A wait that begins now, and ends."""

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._end_s = time.monotonic() + timeout_ms / 1_000

    @property
    def left_ms(self) -> float:
        """The rest of the wait."""
        return max(0.0, self._end_s - time.monotonic()) * 1_000


class _Question:
    """Asks in the thread of a client's connections, all leaders at once."""

    def __init__(
        self,
        manager: Any,
        isolation: IsolationLevel,
        deadline: Deadline,
        is_complete: bool,  # noqa: FBT001
    ) -> None:
        self._manager, self._isolation, self._deadline = manager, isolation, deadline
        self._is_complete = is_complete

    async def ask(self, specs: dict[TopicPartition, int]) -> Found:
        found: Found = {}
        left = dict(specs)
        while True:
            try:
                again = await self._round(left, found)
            except UnansweredError:
                # Nobody says who leads. A broker that comes back will.
                again = left
                if not self._deadline.left_ms and not self._is_complete:
                    raise
            left = {each: spec for each, spec in left.items() if each not in found}
            if not left or not (again or self._is_complete):
                return found
            if not self._deadline.left_ms:
                if self._is_complete:
                    raise UnansweredError(left, self._deadline.timeout_ms)
                return found
            await self._manager._net.sleep(_AGAIN_S)  # noqa: SLF001

    async def _round(self, left: Specs, found: Found) -> Collection[TopicPartition]:
        """Ask once, and return the partitions that another leader may answer for."""
        topics = {each.topic for each in left}
        leaders = await _leaders(self._manager, topics, self._deadline, may_raise=self._is_complete)
        by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for each in left.keys() & leaders.keys():
            by_leader[leaders[each]][each] = left[each]
        answers = [
            self._manager.call_soon(send_to, self._manager, leader, _request(specs, self._isolation))
            for leader, specs in by_leader.items()
        ]
        again: set[TopicPartition] = set()
        for specs, answer in zip(by_leader.values(), answers, strict=True):
            try:
                response = await self._manager.wait_for(answer, self._deadline.left_ms)
            except KafkaError as error:
                raise_if_final(error)
                self._manager.cluster.request_update()
                again |= specs.keys()
                continue
            for partition, told in _told(response):
                code = for_code(told.error_code)
                if code is NoError:
                    found[partition] = OffsetAndTimestamp(told.offset, told.timestamp, told.leader_epoch)
                elif code is TopicAuthorizationFailedError:
                    self._refused({partition.topic})
                elif code.retriable:
                    again.add(partition)
                else:
                    raise code(f"{partition.topic}-{partition.partition}: {code.description}")
        return again

    def _refused(self, topics: set[str]) -> None:
        if self._is_complete:
            raise TopicAuthorizationFailedError(topics)


async def _leaders(
    manager: Any, topics: Collection[str], deadline: Deadline, *, may_raise: bool = False
) -> dict[TopicPartition, int]:
    """Ask who leads. `may_raise`: an error for a topic that may not be seen."""
    described = await _topics(manager, topics, deadline)
    refused = {each.name for each in described if each.error_code == TopicAuthorizationFailedError.errno}
    if refused and may_raise:
        raise TopicAuthorizationFailedError(refused)
    return {
        TopicPartition(topic.name, each.partition_index): each.leader_id
        for topic in described
        for each in topic.partitions
        if each.leader_id >= 0
    }


async def _topics(manager: Any, topics: Collection[str], deadline: Deadline) -> Any:
    """Ask one broker after the other for topics."""
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics)],
        allow_auto_topic_creation=False,
    )
    first = manager.least_loaded_node()
    nodes = sorted((each.node_id for each in manager.cluster.brokers()), key=lambda each: each != first)
    for node in nodes:
        try:
            answer = manager.call_soon(send_to, manager, node, request)
            response = await manager.wait_for(answer, min(_TRY_MS, deadline.left_ms))
        except KafkaError as error:
            raise_if_final(error)
            continue
        return response.topics
    raise UnansweredError([TopicPartition(each, 0) for each in topics], deadline.timeout_ms)


async def send_to(manager: Any, node: int, request: Any) -> Any:
    """Send a request, and wait for the response."""
    # kafka-python raises at once what else the answer would raise.
    return await manager.send(request, node_id=node)


def raise_if_final(error: KafkaError) -> None:
    """Raise an error that the next attempt would meet as well."""
    # A broker that is not known yet is after the next update.
    if not (error.retriable or isinstance(error, UnknownBrokerIdError)):
        raise error


def _request(specs: Specs, isolation: IsolationLevel) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.ListOffsetsTopic
    by_topic: defaultdict[str, list[Any]] = defaultdict(list)
    for each, spec in specs.items():
        by_topic[each.topic].append(
            kind.ListOffsetsPartition(
                partition_index=each.partition, current_leader_epoch=-1, timestamp=int(spec)
            )
        )
    return ListOffsetsRequest(
        isolation_level=isolation.value,
        topics=[kind(name=topic, partitions=of_topic) for topic, of_topic in by_topic.items()],
        min_version=max(
            1,
            ListOffsetsRequest.min_version_for_isolation_level(isolation.value),
            *(ListOffsetsRequest.min_version_for_timestamp(spec) for spec in set(specs.values()) if spec < 0),
        ),
    )


def _told(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        for each in topic.partitions:
            yield TopicPartition(topic.name, each.partition_index), each
