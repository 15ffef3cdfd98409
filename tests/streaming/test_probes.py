"""When a partition takes no requests, by the times of its probes."""

from __future__ import annotations

from group_coordinator.streaming.probes import WriteTimes


def times_of(*partitions: int) -> WriteTimes:
    """Of partitions that have answered, and are in doubt no more."""
    times = WriteTimes(partitions, interval_ms=1_500, harmless_ms=3_100, patience_ms=4_000, now_ms=0)
    for partition in partitions:
        write(times, partition, 0)
    assert times.settle([], 0) == {}
    return times


def write(times: WriteTimes, partition: int, now_ms: float, taken_ms: float | None = None) -> None:
    times.sent(partition, now_ms)
    times.taken(partition, now_ms if taken_ms is None else taken_ms)


def test_a_query_begins_when_it_is_known_which_partitions_take_requests() -> None:
    times = WriteTimes([0, 1], interval_ms=1_500, harmless_ms=3_100, patience_ms=4_000, now_ms=0)
    assert times.due(0) == [0, 1]
    write(times, 0, 3_000)
    assert times.settle([], 4_000) is None
    assert times.settle([1], 4_000) == {}
    times.be_patient(1)
    assert times.settle([], 4_001) is None
    times.be_patient(0)
    assert times.settle([], 4_001) == {1: 4_001}
    # Nothing is known of it, so time would wait.
    assert times.unwritten_ms(4_001) == 4_001
    times.begin([1], 4_001)
    assert times.unwritten_ms(4_001) == 1_001


def test_time_waits_for_a_partition_that_was_away_for_too_long_until_that_is_an_outage() -> None:
    times = times_of(0, 1)
    write(times, 0, 1_500, taken_ms=3_100)
    write(times, 1, 1_500, taken_ms=3_101)
    assert times.unwritten_ms(3_200) == 3_200
    assert times.stuck(3_200) == {1}
    write(times, 1, 3_200)
    assert times.unwritten_ms(3_300) == 3_300
    # Which is not so before it has answered again.
    write(times, 0, 3_300)
    times.sent(1, 4_700)
    assert times.settle([], 4_800) is None
    times.taken(1, 4_900)
    assert times.settle([], 4_900) == {}
    assert times.stuck(4_900) == set()
    assert times.unwritten_ms(4_900) == 1_600
    # It goes on counting for one that has not answered for a harmless time.
    times.sent(0, 4_900)
    assert times.settle([], 6_400) == {}
    assert times.settle([], 6_401) is None
    # But not if it was not asked for so long, because no clock was there.
    write(times, 0, 6_500)
    assert times.settle([], 8_000) is None


def test_the_query_restarts_every_20_s_at_most_for_partitions_that_were_not_away_for_long() -> None:
    times = times_of(0)
    write(times, 0, 1_500, taken_ms=5_000)
    assert times.stuck(5_000) == {0}
    times.restarted(5_000)
    write(times, 0, 5_000)
    assert times.settle([], 5_000) == {}
    write(times, 0, 6_500, taken_ms=10_500)
    assert times.stuck(24_999) == set()
    assert times.unwritten_ms(24_999) == 19_999
    assert times.stuck(25_000) == {0}


def test_the_query_restarts_at_once_for_partitions_whose_members_would_expire() -> None:
    times = times_of(0, 1)
    times.restarted(0)
    times.sent(0, 1_500)
    times.sent(1, 1_500)
    assert times.stuck(5_500) == set()
    assert times.stuck(5_501) == {0, 1}
    # Nor may it be over before anybody has looked.
    times.taken(0, 5_501)
    assert times.stuck(5_600) == {0, 1}
    write(times, 0, 5_600)
    assert times.settle([], 5_600) == {1: 4_100}
    times.begin([1], 5_600)
    assert times.stuck(5_600) == set()


def test_a_standstill_that_is_over_was_an_outage() -> None:
    times = times_of(0)
    times.sent(0, 1_500)
    assert times.settle([], 5_501) == {0: 4_001}
    times.begin([0], 5_501)
    times.taken(0, 9_000)
    write(times, 0, 9_000)
    assert times.healed() == {0}
    assert times.settle([], 9_100) == {}
    assert times.stuck(9_100) == set()
    assert times.unwritten_ms(9_100) == 100


