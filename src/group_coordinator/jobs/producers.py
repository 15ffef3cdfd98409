"""Closing a producer of kafka-python, also while Kafka does not take what it has sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from kafka import KafkaProducer

_CLOSE_S = 2


def close_producer(producer: KafkaProducer, *, patiently: bool = False) -> None:
    """Close it, at once or (`patiently`) with two seconds for what it has sent."""
    try:
        producer.close(timeout=_CLOSE_S if patiently else 0)
    except KafkaTimeoutError:
        # While a record cannot be written kafka-python 3.0.12 does not close; without its thread it does.
        producer._sender.force_close()  # noqa: SLF001
        producer.close(timeout=_CLOSE_S)
