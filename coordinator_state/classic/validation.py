"""The checks that several requests have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.errors import Errors

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["not_found", "validate_member"]


def validate_member(
    turn: Turn, member_id: str, group_instance_id: str | None, generation_id: int | None = None
) -> Errors:
    """Whether `member_id` is a member, and, if given, `generation_id` the current generation.

    With an instance id it must also be the one that the instance id stands for: another member id belongs
    to an older run of the same program, which must not go on. An id that was handed out but has not joined
    is not a member yet.

    Source: ClassicGroup.validateMember of Apache Kafka 4.
    """
    if not turn.exists:
        return Errors.UNKNOWN_MEMBER_ID
    group = turn.group
    if group_instance_id is not None:
        if group_instance_id not in group.static_members:
            return Errors.UNKNOWN_MEMBER_ID
        if group.static_members[group_instance_id] != member_id:
            return Errors.FENCED_INSTANCE_ID
    if member_id not in group.members:
        return Errors.UNKNOWN_MEMBER_ID
    if generation_id is not None and generation_id != group.generation_id:
        return Errors.ILLEGAL_GENERATION
    return Errors.NONE


def not_found(turn: Turn) -> tuple[Errors, str]:
    """The error for a group that is not there, and Kafka's words for it."""
    return Errors.GROUP_ID_NOT_FOUND, f"Group {turn.group_id} not found."
