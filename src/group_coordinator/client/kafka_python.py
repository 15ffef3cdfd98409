"""Repairs of kafka-python 3.0.12, which a record of anybody's could otherwise stop for good.

Kafka's own consumer reads a header's name as UTF-8, with a replacement for what is none. kafka-python refuses
the record. And after any record that it refuses, the next `poll` never returns.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch


class _Lenient(bytearray):
    """Bytes whose parts are text of any kind."""

    def __getitem__(self, index: Any) -> Any:
        found: Any = super().__getitem__(index)
        return _Lenient(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:  # noqa: ARG002 - never strict
        return super().decode(encoding, "replace")


def _reading_any_name(read: Any) -> Any:
    @wraps(read)
    def read_record(batch: Any) -> Any:
        try:
            return read(batch)
        except UnicodeDecodeError:
            batch._buffer = _Lenient(batch._buffer)  # noqa: SLF001 - kafka-python's
            return read(batch)

    return read_record


def _ending(take: Any) -> Any:
    @wraps(take)
    def take_records(records: Any, n: int | None = None) -> Any:
        try:
            return take(records, n)
        except Exception:
            # Nobody can read the rest. The next `poll` fetches it again, and says so again.
            records.drain()
            raise

    return take_records


def repair() -> None:
    """Repair kafka-python in this process; once is enough, and more do no harm."""
    if not hasattr(DefaultRecordBatch._read_msg, "__wrapped__"):  # noqa: SLF001 - kafka-python's
        DefaultRecordBatch._read_msg = _reading_any_name(DefaultRecordBatch._read_msg)  # noqa: SLF001
        Fetcher.PartitionRecords.take = _ending(Fetcher.PartitionRecords.take)
