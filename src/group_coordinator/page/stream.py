"""Events of a group as they happen, as server-sent events (the HTML standard, section 9.2)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from group_coordinator.page.memory import Kept

_LOOK_S = 0.5
_SILENCE_S = 10.0
"""After so much silence a comment is sent: is somebody still there? It also keeps proxies from giving up."""
_AGAIN_MS = 2_000
MOST_STREAMS = 64
"""The server has places for as many, besides those for requests that end soon."""


class TooManyStreamsError(Exception):
    """So many are open that no other one is begun; the message says so."""


class _Stream:
    """Parts of a stream. The server closes it when the listener is gone."""

    def __init__(self, parts: Iterator[bytes], closed: Callable[[], None]) -> None:
        self._parts = parts
        self._closed: Callable[[], None] | None = closed

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._parts)

    def close(self) -> None:
        """End it; once is enough."""
        closed, self._closed = self._closed, None
        if closed is not None:
            closed()


class Streams:
    """Streams of events, `most` at once. Each has a thread of the server for as long as somebody listens."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._free = threading.Semaphore(most)
        self._stopping = threading.Event()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Streams go on while the context is open."""
        try:
            yield
        finally:
            self._stopping.set()

    def begin(self, kept: list[Kept], first: list[Kept], newest: Callable[[], list[Kept]]) -> _Stream:
        """A stream of `first`, and then of those that `newest` has and that are not in `kept`.

        Raises `TooManyStreamsError`.
        """
        if not self._free.acquire(blocking=False):
            raise TooManyStreamsError(f"{self._most} streams are open: ask again when one has ended")
        return _Stream(self._parts({each.event_id for each in kept}, first, newest), self._free.release)

    def _parts(self, known: set[str], first: list[Kept], newest: Callable[[], list[Kept]]) -> Iterator[bytes]:
        yield f"retry: {_AGAIN_MS}\n\n".encode()
        sent_at = time.monotonic()
        news = first
        while True:
            for each in news:
                yield _message(each)
            if news:
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at >= _SILENCE_S:
                yield b":\n\n"
                sent_at = time.monotonic()
            if self._stopping.wait(_LOOK_S):
                return
            kept = newest()
            news = [each for each in kept if each.event_id not in known]
            # Those that are no longer kept do not come again.
            known = {each.event_id for each in kept}


def _message(event: Kept) -> bytes:
    # One line: JSON has no others, unless somebody has written it by hand.
    body = b" ".join(event.body.splitlines())
    event_id = " ".join(event.event_id.split())
    return b"id: %b\ndata: %b\n\n" % (event_id.encode(), body)
