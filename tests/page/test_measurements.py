from __future__ import annotations

from types import SimpleNamespace

import msgspec

from group_coordinator.client.lag_log import Measurement
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import LagPoint
from group_coordinator.page.measurements import Limits, Measurements
from tests.page.filled import lag_of

NOW_MS = 1_767_225_600_000


def take(found: Measurements, *measurements: Measurement) -> None:
    for each in measurements:
        found.take(SimpleNamespace(value=msgspec.json.encode(each)))


def test_the_newest_and_the_way_to_it() -> None:
    found, lag = Measurements(), lag_of("billing", "work", NOW_MS)
    take(found, *lag)
    # One that comes late, from another process that measures, is passed over.
    take(found, lag[3])
    found.take(SimpleNamespace(topic="coordinator.lag", partition=0, offset=1, value=b"{}"))
    assert found.newest("billing") == lag[-1]
    assert found.fresh(time_of(NOW_MS)) == {"billing": lag[-1]}
    assert found.fresh(time_of(NOW_MS + 5 * 3_600_000)) == {}
    points = found.points("billing")
    assert len(points) == len(lag)
    assert points[-2] == LagPoint(
        time_of(NOW_MS - 15_000), time_of(NOW_MS + 55_000), lag[-2].records, lag[-2].age_ms, at_least=False
    )
    assert (found.newest("other"), found.points("other")) == (None, [])


def test_points_and_partitions_have_limits() -> None:
    found = Measurements(Limits(points=100, points_of_group=60, partitions=2))
    lag = lag_of("a", "work", NOW_MS)
    take(found, *lag)
    assert [each.at for each in found.points("a")] == [time_of(it.measured_timestamp_ms) for it in lag[-60:]]
    # With two groups each has half of them.
    take(found, *lag_of("b", "work", NOW_MS))
    assert len(found.points("b")) == 50
    # With three there are too many partitions: the one that is measured no more goes.
    take(found, *lag_of("c", "work", NOW_MS))
    assert [group_id for group_id in "abc" if found.newest(group_id)] == ["b", "c"]
