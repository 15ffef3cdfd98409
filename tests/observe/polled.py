"""A consumer that a program polls."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any


class Polled:
    """A program that polls its consumer, and commits, in a thread of its own until it leaves."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._stopping = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._consumer.poll(100)
        self._consumer.close()

    def leave(self) -> None:
        """Leave the group in order."""
        self._stopping.set()
        self._thread.join()
