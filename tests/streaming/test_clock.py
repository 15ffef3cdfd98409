from __future__ import annotations

import itertools
import threading
import time
from contextlib import closing
from itertools import groupby, pairwise
from typing import Any

import msgspec
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from group_coordinator.streaming import clock as clock_module
from group_coordinator.streaming.clock import Clock, ClockStoppedError, Progress
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.leadership import check_alone
from group_coordinator.streaming.log_time import Moment
from group_coordinator.streaming.schedule import Pace
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.ticks import Tick
from group_coordinator.streaming.timers import Timers
from tests.patience import PATIENCE_S, wait_for
from tests.topics import Reader

pytestmark = pytest.mark.spark

CALM = Pace(50, 60_000, 60_000)
_numbers = itertools.count(1)


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    name = f"clock{next(_numbers)}"
    create(admin, name)
    return name


def create(admin: KafkaAdminClient, topic: str, more: dict[str, str] | None = None) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"} | (more or {})
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    admin.wait_for_topics([topic])


def make(topic: str, interval_ms: int, config: dict[str, Any], max_gap_ms: int = 60_000) -> Clock:
    return Clock(topic, Pace(interval_ms, max_gap_ms, max_gap_ms), config, "me")


def read(topic: str, config: dict[str, Any], at_least: int) -> list[Any]:
    """All records of the topic, once there are so many."""
    with Reader(config, topic) as reader:
        reader.until(lambda values: len(values) >= at_least)
        reader.read_to_end()
        return reader.records


def end_of(topic: str, config: dict[str, Any]) -> int:
    consumer = KafkaConsumer(**config, group_id=None)
    (end,) = consumer.end_offsets([TopicPartition(topic, 0)]).values()
    consumer.close()
    return int(end)


def ticks(records: list[Any]) -> list[Tick]:
    return [msgspec.json.decode(record.value, type=Tick) for record in records]


def test_a_second_coordinator_is_told_of_the_first(
    topic: str, bootstrap_servers: str, config: dict[str, Any]
) -> None:
    settings = CoordinatorSettings(
        bootstrap_servers=bootstrap_servers, topics_clock=topic, clock_max_gap_ms=600
    )
    with make(topic, 50, config):
        read(topic, config, at_least=1)
        with pytest.raises(
            CoordinatorError, match=r"^another coordinator of these topics is running, me: stop it"
        ):
            check_alone(settings)
        check_alone(msgspec.structs.replace(settings, standby=True))
    # It has ended in order; before that topic was made, and without Kafka, nothing is known of another one.
    check_alone(settings)
    check_alone(msgspec.structs.replace(settings, topics_clock="not-there"))
    check_alone(msgspec.structs.replace(settings, bootstrap_servers="127.0.0.1:1", kafka={}))


# -- ticks -----------------------------------------------------------------------------------------


def test_ticks_come_one_after_the_other(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 50, config) as clock:
        resumed_ms = clock.resume()
        records = read(topic, config, at_least=6)

    first, *others = ticks(records)
    assert first == Tick(tick=1, coordinator="me")
    assert [tick.tick for tick in others[:5]] == [2, 3, 4, 5, 6]
    # Those that were written before time counted move nothing.
    counting = [tick for tick in others if tick.time_ms]
    assert counting[0].time_ms >= resumed_ms
    assert all(before.time_ms < tick.time_ms <= clock.newest_ms for before, tick in pairwise(counting))
    for tick, record in zip(counting, records[-len(counting) :], strict=True):
        assert tick.time_ms == pytest.approx(record.timestamp, abs=PATIENCE_S * 1000)
    assert {record.key for record in records} == {None}


