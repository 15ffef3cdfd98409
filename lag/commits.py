"""Commits, as the coordinator's compacted topic has them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec
from kafka.structs import TopicPartition

from group_coordinator.coordinator_state.newest import Newest

if TYPE_CHECKING:
    from group_coordinator.lag.book import Book

__all__ = ["Commits"]

log = logging.getLogger(__name__)


class _Offset(msgspec.Struct):
    """As much of an `OffsetPicture` as has to be known."""

    committed_offset: int
    commit_timestamp_ms: int
    topic_id: str = ""


_keys = msgspec.json.Decoder(tuple[str, str, int])
_offsets = msgspec.json.Decoder(_Offset)


class Commits:
    """Writes records of `coordinator.offsets` into a book, and never goes back to an older one."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._newest = Newest()

    def take(self, record: Any) -> None:
        """Take the next record of a partition. One that is none is skipped with a warning."""
        if not self._newest.take(record.key, record.headers):
            return
        try:
            group_id, topic, number = _keys.decode(record.key or b"")
            partition = TopicPartition(topic, number)
            if record.value is None:
                self._book.deleted(group_id, partition)
                return
            offset = _offsets.decode(record.value)
        except (ValueError, RecursionError) as error:
            where = (record.topic, record.partition, record.offset)
            log.warning(
                "%s, partition %d, offset %d is no committed offset and is skipped: %s", *where, error
            )
            return
        at_ms, committed = offset.commit_timestamp_ms, offset.committed_offset
        self._book.committed(group_id, partition, at_ms, committed, offset.topic_id)
