"""Records that come late are corrected in the topic, with a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from group_coordinator.coordinator_state.newest import header, place_in
from group_coordinator.streaming import corrections
from group_coordinator.streaming.corrections import Corrections
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.registry import create_topic
from tests.topics import Reader

pytestmark = pytest.mark.spark

Write = Callable[..., None]


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
def watching(topics: list[str], bootstrap_servers: str) -> Iterator[Corrections]:
    with Corrections(topics, {"bootstrap_servers": bootstrap_servers}, 1 << 20) as watching:
        yield watching


@pytest.fixture
def reader(topics: list[str], bootstrap_servers: str) -> Iterator[Reader]:
    with Reader({"bootstrap_servers": bootstrap_servers}, *topics) as reader:
        yield reader


def standing(reader: Reader) -> dict[tuple[str, bytes], tuple[int | None, bytes | None]]:
    """What stands in the topics last, as compaction leaves it: by topic and key."""
    reader.poll()
    return {(record.topic, record.key): (place_in(record.headers), record.value) for record in reader.records}


def yes() -> bool:
    return True


def test_late_records_of_the_batch_are_followed_by_the_newest(
    watching: Corrections, topics: list[str], write: Write, reader: Reader
) -> None:
    groups, offsets = topics
    write(4, b"before")
    with watching.during(yes):
        watching.expect()
        # The batch that runs again, and then others.
        for number in (0, 1):
            write(5, b"batch", number=number)
        write(5, b"batch", b"deleted")
        watching.batch_done()
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
    watching: Corrections, topics: list[str], write: Write, reader: Reader
) -> None:
    is_active = False

    def late() -> None:
        for place in (5, 6, 5):
            write(place, str(place).encode())

    seen: list[Any] = []
    with watching.during(lambda: bool(seen.append(None)) or is_active):
        watching.expect()
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
    watching: Corrections, topics: list[str], write: Write, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrections, "_WATCH_S", 0.0)

    def once(written: int) -> None:
        watching.expect()
        for place in (5, 6, 5):
            write(place)
        wait_for(lambda: standing(reader) and len(reader.records) == written)
        assert standing(reader) == {(topics[0], b"g"): (6, b"v")}
        watching.batch_done()
        wait_for(lambda: watching._consumer is None)

    with watching.during(yes):
        once(written=4)
        once(written=8)