def test_a_probe_is_due_an_interval_after_the_last_or_when_that_was_lost() -> None:
    times = times_of(0, 1)
    assert times.due(1_499) == []
    assert times.due(1_500) == [0, 1]
    # Together with a tick earlier.
    assert [times.due(at_ms, ticks=True) for at_ms in (374, 375)] == [[], [0, 1]]
    times.sent(0, 1_500)
    write(times, 1, 1_500)
    assert times.due(2_000) == []
    times.lost(0)
    assert times.due(2_000) == [0]
    times.sent(0, 2_000)
    assert times.due(3_000) == [1]


def test_probes_are_as_seldom_as_ticks_are() -> None:
    times = times_of(0)
    times.ticks(500)
    # The next tick may be later than a probe is harmless that was written before this one.
    assert times.due(100, ticks=True) == [0]
    write(times, 0, 100, taken_ms=150)
    assert [times.due(at_ms) for at_ms in (2_099, 2_100)] == [[], [0]]
    # It has had that leeway, although requests come again.
    times.ticks(0)
    write(times, 0, 3_600, taken_ms=3_700)
    assert times.stuck(3_700) == set()
    assert times.unwritten_ms(3_700) == 100
    assert times.due(5_100) == [0]
    write(times, 0, 6_700, taken_ms=6_701)
    assert times.stuck(6_701) == {0}


def test_who_lets_a_probe_wait_does_not_answer() -> None:
    times = times_of(0, 1)
    assert times.answers(10_000)
    times.sent(0, 1_500)
    assert [times.answers(at_ms) for at_ms in (2_000, 2_001)] == [True, False]
    # Nor if it has refused one, and is asked again.
    times.lost(0)
    times.sent(0, 2_001)
    assert not times.answers(2_002)
    times.begin([0], 2_003)
    assert times.answers(2_003)


def test_time_is_behind_the_partition_that_was_written_first() -> None:
    times = times_of(0, 1)
    write(times, 0, 1_500)
    times.sent(1, 1_700)
    assert times.unwritten_ms(2_000) == 2_000
    times.taken(1, 2_000)
    assert times.unwritten_ms(2_000) == 500
    assert times_of().unwritten_ms(9_000) == 0


def test_a_partition_is_stuck_when_it_was_asked_for_long_however_often() -> None:
    times = times_of(0, 1)
    times.sent(1, 2_000)
    times.lost(1)
    times.sent(1, 5_000)
    assert times.stuck(6_000) == set()
    assert times.stuck(6_001) == {1}
    times.taken(1, 7_000)
    write(times, 0, 7_000)
    assert times.settle([], 8_000) == {}
    assert times.stuck(8_000) == set()


def test_a_partition_that_stands_still_tells_since_when_it_was_asked() -> None:
    times = times_of(0, 1)
    times.sent(1, 1_500)
    times.lost(1)
    times.sent(1, 4_000)
    write(times, 0, 3_000)
    # By then it has not taken the first of them.
    assert [times.settle([], at_ms) for at_ms in (5_501, 6_000)] == [{1: 4_001}, {1: 4_500}]
    assert times.settle([1], 6_000) == {}


def test_kafka_as_a_whole_may_have_been_away_before_a_query_began() -> None:
    times = times_of(0)
    times.sent(0, 1_500)
    times.begin([], 60_000)
    assert times.stuck(64_000) == set()
    assert times.stuck(64_001) == {0}
    assert times.unwritten_ms(64_001) == 64_001
    times.be_patient(64_001)
    assert times.settle([], 68_001) is None


def test_time_does_not_wait_for_a_partition_that_stands_still_until_it_takes_a_probe() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_500)
    times.begin([0], 6_000)
    write(times, 1, 3_000)
    assert times.unwritten_ms(20_000) == 17_000
    assert times.stuck(20_000) == set()
    # A probe of before may have been taken before.
    times.taken(0, 20_000)
    assert times.healed() == set()
    times.begin([0], 21_000)
    write(times, 0, 20_000)
    assert times.healed() == {0}
    times.begin([], 22_000)
    assert times.healed() == set()


def test_partitions_that_nobody_may_write_are_not_asked_again() -> None:
    times = times_of(0, 1)
    times.sent(0, 1_500)
    times.forget_all()
    times.begin([0], 2_000)
    assert times.due(9_000) == []
    assert times.stuck(9_000) == set()
    assert times.settle([0], 9_000) == {}
    assert times.unwritten_ms(9_000) == 0
    # Where it was noted with other rights, it has to begin again some day.
    assert times.healed() == {0}
