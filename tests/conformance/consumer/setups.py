"""The brokers that are compared with: settings of which the core gets the same."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX, GroupConfig
from tests.conformance import setups as classic

_LONG_MS = 60_000


class Setup(NamedTuple):
    """Settings of the group coordinator that differ between the brokers."""

    session_timeout_ms: int = _LONG_MS
    """Mostly so long that no sequence meets the end of a session."""
    max_size: int = INT32_MAX
    heartbeat_interval_ms: int = 5_000

    @property
    def ends_soon(self) -> bool:
        """Whether sessions end within a sequence."""
        return self.session_timeout_ms < _LONG_MS

    @property
    def broker(self) -> dict[str, str]:
        """The broker's settings."""
        return classic.SETUPS["plain"].broker | {
            "group.consumer.session.timeout.ms": str(self.session_timeout_ms),
            "group.consumer.min.session.timeout.ms": "100",
            "group.consumer.heartbeat.interval.ms": str(self.heartbeat_interval_ms),
            "group.consumer.min.heartbeat.interval.ms": "50",
            "group.consumer.max.size": str(self.max_size),
            "group.consumer.migration.policy": "disabled",
            # Targets are computed in the heartbeat that needs them, not some time later.
            "group.consumer.assignment.interval.ms": "0",
            "group.consumer.min.assignment.interval.ms": "0",
            "group.consumer.assignor.offload.enable": "false",
        }

    @property
    def core(self) -> GroupConfig:
        """The core's settings."""
        return msgspec.structs.replace(
            classic.SETUPS["plain"].core,
            group_consumer_session_timeout_ms=self.session_timeout_ms,
            group_consumer_heartbeat_interval_ms=self.heartbeat_interval_ms,
            group_consumer_max_size=self.max_size,
            group_consumer_assignment_interval_ms=0,
        )


SETUPS = {
    "plain": Setup(),
    "tight": Setup(max_size=3),
    "brief": Setup(session_timeout_ms=1_000, heartbeat_interval_ms=100),
}
