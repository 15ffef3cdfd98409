"""Consumers that look something up, also while a broker hangs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka import TopicPartition

__all__ = ["consumer_of"]

_TRIES = 10
_TRY_MS = 3_000


def consumer_of(
    client_config: Mapping[str, Any], partitions: Collection[TopicPartition]
) -> tuple[KafkaConsumer, dict[TopicPartition, int]]:
    """A consumer that knows the leaders of these partitions, and their first offsets. Raises `KafkaError`.

    kafka-python asks any broker for the leaders. It may ask one that hangs again and again, for 10 s each
    time. Another consumer may ask another broker.
    """
    tries = 0
    while True:
        tries += 1
        consumer = KafkaConsumer(**client_config, group_id=None, enable_auto_commit=False)
        try:
            return consumer, consumer.beginning_offsets(list(partitions), timeout_ms=_TRY_MS)
        except BaseException as error:
            consumer.close()
            if tries == _TRIES or not isinstance(error, KafkaTimeoutError):
                raise
