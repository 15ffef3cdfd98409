"""What anybody may write does not stop kafka-python's consumer."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.errors import UnsupportedCodecError
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.structs import TopicPartition

from group_coordinator.client.kafka_python import repair


class Name(str):
    """A header's name as a client of another language may send it."""

    __slots__ = ()

    def encode(self, *_: object) -> bytes:
        return "Büro".encode("latin-1")


def fetched(headers: list[tuple[str, bytes | None]], codec: int = 0) -> Any:
    """What a fetch has brought of a partition: three records, of which the second has these headers."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset, of_record in enumerate(([], headers, [])):
        builder.append(offset, timestamp=1, key=None, value=b"%d" % offset, headers=of_record)
    batch = bytearray(builder.build())
    batch[22] |= codec
    return Fetcher.PartitionRecords(0, TopicPartition("t", 0), MemoryRecords(bytes(batch)), check_crcs=False)


def test_a_header_may_have_any_name() -> None:
    records = fetched([("a", b"1"), (Name("name"), b"2"), ("ü", None)]).take()

    assert [each.value for each in records] == [b"0", b"1", b"2"]
    assert [each.headers for each in records] == [[], [("a", b"1"), ("B\ufffdro", b"2"), ("ü", None)], []]


def test_of_records_that_cannot_be_read_nothing_is_left_to_try_again() -> None:
    """Otherwise the consumer would try in one `poll`, again and again."""
    records = fetched([], codec=4)
    with pytest.raises(UnsupportedCodecError):
        records.take()
    assert not records


def test_twice_is_as_good_as_once() -> None:
    before = Fetcher.PartitionRecords.take
    repair()
    assert Fetcher.PartitionRecords.take is before
    assert [each.value for each in fetched([]).take(2)] == [b"0", b"1"]
