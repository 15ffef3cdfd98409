"""Asks a broker for what a sequence says, and what can be seen of the group after it."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient

from tests.conformance.consumer.sequence import TOPICS
from tests.conformance.consumer.told import group_in_short
from tests.conformance.consumer.topics import create_topic, delete_topic
from tests.conformance.wire import FETCH_VERSION, Answer, BrokerClient

if TYPE_CHECKING:
    from tests.conformance.consumer.topics import Topics
    from tests.conformance.game import Topic

DESCRIBE_VERSION = 1
HEARTBEAT_VERSION = 1
_NOTICE_TIMEOUT_S = 20
_BEAT_S = 0.01


class ConsumerClient(BrokerClient):
    """A client of a broker whose groups have the consumer protocol."""

    topics = TOPICS

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(bootstrap_servers)
        self._bootstrap_servers = bootstrap_servers

    async def tell(self, request: dict[str, Any]) -> Answer:
        """Send a request and return the answer."""
        question = await self.ask(request)
        answer = await question.answer()
        self.drop(question)
        return answer

    async def look_at(self, group_id: str, topics: Topics) -> dict[str, Any]:
        """Say what can be seen of a group."""
        with self._timed():
            described = await self._told(group_id, "consumer_group_describe", DESCRIBE_VERSION)
            fetched = await self._told(
                group_id, "offset_fetch", FETCH_VERSION, topics=None, require_stable=False
            )
        return group_in_short(described, fetched, topics)

    async def change_topic(self, api: str, name: str, topic: Topic | None, partitions: int) -> Topic | None:
        """Make a topic, or let the one that is there grow or go; return what there is then.

        It returns when the groups know it. They are told all at once, and each sees it in its next heartbeat.
        So one more group with the topic is asked until it has seen it.
        """
        observer = f"observer-{name}-{api}-{time.monotonic_ns()}"
        epoch = await self._join(observer, subscribed_topic_names=[name])
        changed = await asyncio.to_thread(self._change, api, name, topic, partitions)
        deadline = time.monotonic() + _NOTICE_TIMEOUT_S
        while True:
            beat = {"member_id": "0", "member_epoch": epoch}
            told = await self._told(observer, "consumer_group_heartbeat", HEARTBEAT_VERSION, **beat)
            assert told["error_code"] == 0, told
            if await self._group_epoch(observer) > epoch:
                return changed
            assert time.monotonic() < deadline, "the groups do not hear of the topic"
            await asyncio.sleep(_BEAT_S)

    async def await_patterns(self) -> None:
        """Return when the broker has resolved all patterns of heartbeats that it has answered.

        It resolves them one after another, in that order. So one more group with a pattern is asked until it
        has other topics.
        """
        observer = f"observer-patterns-{time.monotonic_ns()}"
        epoch = await self._join(observer, subscribed_topic_regex="|".join(TOPICS))
        deadline = time.monotonic() + _NOTICE_TIMEOUT_S
        while await self._group_epoch(observer) == epoch:
            assert time.monotonic() < deadline, "the broker does not resolve patterns"
            await asyncio.sleep(_BEAT_S)

    async def _join(self, group_id: str, **subscription: Any) -> int:
        """Let a group begin with one member, and return its epoch."""
        beat = {"member_id": "0", "member_epoch": 0, "rebalance_timeout_ms": 60_000, "topic_partitions": []}
        beat |= subscription
        joined = await self._told(group_id, "consumer_group_heartbeat", HEARTBEAT_VERSION, **beat)
        return int(joined["member_epoch"])

    async def _group_epoch(self, group_id: str) -> int:
        described = await self._told(group_id, "consumer_group_describe", DESCRIBE_VERSION)
        return int(described["group_epoch"])

    def _change(self, api: str, name: str, topic: Topic | None, partitions: int) -> Topic | None:
        with closing(KafkaAdminClient(bootstrap_servers=self._bootstrap_servers)) as admin:
            if topic is None:
                return create_topic(admin, name, partitions), partitions
            if api == "grow":
                topic_id, before = topic
                admin.create_partitions({name: before + partitions})
                return topic_id, before + partitions
            delete_topic(admin, name)
            return None
