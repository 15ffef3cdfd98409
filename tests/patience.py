"""How tests wait for what is to come."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 240
"""Seconds. Only what never comes takes that long: a busy machine is ten times as slow as a quiet one."""

_LOOK_EVERY_S = 0.02


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(_LOOK_EVERY_S)
