"""The work that the event loop does for one client, and the time that it takes.

    work.do(go)        `go` is called now
    work.in_turn(go)   `go` is called now, or in a later turn if this one is over
    work.look()        the time since the last look is counted, within `go`

The time is the guest's, and that of the turn (`turns.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.gateway.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.parties import Guest
    from group_coordinator.gateway.turns import Turns

__all__ = ["Work"]


class Work:
    """The work for `guest`."""

    __slots__ = ("_guest", "_since_s", "_turns")

    def __init__(self, turns: Turns, guest: Guest) -> None:
        self._turns, self._guest = turns, guest
        self._since_s: float | None = None
        """Since when there is work; None while there is none."""

    def do(self, go: Callable[[], None]) -> None:
        """Call `go`, perhaps within other work."""
        is_inner = self._since_s is not None
        if not is_inner:
            self._since_s = self._turns.clock()
        try:
            go()
        finally:
            self.look()
            if not is_inner:
                self._since_s = None

    def in_turn(self, go: Callable[[], None]) -> None:
        """Call `go` at once, or in a later turn if this one is over."""
        self.look()
        if self._turns.are_free:
            self.do(go)
        else:
            # An answer may take more than to read a small request, and nobody knows how much.
            self._turns.wait(self._guest, Limits.late_bytes, lambda: self.do(go))

    def look(self) -> None:
        """Count the time since the last look, unless it is next to nothing."""
        if self._since_s is not None:
            now_s = self._turns.clock()
            seconds = now_s - self._since_s
            if seconds >= Limits.least_s:
                self._since_s = now_s
                self._turns.took(seconds)
                self._guest.took(seconds, now_s)
