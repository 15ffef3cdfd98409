"""Records that come late are corrected in the topic, with a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition

from group_coordinator.coordinator_state.newest import header, place_in
from group_coordinator.streaming import corrections
from group_coordinator.streaming.corrections import Corrections
from tests.checkpoints.in_memory import Files
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.registry import create_topic
from tests.streaming.turn import Turn, yes
from tests.topics import Reader

pytestmark = pytest.mark.spark

Write = Callable[..., None]

NOW_MS = 1_700_000_000_000


@pytest.fixture
def topics(bootstrap_servers: str) -> list[str]:
    return [create_topic(bootstrap_servers, 2, **{"cleanup.policy": "compact"}) for _ in range(2)]


@pytest.fixture
def write(topics: list[str], bootstrap_servers: str) -> Iterator[Write]:
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)

    def write(place: int, value: bytes | None = b"v", key: bytes = b"g", number: int = 0) -> None:
        headers = [header(place)]
        producer.send(topics[number], key=key, value=value, headers=headers).get(PATIENCE_S)

    yield write
    producer.close()


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def make(topics: list[str], bootstrap_servers: str, turn: Turn) -> Callable[[], Corrections]:
    """Makes those of one coordinator after the other, with one checkpoint."""
    files: Any = Files()
    config = {"bootstrap_servers": bootstrap_servers}
    return lambda: Corrections(files, topics, config, 1 << 20, turn.is_active)


@pytest.fixture
def watching(make: Callable[[], Corrections]) -> Iterator[Corrections]:
    with make() as watching:
        yield watching


@pytest.fixture
def reader(topics: list[str], bootstrap_servers: str) -> Iterator[Reader]:
    with Reader({"bootstrap_servers": bootstrap_servers}, *topics) as reader:
        yield reader


def standing(reader: Reader) -> dict[tuple[str, bytes], tuple[int | None, bytes | None]]:
    """What stands in the topics last, as compaction leaves it: by topic and key."""
    reader.poll()
    return {(record.topic, record.key): (place_in(record.headers), record.value) for record in reader.records}


def test_late_records_of_the_batch_are_followed_by_the_newest(
    watching: Corrections, turn: Turn, topics: list[str], write: Write, reader: Reader
) -> None:
    groups, offsets = topics
    write(4, b"before")
    with turn.during():
        watching.begin(NOW_MS, runs_again=True)
        # The batch that runs again, and then others.
        for number in (0, 1):
            write(5, b"batch", number=number)
        write(5, b"batch", b"deleted")
        watching.begin(NOW_MS, runs_again=False)
        for number in (0, 1):
            write(6, b"newer", number=number)
        write(6, None, b"deleted")
        # The other one writes it as well.
        for number in (0, 1):
            write(5, b"batch", number=number)
        write(5, b"batch", b"deleted")
        right = {
            (groups, b"g"): (6, b"newer"),
            (offsets, b"g"): (6, b"newer"),
            (groups, b"deleted"): (6, None),
        }
        # Each late record, and then its correction.
        wait_for(lambda: standing(reader) == right and len(reader.records) == 1 + 3 * 4)
        # As it goes on writing, so does this one.
        write(5, b"batch")
        wait_for(lambda: standing(reader) == right and len(reader.records) == 1 + 3 * 4 + 2)


def test_one_that_is_not_active_itself_corrects_nothing(
    watching: Corrections, turn: Turn, topics: list[str], write: Write, reader: Reader
) -> None:
    is_active = False

    def late() -> None:
        for place in (5, 6, 5):
            write(place, str(place).encode())

    seen: list[Any] = []
    with turn.during(lambda: bool(seen.append(None)) or is_active):
        watching.begin(NOW_MS, runs_again=True)
        late()
        # The first and the last of the three look alike.
        wait_for(lambda: standing(reader) == {(topics[0], b"g"): (5, b"5")} and len(reader.records) == 3)
        asked = len(seen)
        # It has looked at the topics again since.
        wait_for(lambda: len(seen) > asked + 2)
        assert standing(reader) == {(topics[0], b"g"): (5, b"5")}
        is_active = True
        wait_for(lambda: standing(reader) == {(topics[0], b"g"): (6, b"6")})


def test_it_watches_for_some_time_and_again_when_another_batch_is_expected(
    watching: Corrections,
    turn: Turn,
    topics: list[str],
    write: Write,
    reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corrections, "_WATCH_S", 0.0)

    def once(written: int) -> None:
        watching.begin(NOW_MS, runs_again=True)
        for place in (5, 6, 5):
            write(place)
        wait_for(lambda: standing(reader) and len(reader.records) == written)
        assert standing(reader) == {(topics[0], b"g"): (6, b"v")}
        watching.begin(NOW_MS, runs_again=False)
        wait_for(lambda: watching._consumer is None)

    with turn.during():
        once(written=4)
        once(written=8)


def test_the_third_coordinator_goes_on_with_what_the_second_one_was_watching(
    make: Callable[[], Corrections], turn: Turn, topics: list[str], write: Write, reader: Reader
) -> None:
    write(4)
    with make() as second, turn.during():
        second.begin(NOW_MS, runs_again=True)
        for place in (5, 6, 7):
            write(place)
        second.begin(NOW_MS, runs_again=False)
    write(8)
    with make() as third, turn.during():
        third.begin(NOW_MS + 599_999, runs_again=False)
        # One of the batch of the first one. What the second one has written to the key is no correction.
        write(5)
        wait_for(lambda: standing(reader) == {(topics[0], b"g"): (8, b"v")} and len(reader.records) == 7)
        # Keys of later batches are not concerned.
        for place in (9, 8):
            write(place, key=b"later")
        write(5)
        wait_for(lambda: len(reader.records) == 11, meanwhile=reader.poll)
        newest = standing(reader)
        assert newest == {(topics[0], b"g"): (8, b"v"), (topics[0], b"later"): (8, b"v")}


def test_nothing_is_written_before_all_is_read_that_was_there(
    make: Callable[[], Corrections], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that is the newest so far may be older than the one that stands in the topic."""
    partition = TopicPartition("groups", 0)
    records = [
        SimpleNamespace(
            topic="groups", partition=0, key=b"g", value=b"v", offset=offset, headers=[header(place)]
        )
        for offset, place in enumerate((7, 5, 9, 6))
    ]
    written: list[int] = []
    third = make()
    third._begins = {partition: 3}
    third._is_active = yes
    monkeypatch.setattr(third, "_write", lambda due: written.append(len(due)))

    class Consumer:
        read = 0

        def position(self, _: TopicPartition) -> int:
            return self.read

        def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            assert timeout_ms
            self.read += 1
            if self.read == len(records):
                third._stopping.set()
            return {partition: [records[self.read - 1]]}

    third._watch(Consumer())
    # With the third record nothing is late, and with the fourth one is again.
    assert written == [0, 1]


def test_ten_minutes_after_a_takeover_nothing_is_watched(
    make: Callable[[], Corrections], turn: Turn, write: Write
) -> None:
    with make() as second, turn.during():
        second.begin(NOW_MS, runs_again=True)
    with make() as third, turn.during():
        third.begin(NOW_MS + 600_000, runs_again=False)
        assert third._consumer is None
