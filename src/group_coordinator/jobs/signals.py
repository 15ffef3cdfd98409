"""Signals that tell a process to stop."""

from __future__ import annotations

import queue
import signal
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_LOOK_S = 0.5


class StopEvent:
    """A `threading.Event` that a signal handler may set while the main thread waits for it.

    A handler runs in the main thread, between any two of its instructions. Inside of `Event.wait` that thread
    holds the lock that `Event.set` needs: it would wait for itself, forever.
    """

    def __init__(self) -> None:
        self._is_set = False
        # Its `put` may interrupt a `get` of the same thread.
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        """Whether it is time to stop."""
        return self._is_set

    def set(self) -> None:
        """Make it so, for good."""
        self._is_set = True
        self._wake.put(None)

    def wait(self, timeout_s: float = float("inf")) -> bool:
        """Wait until it is set or `timeout_s` seconds have passed; return whether it is set.

        Only one thread may wait.
        """
        deadline = time.monotonic() + timeout_s
        while not self._is_set and (left_s := deadline - time.monotonic()) > 0:
            # Not in one piece: what another thread gets is handled only once this one is awake.
            with suppress(queue.Empty):
                self._wake.get(timeout=min(left_s, _LOOK_S))
        return self._is_set


def stop_event(*numbers: signal.Signals) -> StopEvent:
    """Return an event that these signals set from now on. Must be called in the main thread."""
    event = StopEvent()

    def set_event(_number: int, _frame: FrameType | None) -> None:
        event.set()

    for number in numbers:
        signal.signal(number, set_event)
    return event


@contextmanager
def exiting_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit, with 128 + its number, while the context is open.

    This is for the time in which a process starts. Without a handler the signal ends Python at once, and what
    it has started stays behind. As process 1 of a container Python would not even notice the signal. Must be
    entered in the main thread.
    """
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
