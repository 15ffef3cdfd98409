"""The check that Sync, Heartbeat and Leave have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_state.errors import Errors

if TYPE_CHECKING:
    from coordinator_state.turn import Turn

__all__ = ["validate_member"]


def validate_member(turn: Turn, member_id: str, generation_id: int | None = None) -> Errors:
    """Whether `member_id` is a member, and, if given, `generation_id` the current generation.

    An id that was handed out but has not joined is not a member yet.
    Source: ClassicGroup.validateMember of Apache Kafka 4.
    """
    if not turn.exists or member_id not in turn.group.members:
        return Errors.UNKNOWN_MEMBER_ID
    if generation_id is not None and generation_id != turn.group.generation_id:
        return Errors.ILLEGAL_GENERATION
    return Errors.NONE
