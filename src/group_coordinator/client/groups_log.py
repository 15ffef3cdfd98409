"""The list of groups, read from the compacted topic in which the coordinator keeps a picture of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from kafka import KafkaConsumer
from kafka.structs import TopicPartition

from group_coordinator.client.ask_offsets import begins_of, ends_of
from group_coordinator.client.channel import WITHOUT_GROUP, settings_of
from group_coordinator.client.foreign import Records
from group_coordinator.client.since import records_to
from group_coordinator.coordinator_state.newest import Newest
from group_coordinator.coordinator_state.responses import KnownPattern


@dataclass(frozen=True)
class GroupListing:
    """A group as a list shows it. `group_state` is spelled as Kafka spells it ("Stable").

    `protocol_type` is "" for a group that has had no members yet, but offsets. `group_type`: the protocol
    that its members speak, "classic" or "consumer" (KIP-848).
    """

    group_id: str
    group_state: str
    protocol_type: str
    group_type: str = "classic"


def unique(group_ids: Collection[str]) -> list[str]:
    """The ids that somebody asks about, each once."""
    # A str is also a collection of str, but of one name's letters.
    return [group_ids] if isinstance(group_ids, str) else list(dict.fromkeys(group_ids))


def chosen(
    groups: Iterable[GroupListing],
    states_filter: Collection[str] | None,
    types_filter: Collection[str] | None,
) -> list[GroupListing]:
    """The groups in these states and of these types (in any case of letters).

    Without states they are those in all of them; types likewise.
    """
    states = {state.replace("_", "").lower() for state in states_filter or ()}
    types = {each.lower() for each in types_filter or ()}
    return [
        group
        for group in groups
        if (not states or group.group_state.lower() in states)
        and (not types or group.group_type.lower() in types)
    ]


class Picture(msgspec.Struct):
    """A `GroupPicture` without its members, which are most of its bytes, and without the topics."""

    group_id: str
    state: str
    protocol_type: str | None
    group_type: str = "classic"
    metadata_version: int = 0
    patterns: tuple[KnownPattern, ...] = ()


_pictures = Records[Picture](Picture, "picture of a group")


def read_groups(
    topic: str, partitions: int, kafka_config: Mapping[str, Any], timeout_ms: int
) -> list[GroupListing]:
    """Read the topic from its beginning to where it ends now; sorted by group id.

    A record that is no picture is skipped with a warning: what was known of its group before holds. Raises
    KafkaTimeoutError if nothing can be read for `timeout_ms`.
    """
    consumer = KafkaConsumer(
        **settings_of(KafkaConsumer, kafka_config) | WITHOUT_GROUP | {"auto_offset_reset": "earliest"}
    )
    try:
        ends = _ends(consumer, topic, partitions)
        newest, groups = Newest(), dict[bytes, GroupListing]()
        for record in records_to(consumer, ends, timeout_ms):
            if newest.take(record.key, record.headers):
                _take(groups, record)
        return sorted(groups.values(), key=lambda group: group.group_id)
    finally:
        consumer.close(autocommit=False)


def _ends(consumer: KafkaConsumer, topic: str, partitions: int) -> dict[TopicPartition, int]:
    """Assign the partitions that hold something; where each of them ends."""
    every = [TopicPartition(topic, number) for number in range(partitions)]
    begins, ends = begins_of(consumer, every), ends_of(consumer, every)
    filled = {partition: ends[partition] for partition in every if begins[partition] < ends[partition]}
    consumer.assign(list(filled))
    for partition in filled:
        consumer.seek(partition, begins[partition])
    return filled


def _take(groups: dict[bytes, GroupListing], record: Any) -> None:
    if record.value is None:
        groups.pop(record.key, None)
        return
    if (listing := read_listing(record)) is not None:
        groups[record.key] = listing


def read_listing(record: Any) -> GroupListing | None:
    """Read the picture of a group; None if the record has none."""
    picture = read_picture(record)
    if picture is None:
        return None
    return GroupListing(picture.group_id, picture.state, picture.protocol_type or "", picture.group_type)


def read_picture(record: Any) -> Picture | None:
    """Read the picture of a group as far as its members are not of interest; None if the record has none."""
    return _pictures.read(record)
