"""Kafka's messages for its error codes, one line each."""

from __future__ import annotations

from kafka.errors import (
    InvalidCommitOffsetSizeError,
    KafkaError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

# Where kafka-python's descriptions are for developers: the texts of Errors.java of Apache Kafka 4.2.
_MESSAGES: dict[type[KafkaError], str] = {
    InvalidCommitOffsetSizeError: "The committing offset data size is not valid.",
    OffsetMetadataTooLargeError: "The metadata field of the offset request was too large.",
    RebalanceInProgressError: "The group is rebalancing, so a rejoin is needed.",
    UnknownMemberIdError: "The coordinator is not aware of this member.",
    UnknownTopicOrPartitionError: "This server does not host this topic-partition.",
}


def message_of(error: KafkaError | type[KafkaError]) -> str:
    """The message of an error, without kafka-python's name and number for it."""
    if isinstance(error, KafkaError) and error.args:
        return str(error.args[0])
    kind = error if isinstance(error, type) else type(error)
    return _MESSAGES.get(kind) or getattr(kind, "description", None) or kind.__name__
