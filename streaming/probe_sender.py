"""Sends probes, so that a partition that takes nothing does not hold up the others.

Those for the partitions of one broker go there in one request. The broker answers the requests of one
connection in their order, and a request for several partitions when it knows of all of them. So a partition
that takes nothing would hold up the others. The broker is to wait for half a second only. After that it says
which were written. A second producer asks a partition that was not from then on. Brokers may take as long for
its requests as is of use, because the partition may be slow and nothing worse.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer
from kafka.net.compat import KafkaNetClient

from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.jobs.producers import close_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

WRITE_MS = 500
"""The time that a broker has to write a probe. Longer would hold up others, and time with them."""
_RECONNECT_MS = 1_000
_LINGER_MS = 5
"""For the probes of one moment. They are sent one after the other."""


class ProbeSender:
    """Has two producers for the partitions of a topic, once they are needed.

    `patience_ms`: the time that a broker has to write a probe to a partition that is slow.
    """

    def __init__(self, topic: str, client_config: Mapping[str, Any], patience_ms: int) -> None:
        self._topic = topic
        self._patience_ms = patience_ms
        self._config = {
            **client_config,
            "acks": "all",
            "linger_ms": _LINGER_MS,
            # Twice is as good as once, and the next one is new.
            "enable_idempotence": False,
            "retries": 0,
            "reconnect_backoff_max_ms": _RECONNECT_MS,
            "bootstrap_timeout_ms": patience_ms,
            "max_block_ms": patience_ms,
            # Which includes that of waiting for a connection.
            "delivery_timeout_ms": 2 * patience_ms,
        }
        self._producers: dict[int, KafkaProducer] = {}
        """By the time that a broker has to write what they send."""

    def send(self, partition: int, *, is_slow: bool) -> Any:
        """Send one; return kafka-python's future. It may wait for Kafka. Raises `KafkaError`."""
        producer = self._producer(self._patience_ms if is_slow else WRITE_MS)
        return producer.send(self._topic, PROBE, partition=partition)

    def close(self) -> None:
        """Close the producers."""
        for producer in self._producers.values():
            close_producer(producer)

    def _producer(self, write_ms: int) -> KafkaProducer:
        if write_ms not in self._producers:
            with ExitStack() as stack:

                def client(**config: Any) -> KafkaNetClient:
                    # A connection is closed later than that, or the answer would never come.
                    config["request_timeout_ms"] = write_ms + self._patience_ms
                    # Which kafka-python 3.0.12 leaves open if Kafka is not found.
                    return stack.enter_context(closing(KafkaNetClient(**config)))

                self._producers[write_ms] = KafkaProducer(
                    **self._config, request_timeout_ms=write_ms, kafka_client=client
                )
                stack.pop_all()
        return self._producers[write_ms]
