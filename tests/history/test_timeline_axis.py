from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from group_coordinator.history.timeline.axis import Axis

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def ticks(since: datetime, span: timedelta) -> list[tuple[str, str]]:
    return [(tick.label, tick.day) for tick in Axis(since, since + span, 0, 800).ticks()]


@pytest.mark.parametrize(
    ("span", "first", "count"),
    [
        (timedelta(milliseconds=7), "00.000 s", 8),
        (timedelta(milliseconds=700), "00.000 s", 8),
        (timedelta(seconds=8), "12:00:00", 9),
        (timedelta(seconds=70), "12:00:00", 8),
        (timedelta(minutes=15), "12:00", 8),
        (timedelta(hours=1), "12:00", 7),
        (timedelta(hours=24), "12:00", 9),
        (timedelta(days=8), "2026-02-01", 8),
        (timedelta(days=365), "2026-02-16", 7),
        (timedelta(days=365 * 900), "2065-10-29", 9),
    ],
)
def test_ticks_are_at_round_times(span: timedelta, first: str, count: int) -> None:
    found = ticks(NOON, span)

    assert found[0][0] == first
    assert len(found) == count


def test_a_new_day_is_named_once() -> None:
    assert ticks(NOON, timedelta(hours=16)) == [
        ("12:00", ""),
        ("14:00", ""),
        ("16:00", ""),
        ("18:00", ""),
        ("20:00", ""),
        ("22:00", ""),
        ("00:00", "2026-02-01"),
        ("02:00", ""),
        ("04:00", ""),
    ]


def test_times_are_utc_whatever_zone_they_come_in() -> None:
    there = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))

    assert ticks(there, timedelta(hours=1)) == ticks(NOON, timedelta(hours=1))


def test_places() -> None:
    axis = Axis(NOON, NOON + timedelta(hours=1), 100, 700)

    assert [axis.x(NOON + timedelta(minutes=each)) for each in (-1, 0, 15, 60, 61)] == [
        100,
        100,
        250,
        700,
        700,
    ]
