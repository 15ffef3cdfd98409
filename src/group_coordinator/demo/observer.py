"""Looks at one group from outside: reads what the coordinator or `observe` publishes, as any program can."""

from __future__ import annotations

import threading
from typing import Any, Self

import msgspec
from kafka import KafkaConsumer
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from group_coordinator.client.since import partitions_there
from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.coordinator_state.topics import EVENTS, GROUPS

__all__ = ["Observer", "partitions_in"]

_POLL_MS = 100


class Observer:
    """Follows a topic of pictures and one of events from the beginning, while the context is open."""

    def __init__(
        self, bootstrap_servers: str, group_id: str, groups_topic: str = GROUPS, events_topic: str = EVENTS
    ) -> None:
        self._group_id, self._groups_topic, self._events_topic = group_id, groups_topic, events_topic
        self._lock = threading.Lock()
        self._events: dict[str, AnyEvent] = {}
        self._newest = Newest()
        self._picture: GroupPicture | None = None
        self._failure: Exception | None = None
        self._closing = False
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap_servers, group_id=None, auto_offset_reset="earliest"
        )
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._thread.join()
        self._consumer.close()

    @property
    def picture(self) -> GroupPicture | None:
        """The newest picture of the group, None before there is one."""
        with self._lock:
            self._check()
            return self._picture

    @property
    def events(self) -> list[AnyEvent]:
        """All events of the group so far, each once: the coordinator may repeat some after a crash."""
        with self._lock:
            self._check()
            return list(self._events.values())

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._consumer.assign(
                [
                    partition
                    for topic in (self._groups_topic, self._events_topic)
                    for partition in partitions_there(self._consumer, topic)
                ]
            )
            while not self._closing:
                for records in self._consumer.poll(timeout_ms=_POLL_MS).values():
                    for record in records:
                        self._take(record)
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody looks
            with self._lock:
                self._failure = error

    def _take(self, record: Any) -> None:
        if record.key != self._group_id.encode():
            return
        with self._lock:
            if record.topic == self._groups_topic:
                if not self._newest.take(record.key, record.headers):
                    return
                self._picture = _pictures.decode(record.value) if record.value else None
            else:
                event = _events.decode(record.value)
                self._events.setdefault(event.event_id, event)


_pictures = msgspec.json.Decoder(GroupPicture)
_events: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def partitions_in(assignment: bytes) -> frozenset[int]:
    """Partitions of the one topic in a ConsumerProtocolAssignment; none if it is empty."""
    if not assignment:
        return frozenset()
    return frozenset(each.partition for each in ConsumerProtocolAssignment.decode(assignment).partitions())
