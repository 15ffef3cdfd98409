"""FindCoordinator: where a group's requests belong, and which task of the query keeps its state.

In Kafka the answer is the broker that leads one partition of __consumer_offsets. Here one coordinator has all
groups, so the answer names partitions. A program that produces requests by itself learns which one to use.
An operator learns which task to look at. A gateway learns which limits the coordinator has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.partitioning import partition_for_key, state_partition_for_key

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.group import Group
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.requests import FindCoordinatorRequest
    from group_coordinator.coordinator_state.turn import Turn


def handle_find_coordinator(turn: Turn[Group], request: FindCoordinatorRequest, record: Record) -> None:
    """Handle one FindCoordinator, which came as `record`. The group need not be there."""
    key, layout = turn.group_id.encode(), turn.layout
    turn.answer(
        request,
        topic=record.topic,
        partition=partition_for_key(key, layout.request_partitions),
        state_partition=state_partition_for_key(key, layout.state_partitions),
        max_request_bytes=turn.config.max_request_bytes,
        max_id_length=turn.config.max_id_length,
        max_groups=layout.max_groups,
    )
