"""Records of one group whose large values wait on disk."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from group_coordinator.coordinator_state.log import Record, in_log_order
from group_coordinator.streaming import spool
from group_coordinator.streaming.spool import spooled_in_log_order

SIZES = (0, 10, 999, 1_000, 1_001, 5_000)


def shuffled(seed: int) -> list[Record]:
    dice = random.Random(seed)
    log = [
        Record(
            "requests",
            dice.randrange(2),
            offset,
            dice.randrange(50),
            b"g",
            dice.randbytes(dice.choice(SIZES)),
        )
        for offset in range(60)
    ]
    log[7] = log[7]._replace(value=None)
    dice.shuffle(log)
    return log


def as_appended(record: Record) -> int:
    return record.timestamp_ms


def shifted(record: Record) -> int:
    """As if the clock of one partition had jumped in between."""
    return record.timestamp_ms - 1_000 * (record.partition == 1 and record.offset < 40)


@pytest.mark.parametrize("held", [0, 20_000, 10**9])
@pytest.mark.parametrize("counts", [as_appended, shifted])
@pytest.mark.parametrize("seed", range(5))
def test_order_and_values_are_the_same_wherever_they_waited(
    monkeypatch: pytest.MonkeyPatch, held: int, counts: Callable[[Record], int], seed: int
) -> None:
    monkeypatch.setattr(spool, "_HELD_BYTES", held)
    log = shuffled(seed)
    assert list(spooled_in_log_order(log, counts)) == in_log_order(log, counts)
    assert in_log_order(log, as_appended) == in_log_order(log) != in_log_order(log, shifted)


def test_memory_does_not_grow_with_the_values() -> None:
    def records() -> Iterator[Record]:
        for offset in reversed(range(300)):
            yield Record("requests", 0, offset, 0, b"g", b"%06d" % offset * 50_000)

    tracemalloc.start()
    try:
        for offset, record in enumerate(spooled_in_log_order(records(), as_appended)):
            assert record.value is not None
            assert record.value[:6] == b"%06d" % offset
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 20_000_000, "of 90 MB"
