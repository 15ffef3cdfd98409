"""The one rule for all readers of `coordinator.groups` and `coordinator.offsets`: never go back.

A coordinator that another one has replaced may still be writing its last batch. Its records can come after
those of the other one. So each record, a tombstone as well, has a header that says from which place of the
log it is. A reader never goes back to an earlier place. Places of one key can be compared, and no others.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PLACE_BITS = 21
"""Two million changes in a millisecond. Until the year 2109 a place has 63 bits, which a state can hold."""
_LATEST_PLACE = 1 << 62

_PLACE = "place"
"""The header's name. Its value is a decimal number."""
_KEYS = 200_000
"""A record that comes late is of a batch, and its key has changed lately. By default a batch has so many
requests, most of which change one key. A batch of commits of many partitions changes more. Then a reader can
go back in those that it has forgotten, until the coordinator has written their newest records again."""


def next_place(now_ms: int, before: int) -> int:
    """The place of a change at `now_ms`, of a key whose change before was from the place `before`.

    Log time, or one more than the place before: a backlog of an outage is all of one time.
    """
    return max(min(now_ms << PLACE_BITS, _LATEST_PLACE), before + 1)


def header(place: int) -> tuple[str, bytes]:
    """The header of a record that is from `place`."""
    return _PLACE, str(place).encode()


def place_in(headers: Iterable[tuple[str, bytes]]) -> int | None:
    """The place that a record with these headers is from; None if they do not say."""
    for name, value in headers:
        if name == _PLACE:
            try:
                return int(value)
            except (TypeError, ValueError):
                # Somebody else's: no value, or no number.
                return None
    return None


class Newest:
    """Tells the records of one compacted topic that are news from those that come too late.

    It remembers the places of `keys` keys, those that have changed last. Any other key's record is news.
    """

    def __init__(self, keys: int = _KEYS) -> None:
        self._most = keys
        self._places: OrderedDict[bytes | None, int] = OrderedDict()

    def take(self, key: bytes | None, headers: Iterable[tuple[str, bytes]]) -> bool:
        """Take the next record; return whether it is news: none of this key was from a later place.

        A record that does not say its place counts as it comes.
        """
        place = place_in(headers)
        known = self._places.pop(key, None)
        is_news = place is None or known is None or place >= known
        newest = place if is_news else known
        if newest is not None:
            self._places[key] = newest
            if len(self._places) > self._most:
                self._places.popitem(last=False)
        return is_news

    def has(self, key: bytes, place: int) -> bool:
        """Whether a record of the key from this place, or from a later one, was taken lately."""
        return self._places.get(key, -1) >= place
