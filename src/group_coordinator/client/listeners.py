"""Listeners of rebalances."""

from __future__ import annotations

import inspect
from typing import Any, Protocol


class RebalanceListener(Protocol):
    """The calls that a program gets; kafka-python's ConsumerRebalanceListener has the same.

    Called by the thread that calls `poll` or `close`. Every `on_partitions_assigned` is followed by exactly
    one of the others, with the same units. In the consumer protocol that holds for each unit alone, because
    only differences are told. `on_partitions_lost` is optional; without it the units are reported as revoked.
    """

    def on_partitions_assigned(self, assigned: frozenset[Any]) -> None:
        """`assigned` is this member's, and nobody else's."""

    def on_partitions_revoked(self, revoked: frozenset[Any]) -> None:
        """`revoked` is still this member's until this returns: save what has to be saved."""


def check_listener(listener: RebalanceListener | None) -> None:
    """TypeError if `listener` could not be called."""
    if inspect.iscoroutinefunction(getattr(listener, "on_partitions_assigned", None)):
        raise TypeError("asynchronous listeners are not supported: there is no event loop to run them")


def tell_gone(listener: RebalanceListener | None, gone: frozenset[Any], *, lost: bool) -> None:
    """Say that `gone` is revoked, or lost already, to a listener that may not have a word for the latter."""
    if listener is None:
        return
    revoked = listener.on_partitions_revoked
    tell = getattr(listener, "on_partitions_lost", revoked) if lost else revoked
    tell(gone)
