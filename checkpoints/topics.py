"""Kafka's description of the topics that a checkpoint is about.

A topic that is deleted and made again has the same name, and another id (KIP-516).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.admin import KafkaAdminClient

from group_coordinator.client.topic_ids import topic_id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Topic(NamedTuple):
    """A topic as it is now. `topic_id`: None if Kafka does not tell it; `partitions`: how many."""

    topic_id: str | None
    partitions: int


def read_topics(client_config: Mapping[str, Any], names: Iterable[str]) -> dict[str, Topic]:
    """The topics that exist, by name. Raises `KafkaError`."""
    admin = KafkaAdminClient(**client_config)
    try:
        described = admin.describe_topics(list(names))
    finally:
        admin.close()
    return topics_of(described)


def topics_of(described: Iterable[Mapping[str, Any]]) -> dict[str, Topic]:
    """The topics that exist, by name, as kafka-python's admin client has described them."""
    return {
        topic["name"]: Topic(topic_id_of(topic) or None, len(topic["partitions"]))
        for topic in described
        if topic["error_code"] == 0
    }


def read_topic_ids(client_config: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """The ids of topics by name, of those that Kafka tells. Raises `KafkaError`."""
    return ids_of(read_topics(client_config, names))


def ids_of(topics: Mapping[str, Topic]) -> dict[str, str]:
    """The ids of topics by name, of those that Kafka tells."""
    return {name: topic.topic_id for name, topic in topics.items() if topic.topic_id is not None}


def made_anew(known: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The topics whose ids by name are others now: name, id before, id now."""
    for topic, topic_id in now.items():
        before = known.get(topic, topic_id)
        if before != topic_id:
            yield topic, before, topic_id
