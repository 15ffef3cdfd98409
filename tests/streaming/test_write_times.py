"""When a partition takes no requests, by the times of its probes."""

from __future__ import annotations

from group_coordinator.streaming.write_times import WriteTimes


def times_of(*partitions: int) -> WriteTimes:
    """Of partitions that have answered at time 0."""
    times = WriteTimes(partitions, patience_ms=4_000, now_ms=0)
    for partition in partitions:
        write(times, partition, 0)
    return times


def write(times: WriteTimes, partition: int, now_ms: float, taken_ms: float | None = None) -> float:
    times.sent(partition, now_ms)
    return times.taken(partition, now_ms if taken_ms is None else taken_ms)


def tick(times: WriteTimes, until_ms: int) -> None:
    """Let the clock's partition take a tick each second, the last one then."""
    for at_ms in range(until_ms % 1_000, until_ms + 1, 1_000):
        times.ticked(at_ms)


def test_a_probe_goes_beside_each_tick_and_again_when_it_was_lost() -> None:
    times = times_of(0, 1)
    assert times.due(ticks=False) == []
    assert times.due(ticks=True) == [0, 1]
    times.sent(0, 1_000)
    # One is on its way.
    assert times.due(ticks=True) == [1]
    write(times, 1, 1_000)
    times.lost(0)
    assert times.due(ticks=False) == [0]
    times.sent(0, 1_200)
    assert times.due(ticks=False) == []
    assert len(times) == 2


def test_all_are_asked_at_first() -> None:
    times = WriteTimes([0, 1], patience_ms=4_000, now_ms=0)
    assert times.due(ticks=False) == [0, 1]
    assert times.unwritten_ms(500) == 500
    assert times.unknown() == {0, 1}
    write(times, 0, 100)
    assert times.unknown() == {1}
    tick(times, 4_001)
    assert times.silent() == {1: 0}
    assert times.unknown() == set()
    times.begin([1])
    assert times.unknown() == set()


def test_time_is_behind_the_partition_that_was_written_first() -> None:
    times = times_of(0, 1)
    assert write(times, 0, 1_500, taken_ms=1_600) == 100
    times.sent(1, 1_700)
    assert times.unwritten_ms(2_000) == 2_000
    times.taken(1, 2_000)
    # It is when it was sent that counts: how long it took nobody knows.
    assert times.unwritten_ms(2_000) == 500
    assert times_of().unwritten_ms(9_000) == 0


def test_a_partition_is_silent_when_it_was_asked_for_long_however_often() -> None:
    times = times_of(0, 1)
    times.sent(1, 2_000)
    times.lost(1)
    times.sent(1, 5_000)
    tick(times, 6_000)
    assert times.silent() == {}
    times.ticked(6_001)
    assert times.silent() == {1: 2_000}
    times.taken(1, 7_000)
    times.ticked(7_001)
    assert times.silent() == {}


def test_it_is_silent_only_while_the_clock_s_partition_takes_ticks() -> None:
    times = times_of(0)
    times.ticked(1_000)
    times.sent(0, 1_000)
    # Kafka is away, or this process.
    assert times.silent() == {}
    times.ticked(60_000)
    assert times.silent() == {}
    times.ticked(64_000)
    assert times.silent() == {}
    times.ticked(64_001)
    assert times.silent() == {0: 1_000}


def test_a_query_that_restarts_meanwhile_makes_no_difference() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_000)
    tick(times, 3_000)
    times.begin([])
    # As long as ticks may be apart.
    times.ticked(7_000)
    assert times.silent() == {0: 1_000}


def test_time_does_not_wait_for_a_partition_that_stands_still_until_it_takes_a_probe() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_500)
    write(times, 1, 3_000)
    tick(times, 6_000)
    times.begin(times.silent())
    assert times.silent() == {}
    assert times.healed() == set()
    assert times.unwritten_ms(20_000) == 17_000
    times.lost(0)
    times.sent(0, 19_000)
    assert times.healed() == set()
    times.taken(0, 20_000)
    assert times.healed() == {0}
    times.sent(0, 20_500)
    # It may take nothing again before that is noted.
    assert times.healed() == set()
    times.taken(0, 20_600)
    times.begin([])
    assert times.healed() == set()
    assert times.unwritten_ms(20_600) == 17_600


def test_partitions_that_nobody_may_write_are_not_asked_again() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_500)
    times.forget_all()
    tick(times, 9_000)
    times.begin([0])
    assert times.due(ticks=True) == []
    assert times.silent() == {}
    assert times.unwritten_ms(9_000) == 0
    # Where it was noted with other rights, it has to begin again some day.
    assert times.healed() == {0}
