"""The names that the topics have unless somebody chooses others; see `docs/contract.md`."""

from __future__ import annotations

__all__ = ["CLOCK", "EVENTS", "GROUPS", "LAG", "OFFSETS", "REJECTED", "REQUESTS", "RESPONSES"]

REQUESTS = "coordinator.requests"
CLOCK = "coordinator.clock"
RESPONSES = "coordinator.responses"
GROUPS = "coordinator.groups"
OFFSETS = "coordinator.offsets"
EVENTS = "coordinator.events"
REJECTED = "coordinator.rejected"
LAG = "coordinator.lag"
"""The one that the coordinator neither reads nor writes: `measure-lag` does."""
