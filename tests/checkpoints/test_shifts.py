from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.checkpoints.shifts import (
    Guard,
    Measured,
    Shift,
    Shifts,
    Span,
    fitted,
    put_right,
)
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import Standstill

DIFFER_MS = 3_000
NOW = 100_000
SPAN = Span(NOW, NOW - 4_000, NOW + 3_500, NOW)
END = 10


def fit(
    *times: int,
    before: list[Shift] | None = None,
    first: int = 0,
    span: Span = SPAN,
    measured_ms: int | None = None,
) -> list[Shift] | None:
    records, end = list(enumerate(times, first)), first + len(times)
    return fitted(before or [], 0, records, end, span, DIFFER_MS, measured_ms)


# -- which times count -------------------------------------------------------------------------------------


def test_a_shift_holds_until_the_next_one_of_its_partition() -> None:
    shifts = Shifts([Shift(0, 5, 10), Shift(1, 0, 99), Shift(0, 8, 0)])
    assert [shifts.at(0, offset) for offset in (4, 5, 7, 8, 9)] == [0, 10, 10, 0, 0]
    assert [shifts.at(1, 0), shifts.at(2, 0)] == [99, 0]


# -- which times are right ---------------------------------------------------------------------------------


def test_a_plan_is_not_before_its_own_watermark() -> None:
    """Log time was an hour ahead of the driver's clock when the batch was planned, and is less so now."""
    span = Guard(ahead_ms=3_500_000, later_ms=3_500, earlier_ms=3_000).span(NOW, NOW + 3_600_000, 0)
    assert span == Span(NOW + 3_600_000, NOW + 3_597_000, NOW + 3_603_500, NOW + 3_600_000)
    shifted = fitted([], 0, [(0, NOW - 2_000), (1, NOW)], 2, span, DIFFER_MS)
    assert shifted is not None
    assert span.has(NOW - 2_000 + Shifts(shifted).at(0, 0))


def test_times_are_right_around_the_plan_and_after_the_watermark() -> None:
    guard = Guard(ahead_ms=50, later_ms=3_500, earlier_ms=3_000)
    assert guard.span(10_000, 9_000, 0) == Span(10_050, 6_000, 13_550, 10_050)


def test_requests_that_there_was_no_room_for_came_when_time_has_waited() -> None:
    guard = Guard(ahead_ms=50, later_ms=3_500, earlier_ms=3_000)
    assert guard.span(10_000, 9_000, 0, had_room=False) == Span(10_050, 6_000, 13_550, 9_000)


def test_requests_of_an_outage_may_be_unread_until_time_has_come_further_than_its_end() -> None:
    guard = Guard(0, 3_500, 3_000, Outage(1_000, 10_000))
    assert guard.span(14_000, 13_000, 0).earliest_ms == -2_000
    assert guard.span(14_000, 13_001, 0).earliest_ms == 10_001


def test_requests_of_a_partition_that_stands_still_are_read_when_that_is_over() -> None:
    standstills = (Standstill(0, 1_000), Standstill(1, 2_000, 10_000))
    guard = Guard(0, 3_500, 3_000, Outage(9_000, 12_000), standstills)
    earliest = [[guard.span(99_000, at_ms, it).earliest_ms for it in (0, 1, 2)] for at_ms in (13_000, 99_000)]
    assert earliest == [[-2_000, -1_000, 6_000], [-2_000, 96_000, 96_000]]


# -- which shifts make them right --------------------------------------------------------------------------


def test_times_that_are_right_need_no_shift() -> None:
    assert fit(NOW - 4_000, NOW, NOW + 3_500) is None
    assert fit() is None
    # Not even where one begins within the batch.
    assert fit(NOW, NOW + 12_000, before=[Shift(0, 1, -12_000)]) is None


def test_a_clock_that_jumps_ahead_counts_as_of_now_from_the_first_wrong_record_on() -> None:
    assert fit(NOW - 200, NOW + 11_900, NOW + 12_000) == [Shift(0, 1, -12_000)]


def test_a_clock_that_is_set_back_counts_as_of_now() -> None:
    assert fit(NOW - 200, NOW - 12_100, NOW - 12_000) == [Shift(0, 1, 12_000)]


def test_a_clock_that_is_right_again_needs_none() -> None:
    before = [Shift(0, 3, -12_000)]
    assert fit(NOW - 50, before=before, first=7) == [*before, Shift(0, 7, 0)]


def test_a_clock_that_was_measured_counts_as_it_was_found() -> None:
    assert fit(NOW - 200, NOW + 11_300, NOW + 11_900, measured_ms=-12_100) == [Shift(0, 1, -12_100)]
    # Also where nobody knows when the request came.
    span = SPAN._replace(newest_ms=NOW - 3_000)
    assert fit(NOW - 12_700, span=span, measured_ms=12_100) == [Shift(0, 0, 12_100)]
    assert fit(NOW - 12_700, span=span) == [Shift(0, 0, 9_700)]


