"""The names that the coordinator's topics have unless somebody chooses others; see `docs/contract.md`."""

from __future__ import annotations

__all__ = ["CLOCK", "EVENTS", "GROUPS", "OFFSETS", "REJECTED", "REQUESTS", "RESPONSES"]

REQUESTS = "coordinator.requests"
CLOCK = "coordinator.clock"
RESPONSES = "coordinator.responses"
GROUPS = "coordinator.groups"
OFFSETS = "coordinator.offsets"
EVENTS = "coordinator.events"
REJECTED = "coordinator.rejected"
