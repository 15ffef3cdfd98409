"""DeleteGroup: delete a group without members, and its offsets (KIP-229).

Source: GroupCoordinatorShard.deleteGroups and ClassicGroup.validateDeleteGroup of Apache Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.errors import Errors, not_found
from group_coordinator.coordinator_state.offsets.retention import end_group

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.group import Group
    from group_coordinator.coordinator_state.requests import DeleteGroupRequest
    from group_coordinator.coordinator_state.turn import Turn


def handle_delete_group(turn: Turn[Group], request: DeleteGroupRequest) -> None:
    """Handle one DeleteGroup. A handed-out id that is not used yet does not protect a group."""
    error, message = Errors.NONE, None
    if not turn.exists:
        error, message = not_found(turn.group_id)
    elif not turn.group.is_empty:
        error, message = Errors.NON_EMPTY_GROUP, f"group {turn.group_id} is {turn.group.state}, not Empty"
    else:
        end_group(turn, f"deleted by {request.client_id}", request.reason)
    turn.answer(request, error, message)
