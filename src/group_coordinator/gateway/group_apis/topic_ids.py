"""Ids of topics, which are texts in the contract and 16 bytes in Kafka's messages."""

from __future__ import annotations

from uuid import UUID

__all__ = ["topic_id_of"]


def topic_id_of(text: str | None) -> UUID | None:
    """Kafka's id of a topic; None for one that no broker knows.

    Units of work have none, and a client that writes to the log by itself may make one up.
    """
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None