class Name(str):
    """A header's name as a client of another language may send it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return "Büro".encode("latin-1")


def test_no_record_of_anybodys_ends_it(topic: str, config: dict[str, Any]) -> None:
    hostile = [
        *(b"", b"\xff", b'{"tick":2,"coordinator":"\xff"}', b'{"a":' + b"[" * 100_000),
        *(b'{"tick":2,"leeway_ms":%d}' % (1 << 60), b'{"tick":%d}' % (1 << 80)),
    ]
    with make(topic, 50, config) as clock, closing(KafkaProducer(**config)) as producer:
        for value in hostile:
            producer.send(topic, value, headers=[(Name("name"), b"1")]).get(PATIENCE_S)
        # It reads them before it writes its next ticks.
        wait_for(lambda: clock._reader.position > len(hostile))
        before_ms = clock.newest_ms
        wait_for(lambda: clock.newest_ms > before_ms)


def test_time_is_the_brokers(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 50, config):
        record = read(topic, config, at_least=1)[0]

    log_append_time = 1
    assert record.timestamp_type == log_append_time


def test_time_never_goes_back(topic: str, config: dict[str, Any]) -> None:
    """The checkpoint knows of a later time, because all clocks were an hour ahead."""
    reached_ms = round(time.time() * 1000) + 3_600_000
    with Clock(topic, CALM._replace(max_gap_ms=3_000), config, "me", reached_ms=reached_ms) as clock:
        assert clock.resume() >= reached_ms
        assert clock.ahead_of_driver_ms == pytest.approx(3_600_000, abs=PATIENCE_S * 1000)
        assert clock.skew_ms == pytest.approx(-3_600_000, abs=PATIENCE_S * 1000)
        assert clock.broker_is_off


def test_this_machines_clock_that_is_set_shows(
    topic: str, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log time goes on as before."""
    right = clock_module._now
    with make(topic, 50, config) as clock:
        now_ms = clock.now_ms

        def an_hour_ahead() -> Moment:
            now = right()
            return now._replace(wall_ms=now.wall_ms + 3_600_000)

        monkeypatch.setattr(clock_module, "_now", an_hour_ahead)
        before_ms = clock.newest_ms
        wait_for(lambda: clock.newest_ms > before_ms)
        assert clock.ahead_of_driver_ms == pytest.approx(-3_600_000, abs=PATIENCE_S * 1000)
        assert clock.now_ms == pytest.approx(now_ms, abs=PATIENCE_S * 1000)


def test_the_interval_is_kept(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 200, config):
        times = [record.timestamp for record in read(topic, config, at_least=6)]

    # A busy machine may make the first one late, and any of the others.
    assert times[5] - times[0] >= 5 * 200 - 500
    assert times[5] - times[0] < 5 * 200 + 5_000


def test_a_deadline_that_passes_has_a_tick_of_its_own(topic: str, config: dict[str, Any]) -> None:
    """It follows at once if the one before is read, where regular ones keep half of the interval."""
    timers = Timers()
    progress = Progress(caught_up=lambda: 1_000, timers=timers)
    with Clock(topic, Pace(4_000, 60_000, 60_000), config, "me", progress) as clock:
        first_ms = clock.newest_ms
        told = Timers()
        told.move(None, clock.resume() + 300)
        timers.add(told)
        first, passing, following = ticks(read(topic, config, at_least=3))[:3]
    assert following.time_ms - passing.time_ms < 2_000 <= passing.time_ms - first_ms
    assert [first.tick, passing.tick, following.tick] == [1, 2, 3]


def test_the_first_tick_is_there_at_once(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 3_600_000, config):
        assert [tick.tick for tick in ticks(read(topic, config, at_least=1))] == [1]


def test_a_clock_that_cannot_tick_does_not_start(admin: KafkaAdminClient, config: dict[str, Any]) -> None:
    topic = f"clock{next(_numbers)}"
    create(admin, topic, {"max.message.bytes": "10"})
    clock = make(topic, 50, config)

    with pytest.raises(KafkaError), clock:
        pass

    assert "clock" not in {thread.name for thread in threading.enumerate()}


# -- the end ---------------------------------------------------------------------------------------


def test_the_clock_stops_with_its_context_and_says_so(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 10, config) as clock:
        read(topic, config, at_least=1)
    threads = {thread.name for thread in threading.enumerate()}
    end = end_of(topic, config)
    records = read(topic, config, at_least=2)

    assert clock.failure is None
    assert "clock" not in threads
    assert [tick.last for tick in ticks(records)] == [False] * (len(records) - 1) + [True]
    # What was sent has arrived: nothing trickles in later.
    assert records[-1].offset == end - 1


def test_the_end_does_not_wait_for_the_interval(topic: str, config: dict[str, Any]) -> None:
    begun = time.monotonic()
    with make(topic, 3_600_000, config):
        pass

    assert time.monotonic() - begun < 20


