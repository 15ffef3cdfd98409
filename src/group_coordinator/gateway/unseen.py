"""Pictures of groups that clients were told of and that are not read yet, and the lists that wait for them.

An answer and the picture of what it has changed come by two topics, in any order. A client that is told of
a change is to find it in its next list.
Time is an argument, in seconds.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE_S = 2.0
"""How long after an answer its picture is waited for. A list shows what there is then."""
_MOST = 10_000
"""Pictures that are waited for; beyond that the oldest are not."""


class Unseen:
    """The pictures that are still to be read, in the order in which clients were told of them."""

    def __init__(self) -> None:
        self._due: OrderedDict[int, tuple[float, str, int]] = OrderedDict()
        """When each stops to be waited for, with group and place, by number."""
        self._numbers: dict[str, dict[int, int]] = {}
        """Numbers by group and place."""
        self._next = count()
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        """Lists, and up to which number each waits."""

    def __len__(self) -> int:
        """How many pictures are to be read."""
        return len(self._due)

    def told(self, group_id: str, place: int, now_s: float) -> None:
        """A client is being told of a group, of which there is a picture from `place`."""
        numbers = self._numbers.setdefault(group_id, {})
        if place not in numbers:
            numbers[place] = number = next(self._next)
            self._due[number] = now_s + _PATIENCE_S, group_id, place
        if len(self._due) > _MOST:
            self._drop(next(iter(self._due)))
            self._release()

    def seen(self, group_id: str, place: int | None) -> None:
        """A picture of a group has been read; it shows all changes up to `place`. None: it has no place."""
        numbers = self._numbers.get(group_id)
        if not numbers or place is None:
            return
        for number in [number for told, number in numbers.items() if told <= place]:
            self._drop(number)
        self._release()

    def wait(self, then: Callable[[], None]) -> None:
        """Call `then` once all that were told before have been seen, or are not waited for any more."""
        if not self._due:
            then()
            return
        self._waiting.append((next(reversed(self._due)), then))

    def expire(self, now_s: float) -> None:
        """Do not wait any longer for what was told too long ago."""
        while self._due and next(iter(self._due.values()))[0] <= now_s:
            self._drop(next(iter(self._due)))
        self._release()

    def _drop(self, number: int) -> None:
        _, group_id, place = self._due.pop(number)
        numbers = self._numbers[group_id]
        del numbers[place]
        if not numbers:
            del self._numbers[group_id]

    def _release(self) -> None:
        while self._waiting and not (self._due and next(iter(self._due)) <= self._waiting[0][0]):
            self._waiting.popleft()[1]()
