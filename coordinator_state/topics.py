"""The names that the topics have unless somebody chooses others; see `docs/contract.md`."""

from __future__ import annotations

REQUESTS = "coordinator.requests"
CLOCK = "coordinator.clock"
RESPONSES = "coordinator.responses"
GROUPS = "coordinator.groups"
OFFSETS = "coordinator.offsets"
EVENTS = "coordinator.events"
REJECTED = "coordinator.rejected"
LAG = "coordinator.lag"
"""The one that the coordinator neither reads nor writes: `measure-lag` does."""

GROUP_SIDES = "coordinator.sides"
"""`move` writes it, and gateways read it."""

BROKERS_GROUPS = "brokers.groups"
BROKERS_OFFSETS = "brokers.offsets"
BROKERS_EVENTS = "brokers.events"
"""`observe` writes these about groups at the brokers."""
BROKERS_LAG = "brokers.lag"
BROKERS_LOG = "__consumer_offsets"
"""The log that the brokers' own coordinators keep of their groups. Its name is Kafka's."""
