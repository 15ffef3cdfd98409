"""The brokers that are compared with: settings of which the core gets the same."""

from __future__ import annotations

from typing import NamedTuple

from group_coordinator.coordinator_state.config import INT32_MAX, GroupConfig

MIN_SESSION_MS = 100
MAX_SESSION_MS = 60_000
METADATA_MAX = 8
RETENTION_MINUTES = 1
_NEVER_MS = 7 * 24 * 3_600_000
_AT_ONCE_MS = 20


class Setup(NamedTuple):
    """Settings of the group coordinator that differ between the brokers."""

    initial_delay_ms: int = 0
    max_size: int = INT32_MAX
    check_interval_ms: int = _NEVER_MS
    """How often it is looked for what may go. Mostly never: so no sequence meets the clean-up by chance."""

    @property
    def broker(self) -> dict[str, str]:
        """The broker's settings."""
        return {
            "group.min.session.timeout.ms": str(MIN_SESSION_MS),
            "group.max.session.timeout.ms": str(MAX_SESSION_MS),
            "group.initial.rebalance.delay.ms": str(self.initial_delay_ms),
            "group.max.size": str(self.max_size),
            "offset.metadata.max.bytes": str(METADATA_MAX),
            "offsets.retention.minutes": str(RETENTION_MINUTES),
            "offsets.retention.check.interval.ms": str(self.check_interval_ms),
            # Requests are handled one after another, in the order in which they came: so a description
            # that was asked for after a request shows what the request has done.
            "offsets.topic.num.partitions": "1",
            "num.network.threads": "1",
            "num.io.threads": "1",
            "group.coordinator.threads": "1",
            "group.coordinator.append.linger.ms": "0",
            "connections.max.idle.ms": str(_NEVER_MS),
        }

    @property
    def core(self) -> GroupConfig:
        """The core's settings."""
        return GroupConfig(
            group_min_session_timeout_ms=MIN_SESSION_MS,
            group_max_session_timeout_ms=MAX_SESSION_MS,
            group_initial_rebalance_delay_ms=self.initial_delay_ms,
            group_max_size=self.max_size,
            offset_metadata_max_bytes=METADATA_MAX,
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=self.check_interval_ms,
        )


SETUPS = {
    "plain": Setup(),
    "tight": Setup(initial_delay_ms=200, max_size=3),
    # What may go goes at once: so soon that the driver does not look before it is gone.
    "brief": Setup(check_interval_ms=_AT_ONCE_MS),
}
