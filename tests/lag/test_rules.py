"""The rules of lag: the age of records, Burrow's rules, and the trend."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.lag.course import Course, Status
from group_coordinator.lag.ends import Ends, Passed
from group_coordinator.lag.trend import Direction, Trend, Trends

LOOK_MS = 15_000


# -- how old a record is ---------------------------------------------------------------------------------


def ends(*samples: tuple[int, int]) -> Ends:
    made = Ends()
    for at_ms, end in samples:
        made.add(at_ms, end)
    return made


@pytest.mark.parametrize(
    ("samples", "offset", "passed"),
    [
        ([], 0, None),
        ([(0, 10)], 10, None),
        ([(0, 10)], 12, None),
        # Nobody knows how long it has been there.
        ([(0, 10), (100, 10)], 9, Passed(0, 0, is_at_least=True)),
        ([(0, 10), (100, 20)], 10, Passed(10, 90)),
        ([(0, 10), (100, 20)], 14, Passed(50, 50)),
        ([(0, 10), (100, 20)], 19, Passed(100, 100)),
        # The log has stood still before: the record is not of that time.
        ([(0, 10), (100, 10), (200, 10), (300, 11)], 10, Passed(300, 100)),
        ([(0, 10), (100, 20), (200, 20), (300, 30)], 20, Passed(210, 90)),
        # The topic was made again.
        ([(0, 10), (100, 20), (200, 5)], 4, Passed(200, 0, is_at_least=True)),
        ([(0, 10), (100, 20), (200, 5), (300, 7)], 5, Passed(250, 50)),
    ],
)
def test_when_a_record_was_written(
    samples: list[tuple[int, int]], offset: int, passed: Passed | None
) -> None:
    assert ends(*samples).passed(offset) == passed


@given(st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 50)), min_size=2, max_size=2_000), st.data())
def test_the_error_is_not_larger_than_it_says(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    at_ms = end = 0
    written: list[tuple[int, int]] = []
    """Of each record, the times of the samples before it and after it."""
    made = ends((0, 0))
    for gap_ms, grown in steps:
        written += [(at_ms, at_ms + gap_ms)] * grown
        at_ms, end = at_ms + gap_ms, end + grown
        made.add(at_ms, end)
    assert made.newest == end
    assert len(made._samples) <= 240
    if written:
        offset = data.draw(st.integers(0, end - 1))
        passed = made.passed(offset)
        assert passed is not None
        assert not passed.is_at_least
        earliest, latest = written[offset]
        assert passed.at_ms - passed.error_ms <= latest
        assert passed.at_ms + passed.error_ms >= earliest


# -- Burrow's rules --------------------------------------------------------------------------------------


def course(*commits: tuple[int, int, int], measured: tuple[int, ...] = ()) -> Course:
    """`commits`: second, offset and end of each."""
    made = Course()
    for at_s, offset, end in commits:
        made.commits(at_s * 1_000, offset, end)
    for lag in measured or [end - offset for _, offset, end in commits[-1:]]:
        made.measured(lag)
    return made


@pytest.mark.parametrize(
    ("commits", "status"),
    [
        ([], Status.OK),
        ([(0, 5, 9)], Status.OK),
        ([(0, 5, 9), (5, 5, 9)], Status.OK),
        # Stalled: it commits the same offset, and the lag does not fall.
        ([(0, 5, 9), (5, 5, 9), (10, 5, 9)], Status.STALLED),
        ([(0, 5, 9), (5, 5, 10), (10, 5, 12)], Status.STALLED),
        ([(0, 4, 9), (5, 5, 10), (10, 5, 10)], Status.OK),
        # Lagging: it commits, and falls behind with each commit.
        ([(0, 5, 9), (5, 6, 12), (10, 7, 15)], Status.LAGGING),
        ([(0, 5, 9), (5, 6, 12), (10, 9, 12)], Status.OK),
        ([(0, 5, 9), (5, 6, 10), (10, 7, 11)], Status.OK),
        # It had no lag at some time.
        ([(0, 5, 5), (5, 5, 9), (10, 5, 12)], Status.OK),
        ([(0, 5, 9), (5, 5, 9), (10, 9, 9)], Status.OK),
        # Rewound: it has gone back, until it is where it was.
        ([(0, 5, 9), (5, 7, 9), (10, 2, 9)], Status.REWOUND),
        ([(0, 9, 9), (5, 2, 9)], Status.REWOUND),
        ([(0, 5, 9), (5, 2, 9), (10, 6, 9)], Status.OK),
        # A commit within a second takes the place of the one before.
        ([(0, 5, 9), (5, 5, 9), (5, 6, 9)], Status.OK),
    ],
)
def test_what_commits_tell(commits: list[tuple[int, int, int]], status: Status) -> None:
    now_ms = commits[-1][0] * 1_000 if commits else 0
    assert course(*commits).status(now_ms) is status


COMMITS = [(at_s, at_s, 1_000) for at_s in range(0, 50, 5)]


@pytest.mark.parametrize(
    ("measured", "silent_s", "status"),
    [
        ((900,) * 10, 46, Status.STOPPED),
        ((900,) * 10, 45, Status.OK),
        # It is watched for too short a time.
        ((900,) * 9, 3_600, Status.OK),
        # It had no lag lately: a new record has come, and it gets time to see it.
        ((0, *(900,) * 9), 3_600, Status.OK),
        ((0, *(900,) * 10), 3_600, Status.STOPPED),
        ((*(900,) * 10, 0), 3_600, Status.OK),
    ],
)
def test_a_group_that_commits_no_more(measured: tuple[int, ...], silent_s: int, status: Status) -> None:
    judged = course(*COMMITS, measured=measured).status((45 + silent_s) * 1_000)
    assert judged is status


@pytest.mark.parametrize(
    ("offsets", "status"),
    [(range(100), Status.OK), ([5] * 100, Status.STALLED)],
    ids=["works", "stands still"],
)
def test_a_group_that_commits_twice_a_second(offsets: Sequence[int], status: Status) -> None:
    made = Course()
    for number, offset in enumerate(offsets):
        made.commits(number * 500, offset, 1_000)
        made.measured(1_000 - offset)
    assert made.status(100 * 500) is status


def test_a_group_of_which_one_commit_was_read_stops_as_well() -> None:
    """As after a start of the program, when there is only the newest commit of each partition."""
    made = Course()
    made.commits(0, 5, None)
    assert made.status(0) is Status.OK
    for number in range(1, 11):
        made.measured(4)
        assert made.status(number * LOOK_MS) is (Status.STOPPED if number == 10 else Status.OK)


def test_a_commit_gets_its_lag_from_the_next_measurement() -> None:
    made = course((0, 5, 9), (5, 5, 9))
    made.commits(10_000, 5, None)
    assert made.status(10_000) is Status.OK
    made.measured(4)
    assert made.status(10_000) is Status.STALLED


# -- the trend -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lags", "trend"),
    [
        ([], Trend(Direction.STEADY)),
        (range(11), Trend(Direction.STEADY)),
        (range(12), Trend(Direction.GROWING)),
        ([0] * 20, Trend(Direction.STEADY)),
        # Up and down, as a consumer in batches makes it.
        ([0, 900, 100, 950, 50, 980, 20, 990] * 2, Trend(Direction.STEADY)),
        ([*range(10), 9, *range(11, 20)], Trend(Direction.STEADY)),
        # 10 less at each look, and 50 are left.
        (range(160, 40, -10), Trend(Direction.CLEARING, 5 * LOOK_MS)),
        ([*range(110, 0, -10), 0], Trend(Direction.CLEARING, 0)),
        # What was before the window does not count.
        ([10**6, *range(100)], Trend(Direction.GROWING)),
    ],
)
def test_where_a_lag_goes(lags: Sequence[int], trend: Trend) -> None:
    trends = Trends()
    for number, lag in enumerate(lags):
        trends.add(number * LOOK_MS, lag)
    assert trends.trend() == trend
