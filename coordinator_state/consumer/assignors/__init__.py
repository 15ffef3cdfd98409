"""The assignors of the coordinator, which compute a group's target."""

from __future__ import annotations

from group_coordinator.coordinator_state.consumer.assignors.group_spec import Assignor, GroupSpec
from group_coordinator.coordinator_state.consumer.assignors.range import assign_ranges
from group_coordinator.coordinator_state.consumer.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "Assignor", "GroupSpec"]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""Assignors by the name that a member asks for one by. The first is the default, as in Kafka."""
