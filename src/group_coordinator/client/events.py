"""The events of groups as they happen, read from the coordinator's topic (`docs/contract.md`, Events)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Any

from kafka import KafkaConsumer
from kafka.errors import OffsetOutOfRangeError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.client.channel import WITHOUT_GROUP, MissingTopicError, check_settings, settings_of
from group_coordinator.client.closing import Closing
from group_coordinator.client.since import has_read_to, offsets_since
from group_coordinator.client.tokens import check_token
from group_coordinator.coordinator_state.foreign import MOST_MS, ForeignJson
from group_coordinator.coordinator_state.topics import EVENTS

_REMEMBERED = 100_000
"""Ids of the newest events. After a crash the coordinator repeats those of a batch at most."""
_SETTINGS = WITHOUT_GROUP | {"auto_offset_reset": "earliest"}


class EventReader(Closing):
    """Reads events, each once, those of a group in their order.

        with EventReader(bootstrap_servers="localhost:9092") as events:
            while True:
                for event in events.poll(timeout_ms=1000):
                    print(event["group_id"], event["event"])

    An event is a dict as docs/contract.md has it. Kinds and fields may be added, so leave out what you do not
    know.

    Args:
        since_ms: the log time of the first event, in ms since 1970; None: from now on.
        begins: instead of a time, the offset to begin from in each partition, by its number; in others all.
        groups: ids of the groups whose events are wanted; none: of all.
        events_topic: the coordinator's topic.
        kafka_config: kafka-python's settings.

    Raises MissingTopicError, ValueError for a setting that kafka-python does not have, or a KafkaError:
    OffsetOutOfRangeError if there are no such offsets (any more).
    """

    def __init__(
        self,
        *,
        since_ms: int | None = None,
        begins: Mapping[int, int] | None = None,
        groups: Collection[str] = (),
        events_topic: str = EVENTS,
        **kafka_config: Any,
    ) -> None:
        check_settings(kafka_config)
        check_token(kafka_config)
        self._groups = frozenset(groups)
        self._newest: OrderedDict[str, None] = OrderedDict()
        with ExitStack() as on_error:
            self._consumer = KafkaConsumer(**settings_of(KafkaConsumer, kafka_config) | _SETTINGS)
            on_error.callback(self._consumer.close)
            numbers = self._consumer.partitions_for_topic(events_topic)
            if not numbers:
                raise MissingTopicError(events_topic)
            partitions = [TopicPartition(events_topic, number) for number in sorted(numbers)]
            self._consumer.assign(partitions)
            self._ends = ends_of(self._consumer, partitions)
            places = self._ends
            if begins is not None:
                places = self._checked(begins)
            elif since_ms is not None:
                places = offsets_since(self._consumer, self._ends, since_ms)
            for partition, begin in places.items():
                self._consumer.seek(partition, begin)
            on_error.pop_all()

    def _checked(self, begins: Mapping[int, int]) -> dict[TopicPartition, int]:
        firsts = begins_of(self._consumer, list(self._ends))
        places = {each: begins.get(each.partition, firsts[each]) for each in firsts}
        for each, place in places.items():
            if not firsts[each] <= place <= self._ends[each]:
                raise OffsetOutOfRangeError(
                    f"{each.topic}-{each.partition} has offsets {firsts[each]} to {self._ends[each]}, "
                    f"and {place} is not among them"
                )
        return places

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close(autocommit=False)

    @property
    def has_caught_up(self) -> bool:
        """Whether all has been read that there was at first."""
        return has_read_to(self._consumer, self._ends)

    def poll(self, timeout_ms: int) -> list[dict[str, Any]]:
        """Wait for events, up to `timeout_ms`; returns some, in the order of their times.

        A record that is none is left out. Raises a KafkaError.
        """
        return [event for _, event in self.poll_placed(timeout_ms)]

    def poll_placed(self, timeout_ms: int) -> list[tuple[int, dict[str, Any]]]:
        """Do what `poll` does, and return each event with its offset in its partition."""
        records = [each for part in self._consumer.poll(timeout_ms=timeout_ms).values() for each in part]
        read = ((each.offset, self._read(each.value)) for each in records)
        events = [(offset, event) for offset, event in read if event is not None]
        # Those of a group are in one partition, in their order, and this keeps it.
        return sorted(events, key=lambda placed: placed[1]["at_ms"])

    def _read(self, value: bytes | None) -> dict[str, Any] | None:
        event = _events.read_or_none(value)
        if event is None or any(not isinstance(event.get(name), kind) for name, kind in _KNOWN.items()):
            return None
        if not 0 <= event["at_ms"] <= MOST_MS:
            return None
        if event["event_id"] in self._newest or (self._groups and event["group_id"] not in self._groups):
            return None
        self._newest[event["event_id"]] = None
        if len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)
        return event


_events = ForeignJson[dict[str, Any]](dict[str, Any])
_KNOWN = {"event_id": str, "event": str, "group_id": str, "at_ms": int}
"""The fields that each event has."""
