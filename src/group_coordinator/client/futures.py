"""Waiting for kafka-python's futures, which can be awaited but not waited for."""

from __future__ import annotations

import threading

from kafka.future import Future


def wait_for(future: Future, timeout_ms: int | None = None) -> bool:
    """Wait until `future` has ended; False if that takes longer than `timeout_ms`."""
    if future.is_done:
        return True
    ended = threading.Event()
    future.add_both(lambda _: ended.set())
    return ended.wait(None if timeout_ms is None else timeout_ms / 1000)
