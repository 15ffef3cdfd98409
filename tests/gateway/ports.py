"""Ports in a row, as a gateway takes them: its own, and one for each broker."""

from __future__ import annotations

import os

from group_coordinator.deploy.broker import is_free

# Below those that the system gives to connections: they come and go all the time.
_PLACES = range(20_000, 32_000, 10)
_APART = 97
"""Places between those of two processes that were started one after the other."""


def ports_in_a_row(count: int) -> int:
    """Return the first of so many ports that are free. Each process begins to look at a place of its own."""
    begin = os.getpid() * _APART % len(_PLACES)
    for port in (*_PLACES[begin:], *_PLACES[:begin]):
        if all(is_free(port + number) for number in range(count)):
            return port
    raise AssertionError(f"there are no {count} free ports in a row")
