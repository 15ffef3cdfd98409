"""Looks at one group from outside: reads what the coordinator or `observe` publishes, as any program can."""

from __future__ import annotations

from typing import Any, Self

import msgspec
from kafka import KafkaConsumer
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from group_coordinator.client.since import partitions_there
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.coordinator_state.topics import EVENTS, GROUPS

_POLL_MS = 20


class Observer:
    """Follows a topic of pictures and one of events from the beginning: each look reads what is new."""

    def __init__(
        self, bootstrap_servers: str, group_id: str, groups_topic: str = GROUPS, events_topic: str = EVENTS
    ) -> None:
        self._group_id, self._groups_topic, self._events_topic = group_id, groups_topic, events_topic
        self._events: dict[str, AnyEvent] = {}
        self._newest = Newest()
        self.picture: GroupPicture | None = None
        """The newest picture of the group, None before there is one."""
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest"
        )

    def __enter__(self) -> Self:
        topics = self._groups_topic, self._events_topic
        self._consumer.assign([each for topic in topics for each in partitions_there(self._consumer, topic)])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    @property
    def events(self) -> list[AnyEvent]:
        """All events of the group so far, each once: the coordinator may repeat some after a crash."""
        return list(self._events.values())

    def look(self) -> None:
        """Read what is new. Raises a KafkaError."""
        for records in self._consumer.poll(timeout_ms=_POLL_MS).values():
            for record in records:
                self._take(record)

    def _take(self, record: Any) -> None:
        if record.key != self._group_id.encode():
            return
        if record.topic == self._events_topic:
            event = _events.decode(record.value)
            self._events.setdefault(event.event_id, event)
        elif self._newest.take(record.key, record.headers):
            self.picture = _pictures.decode(record.value) if record.value else None


_pictures = msgspec.json.Decoder(GroupPicture)
_events: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def partitions_in(assignment: bytes) -> frozenset[int]:
    """Partitions of the one topic in a ConsumerProtocolAssignment; none if it is empty."""
    if not assignment:
        return frozenset()
    return frozenset(each.partition for each in ConsumerProtocolAssignment.decode(assignment).partitions())
