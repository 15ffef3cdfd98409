"""The brokers of the consumer protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conformance.setups import setup

if TYPE_CHECKING:
    from tests.conformance.setups import Setup

__all__ = ["SETUPS", "ends_soon"]

_LONG_MS = 60_000
"""So long is a session mostly that no sequence meets its end."""
_COMMON = {
    "group_consumer_session_timeout_ms": _LONG_MS,
    "group_consumer_heartbeat_interval_ms": 5_000,
    # Targets are computed in the heartbeat that needs them, not some time later.
    "group_consumer_assignment_interval_ms": 0,
}
_BROKERS_OWN = {
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.migration.policy": "disabled",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    # Patterns are resolved one after another, in the order of the heartbeats that asked for it.
    "group.coordinator.background.threads": "1",
}

SETUPS = {
    "plain": setup(_COMMON, _BROKERS_OWN),
    "tight": setup(_COMMON | {"group_consumer_max_size": 3}, _BROKERS_OWN),
    "brief": setup(
        _COMMON | {"group_consumer_session_timeout_ms": 1_000, "group_consumer_heartbeat_interval_ms": 100},
        _BROKERS_OWN,
    ),
}


def ends_soon(it: Setup) -> bool:
    """Whether sessions end within a sequence."""
    return it.core.group_consumer_session_timeout_ms < _LONG_MS
