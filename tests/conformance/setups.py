"""The brokers that are compared with: settings of which the core gets the same."""

from __future__ import annotations

from typing import NamedTuple

from group_coordinator.coordinator_state.config import GroupConfig

__all__ = ["COMMON", "METADATA_MAX", "MIN_SESSION_MS", "NEVER_MS", "Setup", "setup"]

MIN_SESSION_MS = 100
METADATA_MAX = 8
NEVER_MS = 7 * 24 * 3_600_000

COMMON = {
    "group_min_session_timeout_ms": MIN_SESSION_MS,
    "group_max_session_timeout_ms": 60_000,
    "group_initial_rebalance_delay_ms": 0,
    "offset_metadata_max_bytes": METADATA_MAX,
    "offsets_retention_minutes": 1,
    # How often it is looked for what may go. Mostly never: so no sequence meets the clean-up by chance.
    "offsets_retention_check_interval_ms": NEVER_MS,
}
"""Settings of all, by the core's names. Kafka's have dots."""

_ONE_AFTER_ANOTHER = {
    # Requests are handled one after another, in the order in which they came: so a description
    # that was asked for after a request shows what the request has done.
    "offsets.topic.num.partitions": "1",
    "num.network.threads": "1",
    "num.io.threads": "1",
    "group.coordinator.threads": "1",
    "group.coordinator.append.linger.ms": "0",
    "connections.max.idle.ms": str(NEVER_MS),
}


class Setup(NamedTuple):
    """One broker's settings, and the core's that are the same."""

    core: GroupConfig
    broker: dict[str, str]


def setup(settings: dict[str, int], brokers_own: dict[str, str] | None = None) -> Setup:
    """The `settings` for both, by the core's names, and those that the core does not have."""
    both = COMMON | settings
    told = {name.replace("_", "."): str(value) for name, value in both.items()}
    return Setup(GroupConfig(**both), told | _ONE_AFTER_ANOTHER | (brokers_own or {}))
