"""Consumers that look something up, also while a broker hangs."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient

from group_coordinator.client.ask_offsets import begins_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka import TopicPartition

_TRIES = 10
_TRY_MS = 3_000
_ASKS_AGAIN_MS = 20


class _SoonReady(KafkaNetClient):  # type: ignore[misc]
    """A client that asks for a topic right after it has asked for the brokers.

    kafka-python waits 100 ms between the two. That is the `retry_backoff_ms` of the cluster's metadata, and
    version 3.0.12 does not pass on to it what it is given.
    """

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.cluster.config["retry_backoff_ms"] = _ASKS_AGAIN_MS


SOON: Mapping[str, Any] = MappingProxyType({"kafka_client": _SoonReady})
"""Settings of kafka-python's for a client whose begin somebody waits for."""


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
        consumer = KafkaConsumer(**client_config, **SOON, group_id=None, enable_auto_commit=False)
        try:
            return consumer, begins_of(consumer, partitions, _TRY_MS)
        except BaseException as error:
            consumer.close()
            if tries == _TRIES or not isinstance(error, KafkaTimeoutError):
                raise