# -- the clock stops by itself ---------------------------------------------------------------------


def test_a_clock_stops_when_another_coordinator_begins(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 50, config) as old, Clock(topic, CALM, config, "another") as new:
        wait_for(lambda: old.failure)
        begun = len(read(topic, config, at_least=1))
        records = read(topic, config, at_least=begun + 3)

        assert str(old.failure) == "another coordinator of these topics has begun, another"
        first = ticks(records)[old.look_from]
        assert (first.tick, first.coordinator) == (1, "another")
        assert new.failure is None
    # Not a word from the old one since, nor of farewell.
    assert {tick.coordinator for tick in ticks(records[begun:])} == {"another"}
    (last,) = [tick for tick in ticks(read(topic, config, at_least=begun + 4)) if tick.last]
    assert last.coordinator == "another"


def test_the_tick_of_an_older_coordinator_stops_nobody(topic: str, config: dict[str, Any]) -> None:
    producer = KafkaProducer(**config)
    with make(topic, 50, config) as clock:
        # As one that was paused, and does not know yet.
        producer.send(topic, b'{"tick":7,"coordinator":"older"}').get(PATIENCE_S)
        seen = len(read(topic, config, at_least=2))
        read(topic, config, at_least=seen + 3)
        assert clock.failure is None
    producer.close()


def test_a_clock_that_cannot_write_stops(topic: str, admin: KafkaAdminClient, config: dict[str, Any]) -> None:
    with make(topic, 50, config | {"metadata_max_age_ms": 200}, max_gap_ms=1_000) as clock:
        admin.delete_topics([topic])
        wait_for(lambda: clock.failure)

        assert isinstance(clock.failure, ClockStoppedError)
    assert "clock" not in {thread.name for thread in threading.enumerate()}


def test_a_clock_that_stood_still_stops(topic: str, config: dict[str, Any]) -> None:
    # A process that is stopped and goes on finds that its interval is over.
    with make(topic, 4_000, config, max_gap_ms=1_000) as clock:
        first_ms = clock.newest_ms
        assert clock.resume() >= first_ms
        wait_for(lambda: clock.failure)
        first, late = ticks(read(topic, config, at_least=2))

        assert str(clock.failure).startswith("the clock stood still for ")
        # Whoever asks for the time then is not told that of long ago.
        with pytest.raises(ClockStoppedError, match="stood still"):
            clock.resume()
    assert (first.tick, late.tick) == (1, 2)
    # It lets nothing pass of the time in which the clock stood still.
    assert late.time_ms == 0


