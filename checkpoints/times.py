"""The append times of records, read without Spark."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafka import TopicPartition

from group_coordinator.client.ask_offsets import ends_of
from group_coordinator.coordinator_state.log import is_probe
from group_coordinator.jobs.lookups import consumer_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def append_times(
    client_config: Mapping[str, Any], topic: str, begins: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, list[int]]:
    """The append times of a topic's records from `begins` to before `ends`, by partition.

    Records that are gone are left out, and so are probes: nothing is decided about them. Raises `KafkaError`.
    """
    partitions = {TopicPartition(topic, it): end for it, end in ends.items()}
    times: defaultdict[int, list[int]] = defaultdict(list)
    consumer, first = consumer_of(client_config, partitions)
    try:
        unread = {each: end for each, end in partitions.items() if first[each] < end}
        consumer.assign(list(unread))
        for partition in unread:
            consumer.seek(partition, max(first[partition], begins[partition.partition]))
        # The last offsets may be markers of transactions, which are no records.
        while unread := {each: end for each, end in unread.items() if consumer.position(each) < end}:
            consumer.pause(*(consumer.assignment() - unread.keys()))
            for partition, records in consumer.poll(timeout_ms=100).items():
                end = partitions[partition]
                times[partition.partition] += [
                    it.timestamp for it in records if it.offset < end and not is_probe(it.key, it.value)
                ]
    finally:
        consumer.close()
    return times


def readable_ends(
    client_config: Mapping[str, Any], topic: str, partitions: Collection[int]
) -> dict[int, int]:
    """The offsets of a topic's partitions up to which all records can be read. Raises `KafkaError`."""
    consumer, begins = consumer_of(client_config, [TopicPartition(topic, it) for it in partitions])
    try:
        ends = ends_of(consumer, begins)
    finally:
        consumer.close()
    return {partition.partition: end for partition, end in ends.items()}
