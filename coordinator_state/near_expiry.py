"""Near misses: members that show a sign of life when their session has nearly expired.

Such a member stays, so nothing else tells of it. The next time it may not.

A fleet that always comes so late would make an event for each of its heartbeats. So a member is told of at
most once in ten of its sessions. With 10,000 such members and sessions of 10 s these are 100 events a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.events import SessionNearlyExpired

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.group import Group, HasSession
    from group_coordinator.coordinator_state.turn import Turn

_PART = 5
"""A session has nearly expired if less than this part of it is left."""
_SESSIONS = 10
"""A member is told of at most once in so many of its sessions."""


def tell_if_nearly_expired(turn: Turn[Group], member: HasSession, session_timeout_ms: int) -> None:
    """Note a sign of life of `member`, before its session restarts or stands still.

    Outages put its deadline off, so its time is no shorter for them. While a member waits for an answer it is
    the coordinator that keeps silent.
    """
    until_ms = member.session_deadline_ms
    if until_ms is None or (until_ms - turn.now_ms) * _PART >= session_timeout_ms:
        return
    if member.is_parked or turn.now_ms < member.untold_until_ms:
        return
    member.untold_until_ms = turn.now_ms + _SESSIONS * session_timeout_ms
    turn.emit(
        SessionNearlyExpired(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            session_timeout_ms=session_timeout_ms,
            remaining_ms=until_ms - turn.now_ms,
        )
    )
