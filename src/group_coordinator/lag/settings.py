"""The settings of lag measurement, beside those that all jobs have."""

from __future__ import annotations

from typing import Annotated

import msgspec

from group_coordinator.jobs.patterns import is_chosen, matches
from group_coordinator.jobs.settings import JobSettings, Port, Positive

_LEVELS = ("read_uncommitted", "read_committed")


class LagSettings(JobSettings, frozen=True, kw_only=True):
    """Settings of `measure-lag`."""

    lag_groups: str = ""
    """Ids of the groups that are measured, with commas between; * stands for any characters, and an id behind
    ! is an exception, as in `*,!orders*`."""
    lag_max_partitions: Positive = 10_000
    """Partitions that are measured at most, counted for each group. Groups beyond it are left out whole."""
    lag_interval_ms: Positive = 15_000
    """Time between two measurements, in ms."""
    lag_max_fetches: Annotated[int, msgspec.Meta(ge=0)] = 100
    """Records at most that are fetched in an interval for their timestamps; 0: none, only ends count."""
    lag_isolation_level: str = "read_uncommitted"
    """What members of groups are taken to read: read_uncommitted, read_committed, or GROUPS=LEVEL with commas
    between; the first that matches a group counts."""
    lag_cluster_name: str = "kafka"
    """Value of the label cluster_name, as dashboards of kafka-lag-exporter choose by it."""
    lag_metrics_port: Port = 9468
    """Port of the Prometheus endpoint of `measure-lag`; 0: any free one, -1: none."""

    def measures(self, group_id: str) -> bool:
        """Whether this group is chosen."""
        return is_chosen(group_id, self.lag_groups)

    def reads_committed(self, group_id: str) -> bool:
        """Whether its members are taken to read no records of open and aborted transactions."""
        levels = _levels(self.lag_isolation_level)
        level = next((level for pattern, level in levels if matches(group_id, pattern)), _LEVELS[0])
        return level == _LEVELS[1]

    def __post_init__(self) -> None:
        """Refuse what the types do not. Raises `ValueError`, of which `load` makes a `SettingsError`."""
        for _, level in _levels(self.lag_isolation_level):
            if level not in _LEVELS:
                raise ValueError(
                    f"lag.isolation.level has {level!r}: it is {' or '.join(_LEVELS)}, for all groups or as "
                    "GROUPS=LEVEL, with commas between"
                )


def _levels(text: str) -> list[tuple[str, str]]:
    """Pairs of a pattern and a level, in their order. A level alone is for all groups."""
    parts = [each.rpartition("=") for each in text.split(",") if each.strip()]
    return [(pattern.strip() if equals else "*", level.strip()) for pattern, equals, level in parts]
