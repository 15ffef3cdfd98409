"""Something that is done again and again beside a test."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def repeating(do: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Do something from a thread while the context is open, with a pause before each time."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.wait(pause_s):
            do()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
