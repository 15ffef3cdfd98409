"""Places in a topic, in words: `earliest`, `latest`, a time, or an offset for each partition as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.client.since import offsets_since
from group_coordinator.coordinator_state.foreign import ForeignJson

if TYPE_CHECKING:
    from collections.abc import Mapping


def offsets_at(client_config: Mapping[str, Any], topic: str, place: str) -> dict[int, int]:
    """The offset of each partition of a topic that there is, by number.

    A time (ISO 8601; UTC without a zone) is where the first record is that is not older. Raises
    `CheckpointError` for what is no place in the topic, and `KafkaError`.
    """
    consumer = KafkaConsumer(**client_config, group_id=None, enable_auto_commit=False)
    try:
        numbers = consumer.partitions_for_topic(topic) or ()
        partitions = [TopicPartition(topic, number) for number in sorted(numbers)]
        if place == "earliest":
            offsets = begins_of(consumer, partitions)
        elif place == "latest":
            offsets = ends_of(consumer, partitions)
        elif place.startswith("{"):
            offsets = _given(place, partitions)
        else:
            offsets = offsets_since(consumer, ends_of(consumer, partitions), parse_time(place))
        return {each.partition: offset for each, offset in offsets.items()}
    finally:
        consumer.close()


def parse_time(text: str) -> int:
    """A time in ISO 8601, in ms since the epoch. Raises `CheckpointError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CheckpointError(
            f'{text!r} is neither earliest nor latest, a time such as 2026-01-31T12:00:00, nor {{"0": 123}}'
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _given(place: str, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    offsets = ForeignJson[dict[int, int]](dict[int, int]).read_or_none(place) or {}
    if offsets.keys() != {each.partition for each in partitions} or min(offsets.values()) < 0:
        raise CheckpointError(
            f"{place} is not an offset for each of the {len(partitions)} partitions of "
            f"{partitions[0].topic}, as JSON"
        )
    return {each: offsets[each.partition] for each in partitions}
