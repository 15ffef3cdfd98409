"""Why a query begins again."""

from __future__ import annotations

import pytest

from group_coordinator.streaming.restarts import Restarts

STALL_MS = 9_000
CATCH_UP_MS = 120_000
GAP_MS = 3_000
CONFLICT = "[CONCURRENT_STREAM_LOG_UPDATE] somebody else"


def restarts(*, catches_up: bool = False) -> Restarts:
    made = Restarts(STALL_MS, GAP_MS)
    made.begins(catches_up=catches_up, ahead_ms=100)
    return made


def test_nothing_is_wrong() -> None:
    it = restarts()
    assert it.stalled(STALL_MS, STALL_MS) is None
    assert it.changed({}, (), 100) is None


@pytest.mark.parametrize(("catches_up", "patience_ms"), [(True, CATCH_UP_MS), (False, STALL_MS)])
def test_a_batch_that_takes_too_long_is_of_no_use(catches_up: bool, patience_ms: int) -> None:
    it = restarts(catches_up=catches_up)
    assert it.patience_ms == patience_ms
    assert it.stalled(patience_ms, 0) is None
    assert it.stalled(patience_ms + 1, 0) == "no batch has ended in time"


def test_nor_are_batches_that_never_read_all_there_is() -> None:
    assert restarts().stalled(0, STALL_MS + 1) == "requests come faster than they are read"
    # While it catches up, nobody waits for that.
    assert restarts(catches_up=True).stalled(0, CATCH_UP_MS + 1) is None


def test_a_first_batch_that_took_too_long_is_given_twice_the_time_until_one_ends() -> None:
    it = restarts(catches_up=True)
    it.was_cut_short()
    it.was_cut_short()
    it.begins(catches_up=False)
    assert it.patience_ms == STALL_MS
    it.begins(catches_up=True)
    assert it.patience_ms == 4 * CATCH_UP_MS
    it.batch_ended()
    assert it.patience_ms == CATCH_UP_MS


@pytest.mark.parametrize(
    ("silent", "healed", "ahead_ms", "reason"),
    [
        ({2: 9.0}, (), 100, "request partition 2 takes no requests"),
        ({2: 9.0, 1: 9.0}, {0}, 100, "request partitions 1, 2 take no requests"),
        ({}, {0}, 100, "request partition 0 takes requests again"),
        ({}, {3, 0}, 9_000, "request partitions 0, 3 take requests again"),
        ({}, (), 100 + GAP_MS, None),
        ({}, (), 101 + GAP_MS, "this machine's clock and log time have come apart"),
        ({}, (), 99 - GAP_MS, "this machine's clock and log time have come apart"),
    ],
)
def test_what_a_query_was_told_may_not_be_true_any_more(
    silent: dict[int, float], healed: set[int], ahead_ms: int, reason: str | None
) -> None:
    assert restarts().changed(silent, healed, ahead_ms) == reason


def test_one_that_catches_up_does_not_end_for_a_partition_that_takes_nothing() -> None:
    """It decides nothing that is due. What it has read is noted before the next one."""
    it = restarts(catches_up=True)
    assert it.changed({2: 9.0}, (), 100) is None
    assert it.changed({2: 9.0}, {0}, 100) == "request partition 0 takes requests again"


def test_it_begins_again_after_a_conflict_but_not_after_one_and_another() -> None:
    it = restarts()
    assert [it.is_conflict(CONFLICT) for _ in range(4)] == [True, True, True, False]
    it.batch_ended()
    assert it.is_conflict(CONFLICT)


def test_it_does_not_begin_again_after_it_has_failed() -> None:
    assert not restarts().is_conflict("[FAILED_READ_FILE] disk")
