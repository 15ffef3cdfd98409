"""The producer: numbered orders at a steady pace, from a thread of its own."""

from __future__ import annotations

import json
import threading
from typing import Self

from kafka import KafkaProducer

__all__ = ["Orders"]

_CUSTOMERS = 100


class Orders:
    """Writes orders to `topic` while the context is open, keyed by customer."""

    def __init__(self, bootstrap_servers: str, topic: str, per_second: float) -> None:
        self._topic = topic
        self._interval_s = 1 / per_second
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
        self._lock = threading.Lock()
        self._written: list[int] = []
        self._sent = 0
        self._failure: BaseException | None = None
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
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return list(self._written)

    def stop(self) -> None:
        """Write no more, and return when everything sent is acknowledged (or has failed)."""
        self._stopping.set()
        self._thread.join()
        self._producer.close(timeout=10)

    def _run(self) -> None:
        try:
            self._send_all()
        except Exception as error:  # noqa: BLE001 - it is raised again where somebody looks
            self._failed(error)

    def _send_all(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._sent += 1
            number = self._sent
            key = f"customer-{number % _CUSTOMERS}".encode()
            future = self._producer.send(self._topic, key=key, value=json.dumps({"order": number}).encode())
            future.add_callback(lambda _, number=number: self._acknowledged(number))
            future.add_errback(self._failed)

    def _acknowledged(self, number: int) -> None:
        with self._lock:
            self._written.append(number)

    def _failed(self, error: BaseException) -> None:
        with self._lock:
            self._failure = self._failure or error
