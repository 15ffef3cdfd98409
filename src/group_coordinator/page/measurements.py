"""Measurements of lag in a bounded amount of memory: of each group the newest, and its lag over time."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from datetime import datetime
from typing import Any, NamedTuple

from group_coordinator.client.lag_log import Measurement, read_measurement
from group_coordinator.history.rows import ms_of, time_of
from group_coordinator.history.story import LagPoint

_LEAST_POINTS = 20


class Limits(NamedTuple):
    """The limits of what is kept. `points`: of all groups together; each has a share of them.

    `partitions`: of the newest measurements of all groups. Groups that are measured no more go first.
    """

    points: int = 500_000
    points_of_group: int = 1_440
    partitions: int = 200_000


LIMITS = Limits()


class _OfGroup:
    """What is kept of one group. `size`: the number of its partitions."""

    def __init__(self) -> None:
        self.newest: Measurement | None = None
        self.size = 0
        self.points: deque[LagPoint] = deque()


class Measurements:
    """The measurements that have been read. For use by several threads."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._groups: OrderedDict[str, _OfGroup] = OrderedDict()
        self._partitions = 0

    def take(self, record: Any) -> None:
        """Take the next record of the topic. One that is no measurement is skipped."""
        measurement = read_measurement(record)
        if measurement is None:
            return
        with self._lock:
            of_group = self._groups.setdefault(measurement.group_id, _OfGroup())
            self._groups.move_to_end(measurement.group_id)
            if of_group.newest is not None and (
                measurement.measured_timestamp_ms <= of_group.newest.measured_timestamp_ms
            ):
                # Two processes measure the group. One line is enough, and it does not go back.
                return
            size = sum(len(topic.partitions) for topic in measurement.topics)
            self._partitions += size - of_group.size
            of_group.newest, of_group.size = measurement, size
            of_group.points.append(
                LagPoint(
                    time_of(measurement.measured_timestamp_ms),
                    time_of(measurement.fresh_until_ms),
                    measurement.records,
                    measurement.age_ms,
                    measurement.at_least,
                )
            )
            share = max(_LEAST_POINTS, self._limits.points // len(self._groups))
            while len(of_group.points) > min(share, self._limits.points_of_group):
                of_group.points.popleft()
            while self._partitions > self._limits.partitions and len(self._groups) > 1:
                _, gone = self._groups.popitem(last=False)
                self._partitions -= gone.size

    def newest(self, group_id: str) -> Measurement | None:
        """The newest measurement of a group, however old it is."""
        with self._lock:
            of_group = self._groups.get(group_id)
            return None if of_group is None else of_group.newest

    def fresh(self, now: datetime) -> dict[str, Measurement]:
        """The measurements that tell of the present, by group id."""
        now_ms = ms_of(now)
        with self._lock:
            newest = {group_id: of_group.newest for group_id, of_group in self._groups.items()}
        return {each: it for each, it in newest.items() if it is not None and it.is_fresh(now_ms)}

    def points(self, group_id: str) -> list[LagPoint]:
        """The lag of a group over time, the oldest first."""
        with self._lock:
            of_group = self._groups.get(group_id)
            return [] if of_group is None else list(of_group.points)
