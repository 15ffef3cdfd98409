"""A group's deadlines, and which is due next.

The deadlines themselves are fields of the group, so that they are stored with it. `Deadlines` is an index
over them for the length of one call. It is a heap that is filled once; each deadline that is set later is
pushed. An entry whose deadline has been moved or cancelled since is skipped when it comes up. So a heartbeat,
which moves a deadline, costs one push and no search. If most entries are such ones, the heap is filled again:
a backlog may have an hour's heartbeats of thousands of members.

Times saturate: a deadline is at `LATEST_MS` at most, and log time stays below it, so that it never passes.

`classic/expiry.py` and `offsets/retention.py` have the rules for deadlines that pass.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from group_coordinator.coordinator_state.group import DeadlineKind, Group

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, in ms. Python's and Spark's dates end there, long before an int64 does."""


def later(at_ms: int, by_ms: int) -> int:
    """The time that is `by_ms` after `at_ms`; `LATEST_MS` if that is later."""
    return min(at_ms + by_ms, LATEST_MS)


class Deadline(NamedTuple):
    """A deadline: its time (ms of log time), its kind, and the id of its member or pending id, if any."""

    at_ms: int
    kind: DeadlineKind
    member_id: str


_LEAST_REFILLED = 10_000
"""A heap with fewer entries is never filled again."""
_Entry = tuple[int, DeadlineKind, str]
"""The same in the index, as a plain tuple: every heartbeat makes two, which few calls take out."""


class Deadlines:
    """The deadlines of one group, earliest first. Every change of a deadline goes through here."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._fill()

    def _fill(self) -> None:
        self._heap: list[_Entry] = list(self._group.deadlines())
        heapify(self._heap)
        self._most = max(_LEAST_REFILLED, 2 * len(self._heap))

    def set(self, kind: DeadlineKind, at_ms: int | None, member_id: str = "") -> None:
        """Let the deadline be at `at_ms`, or nowhere if that is None."""
        if at_ms is not None:
            at_ms = min(at_ms, LATEST_MS)
            heappush(self._heap, (at_ms, kind, member_id))
        self._group.set_deadline(kind, member_id, at_ms)
        if len(self._heap) > self._most:
            self._fill()

    def put_off(self, by_ms: int) -> None:
        """Let all deadlines be `by_ms` later."""
        for at_ms, kind, member_id in list(self._group.deadlines()):
            self._group.set_deadline(kind, member_id, later(at_ms, by_ms))
        self._fill()

    def pop(self, to_ms: int) -> Deadline | None:
        """Take out the earliest deadline that is not after `to_ms`; None if there is none.

        Taking it out clears it: what happens then must set it again if it is to come again.
        """
        heap = self._heap
        while heap and heap[0][0] <= to_ms:
            deadline = Deadline(*heappop(heap))
            if self._is_current(deadline):
                self._group.set_deadline(deadline.kind, deadline.member_id, None)
                return deadline
        return None

    def next_ms(self) -> int | None:
        """The time at which the earliest deadline is due; None if there is none."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def next_of_members_ms(self) -> int | None:
        """The same without cleanups, for which no member waits."""
        heap, cleanups = self._heap, []
        while self.next_ms() is not None and heap[0][1] is DeadlineKind.CLEANUP:
            cleanups.append(heappop(heap))
        at_ms = heap[0][0] if heap else None
        # One that was set to the same time twice is there twice.
        for cleanup in cleanups[:1]:
            heappush(heap, cleanup)
        return at_ms

    def _is_current(self, entry: _Entry) -> bool:
        """Whether it has not been moved or cancelled since."""
        at_ms, kind, member_id = entry
        return self._group.deadline(kind, member_id) == at_ms
