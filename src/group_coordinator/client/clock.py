"""The clock of the client."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The time in ms. It never goes back, unlike the time of day: the client only measures distances."""
    return time.monotonic_ns() // 1_000_000
