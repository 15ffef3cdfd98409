"""Topics with Kafka's ids (KIP-516), as kafka-python's admin client describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka.errors import (
    InvalidTopicError,
    NoError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from group_coordinator.coordinator_state.offsets.still_there import Found

_UNKNOWN = "00000000-0000-0000-0000-000000000000"
"""The id that a broker older than 2.8 gives."""


def topic_id_of(described: Mapping[str, Any]) -> str:
    """The id of a topic as kafka-python's admin client has described it; empty if Kafka does not tell it."""
    topic_id = str(described.get("topic_id", _UNKNOWN))
    return "" if topic_id == _UNKNOWN else topic_id


def found_in(described: Iterable[Mapping[str, Any]]) -> dict[str, Found]:
    """Topics as kafka-python's admin client has described them, without those that Kafka cannot tell of."""
    found = {}
    for each in described:
        error = for_code(each["error_code"])
        if error is NoError:
            found[each["name"]] = Found(len(each["partitions"]), topic_id_of(each))
        elif error in (UnknownTopicOrPartitionError, InvalidTopicError):
            found[each["name"]] = Found(0)
        elif error is TopicAuthorizationFailedError:
            found[each["name"]] = Found(None)
    return found
