"""DescribeGroup: how the group looks right now; it changes nothing.

Source: GroupMetadataManager.java of Apache Kafka 4, describeGroups; KIP-1043 for version 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.errors import not_found

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.requests import DescribeGroupRequest
    from group_coordinator.coordinator_state.turn import Turn

# From this version on a group that is not there is an error; before, it is one that is dead.
_NOT_FOUND_VERSION = 6


def handle_describe_group(turn: Turn[ClassicGroup], request: DescribeGroupRequest) -> None:
    """Handle one DescribeGroup."""
    if turn.has(ClassicGroup.KIND):
        group = turn.group
        is_stable = group.state is GroupState.STABLE
        turn.answer(
            request,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=(group.protocol_name or "") if is_stable else "",
            generation_id=group.generation_id,
            leader=group.leader or "",
            members=group.described_members(with_instances=request.version >= request.STATIC_VERSION),
        )
    elif request.version >= _NOT_FOUND_VERSION:
        turn.answer(request, *not_found(turn.group_id))
    else:
        turn.answer(request)
