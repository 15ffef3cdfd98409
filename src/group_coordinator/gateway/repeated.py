"""A heartbeat that comes again.

A member sends its last heartbeat again and again, with another correlation id. To decode it each time, and to
check that the coordinator can read it, costs as much CPU time as all the rest. So a connection keeps the
bytes of the last one, and what was read of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.gateway.frames import LENGTH_BYTES, REQUEST_HEAD_BYTES, RESPONSE_HEAD_BYTES
from group_coordinator.gateway.group_apis.guarding import right_of_member
from group_coordinator.gateway.limits import bytes_kept

if TYPE_CHECKING:
    from group_coordinator.gateway.frames import Request
    from group_coordinator.gateway.rights import Right

_END = LENGTH_BYTES + REQUEST_HEAD_BYTES
_BEGIN = _END - RESPONSE_HEAD_BYTES
"""Where the correlation id begins and ends in a request."""


class RepeatedBeat(NamedTuple):
    """The last heartbeat of a connection."""

    before: bytes
    after: bytes
    """The frame before and after the correlation id."""
    api_key: int
    version: int
    right: Right
    """The right that it needs."""
    size: int
    """Of the frame, in bytes."""
    kept: int
    """The memory that it takes while it waits, in bytes."""

    @classmethod
    def of(cls, request: Request, frame: bytes, prefix: str = "") -> RepeatedBeat:
        """The heartbeat in a frame, its length included. `prefix`: as that of `guard`."""
        right = right_of_member(request.message.group_id, prefix)
        api_key, version, _ = request.head
        size = len(frame)
        return cls(frame[:_BEGIN], frame[_END:], api_key, version, right, size, bytes_kept(size, 0))

    def correlation_id_in(self, data: bytes) -> bytes | None:
        """The correlation id, if `data` is this heartbeat and nothing more; None if it is anything else."""
        if data[_END:] != self.after or data[:_BEGIN] != self.before:
            return None
        return data[_BEGIN:_END]
