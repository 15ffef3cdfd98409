"""The order in which requests go to the log, which is that of arrival for each group."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from group_coordinator.gateway.outgoing import Outgoing, Place


class Lanes:
    """Writes requests at once, unless an earlier one of the group waits. Then they wait behind it."""

    def __init__(self, write: Callable[[Outgoing], None]) -> None:
        self._write = write
        self._lanes: dict[str, deque[list[Sequence[Outgoing]]]] = {}
        """Places of groups by id. An empty place waits to be filled."""

    def put(self, group_id: str, each: Outgoing) -> None:
        """Write something, after all that came before it."""
        if (lane := self._lanes.get(group_id)) is None:
            self._write(each)
        else:
            lane.append([(each,)])

    def hold(self, group_id: str) -> Place:
        """Take a place for a request that is not known yet. Returns the function that fills it, or not."""
        place: list[Sequence[Outgoing]] = []
        self._lanes.setdefault(group_id, deque()).append(place)

        def fill(these: Sequence[Outgoing]) -> None:
            place.append(these)
            self._move(group_id)

        return fill

    def _move(self, group_id: str) -> None:
        lane = self._lanes[group_id]
        while lane and lane[0]:
            for each in lane.popleft()[0]:
                self._write(each)
        if not lane:
            del self._lanes[group_id]
