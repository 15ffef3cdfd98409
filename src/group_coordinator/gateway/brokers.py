"""The brokers by their newest list, and which of them could be reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from group_coordinator.gateway.addresses import Address

_SHUNNED_S = 30.0
"""How long a broker that could not be connected to is not named as a coordinator."""


class Brokers:
    """The brokers by node id. Time is an argument, in seconds of a clock that does not go back."""

    def __init__(self) -> None:
        self._addresses: dict[int, Address] = {}
        """Their own, also of those that are away just now: clients may still be connected to their ports."""
        self._present: set[int] = set()
        self._unreachable_s: dict[int, float] = {}
        """When a connection last failed, of those to which none has been made since."""
        self._left_out: set[int] = set()
        self.reachable: tuple[int, ...] = ()
        """Node ids of those that clients can be sent to, sorted."""

    @property
    def present(self) -> list[int]:
        """Node ids of all brokers."""
        return list(self._present)

    @property
    def left_out(self) -> int:
        """The number of brokers that clients are not told of, because they have no port."""
        return len(self._left_out & self._present)

    def knows(self, node_id: int) -> bool:
        """Whether there is such a broker, or has been."""
        return node_id in self._addresses

    def address(self, node_id: int) -> Address:
        """The address of this broker."""
        return self._addresses[node_id]

    def is_at(self, node_id: int, address: Address) -> bool:
        """Whether the newest list has this broker at this address."""
        return node_id in self._present and self._addresses[node_id] == address

    def replace(self, found: Mapping[int, Address], now_s: float) -> None:
        """Take the whole list as it is now. An empty one is no list: a broker that starts may give it."""
        if found:
            self._addresses |= found
            self._present = set(found)
            self.settle(now_s)

    def offer(self, node_id: int, now_s: float, *, is_offered: bool) -> None:
        """Note whether there is a port that stands for this broker."""
        (self._left_out.discard if is_offered else self._left_out.add)(node_id)
        self.settle(now_s)

    def connected(self, node_id: int, now_s: float, *, is_connected: bool) -> None:
        """Note whether this broker could be connected to."""
        if is_connected and node_id not in self._unreachable_s:
            return
        if is_connected:
            del self._unreachable_s[node_id]
        else:
            self._unreachable_s[node_id] = now_s
        self.settle(now_s)

    def settle(self, now_s: float) -> None:
        """Choose the brokers that clients can be sent to: all of them, if none can be reached."""
        shunned = {each for each, at_s in self._unreachable_s.items() if at_s + _SHUNNED_S > now_s}
        offered = self._present - self._left_out
        self.reachable = tuple(sorted(offered - shunned or offered))
