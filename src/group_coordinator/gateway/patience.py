"""The time that a connection may take. It is an argument, in seconds of a clock that does not go back."""

from __future__ import annotations

from typing import NamedTuple

from group_coordinator.gateway.limits import Limits


class Ending(NamedTuple):
    """The end of a connection. `at_once`: the rest of what was written is not sent."""

    reason: str
    at_once: bool


class Patience:
    """The last things that a connection has done. It tells when the next one takes too long."""

    __slots__ = ("_began_s", "ended_s", "has_asked", "heard_s", "stuck_s", "unfinished_s")

    def __init__(self, now_s: float) -> None:
        self._began_s = self.heard_s = now_s
        """Times at which the client connected, and last sent something."""
        self.has_asked = False
        """Whether a first request has come to its end, or a login where there has to be one."""
        self.unfinished_s: float | None = None
        """Since when a request has been kept that is not whole; None if there is none."""
        self.stuck_s: float | None = None
        """Since when the client has not read; None if it does."""
        self.ended_s: float | None = None
        """Since when the connection is closed, or its client's side is; None if neither is."""

    def ends(self, now_s: float) -> None:
        """The connection, or its client's side, is closed: what is unsent has a moment."""
        if self.ended_s is None:
            self.ended_s = now_s

    def over(self, now_s: float, *, is_owed: bool, is_between: bool) -> Ending | None:
        """Return the end that the connection has now; None if it may go on.

        `is_owed`: the client waits for a response. `is_between`: it has sent no part of a next request.
        """
        for since_s, limit_s, reason in (
            (self.ended_s, Limits.end_s, "unread responses"),
            (self.stuck_s, Limits.idle_s, "idle"),
            (self.unfinished_s, Limits.local_frame_s, "unfinished requests"),
        ):
            if since_s is not None and now_s - since_s > limit_s:
                return Ending(reason, at_once=True)
        is_idle = now_s - self.heard_s > Limits.idle_s and not (is_owed and is_between)
        if is_idle or (not self.has_asked and now_s - self._began_s > Limits.first_frame_s):
            return Ending("idle", at_once=False)
        return None
