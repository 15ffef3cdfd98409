"""The settings of lag measurement, beside those that all jobs have."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import msgspec

from group_coordinator.jobs.settings import Port, Positive, Settings

__all__ = ["LagSettings"]


class LagSettings(Settings, frozen=True, kw_only=True):
    """Settings of `measure-lag`."""

    lag_groups: str = ""
    """Ids of the groups that are measured, with commas between; * stands for any characters."""
    lag_max_partitions: Positive = 10_000
    """Partitions that are measured at most, counted for each group. Groups beyond it are left out whole."""
    lag_interval_ms: Positive = 15_000
    """Time between two measurements, in ms."""
    lag_max_fetches: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Records at most that are fetched in an interval for their timestamps; 0: none, only ends count."""
    lag_cluster_name: str = "kafka"
    """Value of the label cluster_name, as dashboards of kafka-lag-exporter choose by it."""
    lag_metrics_port: Port = 9468
    """Port of the Prometheus endpoint of `measure-lag`; 0: any free one, -1: none."""

    def measures(self, group_id: str) -> bool:
        """Whether this group is chosen."""
        patterns = (each.strip() for each in self.lag_groups.split(","))
        return any(fnmatchcase(group_id, each) for each in patterns if each)
