"""When a partition takes no requests, by the times of its probes."""

from __future__ import annotations

from group_coordinator.streaming.probes import WriteTimes


def times_of(*partitions: int) -> WriteTimes:
    return WriteTimes(partitions, interval_ms=1_500, patience_ms=4_000, now_ms=0)


def write(times: WriteTimes, partition: int, now_ms: float) -> None:
    times.sent(partition, now_ms)
    times.taken(partition)


def test_a_probe_is_due_an_interval_after_the_last_or_when_that_was_lost() -> None:
    times = times_of(0, 1)
    assert times.due(1_499) == []
    assert times.due(1_500) == [0, 1]
    times.sent(0, 1_500)
    write(times, 1, 1_500)
    assert times.due(2_000) == []
    times.lost(0)
    assert times.due(2_000) == [0]
    times.sent(0, 2_000)
    assert times.due(3_000) == [1]


def test_time_is_behind_the_partition_that_was_written_first() -> None:
    times = times_of(0, 1)
    write(times, 0, 1_500)
    times.sent(1, 1_700)
    assert times.unwritten_ms(2_000) == 2_000
    times.taken(1)
    assert times.unwritten_ms(2_000) == 500
    assert times_of().unwritten_ms(9_000) == 0


def test_a_partition_is_stuck_when_it_was_asked_for_long_however_often() -> None:
    times = times_of(0, 1)
    times.sent(1, 2_000)
    times.lost(1)
    times.sent(1, 5_000)
    assert times.stuck(6_000) == set()
    assert times.stuck(6_001) == {1}
    times.taken(1)
    assert times.stuck(9_000) == set()


def test_kafka_as_a_whole_may_have_been_away_before_a_query_began() -> None:
    times = times_of(0)
    times.sent(0, 1_500)
    times.begin([], 60_000)
    assert times.stuck(64_000) == set()
    assert times.stuck(64_001) == {0}
    assert times.unwritten_ms(64_001) == 64_001


def test_time_does_not_wait_for_a_partition_that_stands_still_until_it_takes_a_probe() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_500)
    times.begin([0], 6_000)
    write(times, 1, 6_000)
    assert times.unwritten_ms(20_000) == 14_000
    assert times.stuck(20_000) == set()
    # A probe of before may have been taken before.
    times.taken(0)
    assert times.healed() == set()
    times.begin([0], 21_000)
    write(times, 0, 20_000)
    assert times.healed() == {0}
    times.begin([], 22_000)
    assert times.healed() == set()


def test_a_partition_that_nobody_may_write_is_not_asked_again() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_500)
    times.forget(0)
    times.begin([0], 2_000)
    assert times.due(9_000) == [1]
    assert times.stuck(9_000) == set()
    assert times.unwritten_ms(9_000) == 9_000
    # Where it was noted with other rights, it has to begin again some day.
    assert times.healed() == {0}
