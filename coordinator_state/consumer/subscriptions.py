"""The subscriptions of a group's members, each kept once.

Most members of a group name the same topics. So a member has the number of its subscription, and a heartbeat
need not read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["Subscriptions"]


class _Subscription(msgspec.Struct, array_like=True):
    """`members`: how many have it. `names`: sorted, each once. What patterns match will stand here, too."""

    members: int
    names: tuple[str, ...]


class _Stored(msgspec.Struct, array_like=True):
    next_number: int = 0
    subscriptions: dict[int, _Subscription] = {}


class Subscriptions:
    """The subscriptions of one group. `encoded`: what `encode` returned, or nothing."""

    def __init__(self, encoded: bytes = b"") -> None:
        stored = msgspec.msgpack.decode(encoded, type=_Stored) if encoded else _Stored()
        self._next_number, self._all = stored.next_number, dict(stored.subscriptions)
        self._numbers = {each.names: number for number, each in self._all.items()}
        self._names: dict[str, None] | None = None
        # Thousands of members may have the same one, with thousands of names.
        self._sizes: dict[int, int] = {}

    def encode(self) -> bytes:
        """The stored form."""
        return msgspec.msgpack.encode(_Stored(self._next_number, self._all))

    def names(self, number: int) -> tuple[str, ...]:
        """The topics of one, sorted."""
        return self._all[number].names

    def size(self, number: int) -> int:
        """Bytes of one in a picture."""
        if number not in self._sizes:
            self._sizes[number] = len(msgspec.json.encode(self._all[number].names))
        return self._sizes[number]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members name the same topics, which may be none (SubscriptionType)."""
        return len(self._all) <= 1

    def all_names(self) -> Collection[str]:
        """The topics that some member names, sorted."""
        if self._names is None:
            self._names = dict.fromkeys(sorted({name for each in self._all.values() for name in each.names}))
        return self._names

    def is_that_of(self, number: int, names: Iterable[str]) -> bool:
        """Whether a subscription has these topics, in any order."""
        return self._all[number].names == _sorted(names)

    def add(self, names: Iterable[str]) -> int:
        """Count one more member with these topics; the number of its subscription."""
        unique = _sorted(names)
        number = self._numbers.get(unique)
        if number is None:
            number = self._numbers[unique] = self._next_number
            self._next_number += 1
            self._all[number] = _Subscription(0, unique)
            self._names = None
        self._all[number].members += 1
        return number

    def drop(self, number: int) -> None:
        """Count one member less."""
        subscription = self._all[number]
        subscription.members -= 1
        if not subscription.members:
            del self._all[number], self._numbers[subscription.names]
            self._sizes.pop(number, None)
            self._names = None


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