def test_a_clock_that_nobody_has_measured_may_differ_a_little() -> None:
    """Requests that had to wait are as early as they can be, and their clock is behind by a second."""
    span = SPAN._replace(newest_ms=NOW - 1_000)
    before = [Shift(0, 2, -40_000)]
    late = [NOW + 40_000 + it for it in (-5_000, -4_900, -3_000)]
    assert fit(*late, before=before, first=5, span=span) == [
        *before,
        Shift(0, 5, -39_000),
        Shift(0, 7, -40_000),
        Shift(0, 8, -39_000),
    ]
    # One that was measured to be right has jumped since.
    assert fit(NOW - 5_000, span=span, measured_ms=0) == [Shift(0, 0, 4_000)]
    # So has one that differs by more, and requests that did not wait came now.
    assert fit(NOW - 4_000 - DIFFER_MS - 1, span=span) == [Shift(0, 0, 6_001)]
    assert fit(NOW - 5_000) == [Shift(0, 0, 5_000)]


def test_a_clock_has_stamped_what_is_near_the_first_probe_that_has_shown_it() -> None:
    """The batch was planned 2 s before that probe, and clocks may differ by 3 s."""
    measured = Measured(ahead_ms=12_000, at_ms=NOW, offset=9, since_ms=NOW - 1_000)

    def first(*times: int) -> int:
        return measured.first_offset(list(enumerate(times, 5)), NOW - 3_000, DIFFER_MS)

    assert first() == 9
    assert first(NOW - 2_000, NOW + 10_000, NOW + 10_900) == 6
    # It is not this clock's if it has jumped again in between.
    assert first(NOW + 9_000, NOW - 1_500, NOW + 10_900) == 7
    assert first(NOW + 14_001) == 9
    assert first(NOW + 14_000) == first(NOW + 6_000) == 5
    assert first(NOW + 5_999) == 9
    # Each may be so long before the next one, but the first of them would have come before the plan.
    assert first(NOW + 5_000, NOW + 7_000, NOW + 10_900) == 6


def test_a_clock_that_is_put_right_counts_so_from_there_on() -> None:
    """It was put right before, and no batch has read what came since."""
    before = [Shift(1, 70, 0), Shift(0, 50, -500), Shift(0, 60, -12_000), Shift(0, 65, 0)]
    assert put_right(before, 0, 60, 4_000, 1_500) == [*before[:2], Shift(0, 60, 4_000)]
    assert put_right(before, 0, 61, 1_500, 1_500) == [*before[:3], Shift(0, 61, 0)]


def test_what_was_measured_does_not_count_where_it_cannot_be() -> None:
    """The clock has jumped again since, or is right."""
    assert fit(NOW + 12_000, measured_ms=50_000) == [Shift(0, 0, -12_000)]
    before = [Shift(0, 3, -12_000)]
    assert fit(NOW - 50, before=before, first=7, measured_ms=40) == [*before, Shift(0, 7, 0)]


def test_records_that_fit_count_as_before() -> None:
    """They may have been answered."""
    assert fit(NOW + 12_000, NOW - 100, NOW) == [Shift(0, 0, -12_100), Shift(0, 1, 0)]


def test_a_clock_that_was_wrong_for_a_moment_moves_no_other_record() -> None:
    """The middle of the span is 98,000, and the record after it is of long before that."""
    assert fit(96_100, 40_000, 96_900, 99_000) == [Shift(0, 1, 56_900), Shift(0, 2, 0)]
    assert fit(96_100, 160_000, 96_900, 99_000) == [Shift(0, 1, -63_100), Shift(0, 2, 0)]


def test_a_clock_that_was_wrong_for_longer_has_the_room_that_it_needs() -> None:
    # The first of them is not before the span.
    assert fit(40_000, 41_500, 96_900, 99_000) == [Shift(0, 0, 56_000), Shift(0, 2, 0)]


def test_a_clock_that_is_off_by_just_so_much_is_not_noted_again_and_again() -> None:
    """Its newest records fit, but those of the next batch might not."""
    assert fit(NOW - 4_100, NOW - 3_900) == [Shift(0, 0, 2_100), Shift(0, 1, 0), Shift(0, 2, 2_100)]


def test_records_that_come_late_for_a_while_need_few_shifts() -> None:
    """Nobody saw them while a follower of the partition hung; the clock was right."""
    times = [NOW - 30_000 + 10 * it for it in range(3_000)]
    assert len(fit(*times) or []) <= 15


def test_a_batch_that_is_refused_once_more_leaves_nothing_of_the_notes_before() -> None:
    before = [Shift(0, 2, -500), Shift(1, 8, 77), Shift(0, 8, -60_000)]
    after = fit(NOW + 12_000, NOW + 12_100, before=before, first=7)
    assert after == [Shift(0, 2, -500), Shift(1, 8, 77), Shift(0, 7, -12_100)]


moments = st.integers(-200_000, 200_000)


@pytest.mark.drawn
@given(
    times=st.lists(moments, min_size=1, max_size=12),
    known=st.lists(
        st.builds(Shift, st.just(0), st.integers(0, 14), moments), max_size=3, unique_by=lambda it: it[1]
    ),
)
def test_whatever_the_clocks_do_all_fit_then_and_none_that_fit_changes(
    times: list[int], known: list[Shift]
) -> None:
    times = [NOW + time for time in times]
    after = fit(*times, before=known, first=2)
    before, now = Shifts(known), Shifts(known if after is None else after)
    for offset, time in enumerate(times, 2):
        assert SPAN.has(time + now.at(0, offset))
        if SPAN.has(time + before.at(0, offset)):
            assert now.at(0, offset) == before.at(0, offset)
    assert [now.at(0, offset) for offset in (0, 1)] == [before.at(0, offset) for offset in (0, 1)]
    # So it comes to an end.
    assert fit(*times, before=known if after is None else after, first=2) is None
