"""The settings of the history, beside those that all jobs have."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from group_coordinator.jobs.settings import JobSettings, Port, Positive


class HistorySettings(JobSettings, frozen=True, kw_only=True):
    """Settings of `write-history`, and of those that read its tables."""

    history_path: str = ""
    """Directory or object-store URI of the tables that `write-history` writes and `history` asks."""
    brokers_history_path: str = ""
    """The same for groups at the brokers (`of`)."""
    history_interval_ms: Positive = 30_000
    """Time between the starts of two batches of the history, in ms."""
    history_max_events: Positive = 200_000
    """Most events of one batch, so that a history that begins late need not hold all of them in memory."""
    history_lag_interval_ms: Positive = 60_000
    """Of the measurements of a group's lag the first in each span of so many ms is kept."""
    history_retention_days: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Days that the history reaches back; 0: for ever."""
    history_metrics_port: Port = 9466
    """Port of the Prometheus endpoint of `write-history`; 0: any free one, -1: none."""

    @property
    def of_brokers(self) -> dict[str, Any]:
        """The settings that have another value for groups at the brokers."""
        return {**super().of_brokers, "history_path": self.brokers_history_path}