class Beside:
    """Notes what is told, and says what the test says."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.unwritten = 0

    def ticks(self) -> None:
        self.told.append("ticks")

    def ticked(self) -> None:
        self.told.append("ticked")

    def unwritten_ms(self) -> float:
        return self.unwritten


def test_a_clock_that_is_quiet_gives_its_next_tick_leeway(topic: str, config: dict[str, Any]) -> None:
    """From the tick on that says so, until one says that it is quiet no more."""
    quiet = False
    beside = Beside()
    progress = Progress(is_quiet=lambda: quiet, probes=beside)
    pace = Pace(50, 1_000, 60_000, quiet_ms=1_500, leeway_ms=5_000)
    with Clock(topic, pace, config, "me", progress) as clock:
        clock.resume()
        for turn in False, True, False:
            quiet = turn
            beside.told.clear()
            wait_for(lambda: len(beside.told) > 8 or clock.failure)
            assert clock.failure is None
    *written, _last = ticks(read(topic, config, at_least=1))
    assert beside.told[-4:] == ["ticks", "ticked"] * 2
    # Quiet is what comes between.
    assert [it for it, _ in groupby(tick.leeway_ms for tick in written)] == [0, 5_000, 0]
    # But for those that were written before time counted.
    counting = [tick for tick in written if tick.time_ms]
    gaps_ms = [tick.time_ms - before.time_ms for before, tick in pairwise(counting)]
    assert all(
        0 < gap_ms <= 1_000 + before.leeway_ms for before, gap_ms in zip(counting, gaps_ms, strict=False)
    )
    assert max(gaps_ms) > 1_000


def test_a_clock_stops_when_partitions_were_away_for_too_long(topic: str, config: dict[str, Any]) -> None:
    beside = Beside()
    beside.unwritten = 5_000
    with Clock(topic, Pace(50, 1_000, 60_000), config, "me", Progress(probes=beside)) as clock:
        resumed_ms = clock.resume()
        # No time comes, and the clock ticks.
        wait_for(lambda: clock.newest_ms > resumed_ms + 1_500)
        beside.unwritten = 0
        wait_for(lambda: clock.failure)
        assert str(clock.failure).startswith("a request partition took no requests for ")


def test_a_clock_that_stood_still_for_longer_than_its_leeway_stops(
    topic: str, config: dict[str, Any]
) -> None:
    progress = Progress(is_quiet=lambda: True)
    pace = Pace(4_000, 1_000, 60_000, quiet_ms=4_000, leeway_ms=500)
    with Clock(topic, pace, config, "me", progress) as clock:
        clock.resume()
        wait_for(lambda: clock.failure)
        assert str(clock.failure).startswith("the clock stood still for ")


def test_before_time_counts_a_late_tick_stops_nobody(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 2_500, config, max_gap_ms=1_000) as clock:
        first_ms = clock.newest_ms
        read(topic, config, at_least=3)
        assert clock.failure is None
        # A tick can be read a little before its writer is told that it is appended.
        wait_for(lambda: clock.newest_ms >= first_ms + 2_500)
        newest_ms = clock.newest_ms
        # From the newest tick on, not from the first.
        assert clock.resume() >= newest_ms
        wait_for(lambda: clock.failure)
    assert str(clock.failure).startswith("the clock stood still for ")


def test_time_stands_still_until_it_counts(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 50, config) as clock:
        records = read(topic, config, at_least=3)
        assert {tick.time_ms for tick in ticks(records)} == {0}
        held_ms, newest_ms = 1_000, clock.newest_ms
        assert clock.hold(held_ms) >= newest_ms
        wait_for(lambda: ticks(read(topic, config, at_least=3))[-1].time_ms)
        assert {tick.time_ms for tick in ticks(read(topic, config, at_least=3))} == {0, held_ms}


@pytest.mark.parametrize("is_quiet", [False, True])
def test_time_waits_for_the_reader(topic: str, config: dict[str, Any], is_quiet: bool) -> None:
    """Ticks that come less often leave more to the reader."""
    caught_up = 0
    progress = Progress(caught_up=lambda: caught_up, is_quiet=lambda: is_quiet)
    pace = CALM._replace(ahead_ms=2_000, leeway_ms=1_000)
    ahead_ms = 3_000 if is_quiet else 2_000
    with Clock(topic, pace, config, "me", progress) as clock:
        clock.resume()
        records = read(topic, config, at_least=5)
        # None of them was read by the query for which time counts.
        assert {tick.time_ms for tick in ticks(records)} == {0}
        newest = records[-1]
        caught_up = newest.offset + 1

        def stands() -> bool:
            *_, before, last = (tick.time_ms for tick in ticks(read(topic, config, at_least=5)))
            return bool(before == last > 0)

        wait_for(stands)
        come_ms = max(tick.time_ms for tick in ticks(read(topic, config, at_least=5)))
        # It was sent a moment before it was appended.
        assert come_ms - ahead_ms == pytest.approx(newest.timestamp, abs=1_000)


def test_a_clock_stops_when_batches_do_not_end(topic: str, config: dict[str, Any]) -> None:
    reasons: list[str] = []
    progress = Progress(lambda: reasons[0] if reasons else None)
    with Clock(topic, CALM, config, "me", progress) as clock:
        read(topic, config, at_least=3)
        assert clock.failure is None
        reasons.append("no batch has ended in time")
        wait_for(lambda: clock.failure)
        end = end_of(topic, config)

    assert str(clock.failure) == "no batch has ended in time"
    assert end_of(topic, config) == end


def test_a_clock_that_another_one_follows_says_no_farewell(topic: str, config: dict[str, Any]) -> None:
    with make(topic, 50, config) as clock:
        read(topic, config, at_least=2)
        clock.stop()

    assert clock.failure is None
    assert not any(tick.last for tick in ticks(read(topic, config, at_least=2)))
