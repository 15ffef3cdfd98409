"""The clock: small records at a steady pace, because without them the watermark, and so time, stops.

What a tick says does not matter; the time that counts is the one the broker appends it at. A coordinator
that is down makes no ticks, and so expires nobody.
"""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Clock"]

_log = logging.getLogger(__name__)


class Clock:
    """Writes ticks to a topic from a thread of its own while the context is open."""

    def __init__(self, topic: str, interval_ms: int, client_config: Mapping[str, Any]) -> None:
        self._topic = topic
        self._interval_s = interval_ms / 1000
        self._stopping = threading.Event()
        self._producer = KafkaProducer(**client_config, acks="all", linger_ms=0)
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.close(timeout=5)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._interval_s):
            number += 1
            # kafka-python retries by itself; ticks that are late are worth no less, only the newest counts.
            try:
                sent = self._producer.send(self._topic, json.dumps({"tick": number}).encode())
            except KafkaError as error:
                _warn(error)
            else:
                sent.add_errback(_warn)


def _warn(error: BaseException) -> None:
    _log.warning("a clock tick was not written; while none is, no session expires: %s", error)
