"""A group's deadlines: which there are, and which is due next.

The deadlines themselves are fields of the group, so that they are stored with it. `Deadlines` is an index
over them for the length of one call: a heap that is filled once and told of each deadline that is set
after that. An entry whose deadline has since been moved or cancelled is skipped when it comes up, so
moving a deadline (every heartbeat does) costs one push and no search.

What happens when a deadline passes is in `expiry.py`.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, assert_never

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import Group, Member

__all__ = ["Deadline", "DeadlineKind", "Deadlines"]


class DeadlineKind(IntEnum):
    """The kinds of deadlines; of those due in the same millisecond, lower ones come first."""

    JOIN = 0
    """The join phase is over. First, because a newcomer's time may end with the phase it waits for."""
    SESSION = 1
    """A member has been silent for its session timeout."""
    PENDING = 2
    """An id that was handed out has not been used to join."""
    SYNC = 3
    """The time to sync is over."""
    CLEANUP = 4
    """Offsets that nobody uses, and the group if it is Empty, are looked at, to be deleted."""


class Deadline(NamedTuple):
    """When (ms of log time), what, and if it is a member's or a pending id's, whose (member id)."""

    at_ms: int
    kind: DeadlineKind
    member_id: str


_Entry = tuple[int, DeadlineKind, str]
"""The same in the index, as a plain tuple: every heartbeat makes two, which few calls take out."""


class Deadlines:
    """The deadlines of one group, earliest first. Every change of a deadline goes through here."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._heap = self._index()

    def _index(self) -> list[_Entry]:
        group = self._group
        session, pending = DeadlineKind.SESSION, DeadlineKind.PENDING
        heap = [
            (member.session_deadline_ms, session, member_id)
            for member_id, member in group.members.items()
            if member.session_deadline_ms is not None
        ]
        heap += [(at_ms, pending, member_id) for member_id, at_ms in group.pending_members.items()]
        if group.join_deadline_ms is not None:
            heap.append((group.join_deadline_ms, DeadlineKind.JOIN, ""))
        if group.sync_deadline_ms is not None:
            heap.append((group.sync_deadline_ms, DeadlineKind.SYNC, ""))
        if group.cleanup_deadline_ms is not None:
            heap.append((group.cleanup_deadline_ms, DeadlineKind.CLEANUP, ""))
        heapify(heap)
        return heap

    def set_session(self, member: Member, at_ms: int) -> None:
        """`member` must be heard of before `at_ms`."""
        member.session_deadline_ms = at_ms
        heappush(self._heap, (at_ms, DeadlineKind.SESSION, member.member_id))

    def set_pending(self, member_id: str, at_ms: int) -> None:
        """The id `member_id` must be used to join before `at_ms`."""
        self._group.pending_members[member_id] = at_ms
        heappush(self._heap, (at_ms, DeadlineKind.PENDING, member_id))

    def set_join(self, at_ms: int | None) -> None:
        """The join phase ends at `at_ms`; None: it has ended."""
        self._group.join_deadline_ms = at_ms
        self._push(DeadlineKind.JOIN, at_ms)

    def set_sync(self, at_ms: int | None) -> None:
        """All must have synced before `at_ms`; None: all have."""
        self._group.sync_deadline_ms = at_ms
        self._push(DeadlineKind.SYNC, at_ms)

    def set_cleanup(self, at_ms: int | None) -> None:
        """What nobody uses is looked for at `at_ms`; None: all is in use."""
        self._group.cleanup_deadline_ms = at_ms
        self._push(DeadlineKind.CLEANUP, at_ms)

    def put_off(self, by_ms: int) -> None:
        """Let all deadlines be `by_ms` later."""
        group = self._group
        for member in group.members.values():
            if member.session_deadline_ms is not None:
                member.session_deadline_ms += by_ms
        for member_id in group.pending_members:
            group.pending_members[member_id] += by_ms
        if group.join_deadline_ms is not None:
            group.join_deadline_ms += by_ms
        if group.sync_deadline_ms is not None:
            group.sync_deadline_ms += by_ms
        if group.cleanup_deadline_ms is not None:
            group.cleanup_deadline_ms += by_ms
        self._heap = self._index()

    def pop(self, to_ms: int) -> Deadline | None:
        """Take out the earliest deadline that is not after `to_ms`; None if there is none.

        Taking it out clears it: what happens then must set it again if it is to come again.
        """
        heap = self._heap
        while heap and heap[0][0] <= to_ms:
            deadline = Deadline(*heappop(heap))
            if self._is_current(deadline):
                self._clear(deadline)
                return deadline
        return None

    def next_ms(self) -> int | None:
        """When the earliest deadline is due; None if there is none."""
        heap = self._heap
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def _clear(self, deadline: Deadline) -> None:
        match deadline.kind:
            case DeadlineKind.SESSION:
                self._group.members[deadline.member_id].session_deadline_ms = None
            case DeadlineKind.PENDING:
                pass  # the id goes with its deadline, see expiry.py
            case DeadlineKind.JOIN:
                self._group.join_deadline_ms = None
            case DeadlineKind.SYNC:
                self._group.sync_deadline_ms = None
            case DeadlineKind.CLEANUP:
                self._group.cleanup_deadline_ms = None
            case _:
                assert_never(deadline.kind)

    def _is_current(self, entry: _Entry) -> bool:
        """Whether it has not been moved or cancelled since."""
        at_ms, kind, member_id = entry
        return self._current(kind, member_id) == at_ms

    def _push(self, kind: DeadlineKind, at_ms: int | None) -> None:
        if at_ms is not None:
            heappush(self._heap, (at_ms, kind, ""))

    def _current(self, kind: DeadlineKind, member_id: str) -> int | None:
        group = self._group
        match kind:
            case DeadlineKind.SESSION:
                member = group.members.get(member_id)
                return member.session_deadline_ms if member else None
            case DeadlineKind.PENDING:
                return group.pending_members.get(member_id)
            case DeadlineKind.JOIN:
                return group.join_deadline_ms
            case DeadlineKind.SYNC:
                return group.sync_deadline_ms
            case DeadlineKind.CLEANUP:
                return group.cleanup_deadline_ms
            case _:
                assert_never(kind)
