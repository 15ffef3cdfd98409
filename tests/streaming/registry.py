"""What a registry of metrics has, and waiting for it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from kafka.admin import KafkaAdminClient

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_numbers = itertools.count(1)


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """All samples by name and label values, without creation times."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def create_topic(bootstrap_servers: str, partitions: int, **configs: str) -> str:
    topic = f"metrics{next(_numbers)}"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
    admin.wait_for_topics([topic])
    admin.close()
    return topic
