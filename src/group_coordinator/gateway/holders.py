"""A client's requests that hold back what comes after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.gateway.slots import LocalSlot

if TYPE_CHECKING:
    from collections.abc import Callable


class Holders(set[object]):
    """Requests, and other things, that later requests of the client have to wait for.

    `on_free` is called when the last one has ended.
    """

    __slots__ = ("_on_free",)

    def __init__(self, on_free: Callable[[], None]) -> None:
        super().__init__()
        self._on_free = on_free

    def end(self, holder: object) -> None:
        """Let nothing wait for this one any more."""
        if holder in self:
            self.discard(holder)
            if not self:
                self._on_free()

    @property
    def slot(self) -> LocalSlot | None:
        """The response among them; None if there is none."""
        return next((each for each in self if isinstance(each, LocalSlot)), None)
