"""Ids of topics, which are texts in the contract and 16 bytes in Kafka's messages."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID


def topic_id_of(text: str | None) -> UUID | None:
    """Kafka's id of a topic; None for one that no broker knows.

    Units of work have none, and a client that writes to the log by itself may make one up.
    """
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None


def assignment(topics: Iterable[Any]) -> Any:
    """Partitions as Kafka's messages have them. Units of work, which have no id of Kafka's, are left out."""
    partitions = [
        SimpleNamespace(topic_id=topic_id, topic_name=each.name, partitions=each.partitions)
        for each in topics
        if (topic_id := topic_id_of(each.topic_id)) is not None
    ]
    return SimpleNamespace(topic_partitions=partitions)
