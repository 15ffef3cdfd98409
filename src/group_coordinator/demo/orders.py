"""The producer: numbered orders at a steady pace, from a thread of its own."""

from __future__ import annotations

import json
import threading
from typing import Self

from kafka import KafkaProducer
from kafka.producer.future import FutureRecordMetadata

_CUSTOMERS = 100


class Orders:
    """Writes orders to `topic` while the context is open, keyed by customer."""

    def __init__(self, bootstrap_servers: str, topic: str, per_second: float) -> None:
        self._topic = topic
        self._interval_s = 1 / per_second
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
        self._sent: list[FutureRecordMetadata] = []
        self._failure: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def written(self) -> list[int]:
        """Numbers of the orders that Kafka has acknowledged. Raises what has made one fail."""
        sent = list(self._sent)
        failures = [self._failure, *(each.exception for each in sent if each.failed())]
        for error in filter(None, failures):
            raise error
        return [number for number, each in enumerate(sent, 1) if each.succeeded()]

    def stop(self) -> None:
        """Write no more, and return when everything sent is acknowledged (or has failed)."""
        self._stopping.set()
        self._thread.join()
        self._producer.close(timeout=10)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._interval_s):
                number = len(self._sent) + 1
                key, value = f"customer-{number % _CUSTOMERS}", json.dumps({"order": number})
                self._sent.append(self._producer.send(self._topic, key=key.encode(), value=value.encode()))
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody looks
            self._failure = error
