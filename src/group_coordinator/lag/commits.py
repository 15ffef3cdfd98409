"""Commits, as the coordinator's compacted topic has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from kafka.structs import TopicPartition

from group_coordinator.client.foreign import Skipped, place_of
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.coordinator_state.newest import Newest

if TYPE_CHECKING:
    from group_coordinator.lag.book import Book


class _Offset(msgspec.Struct):
    """As much of an `OffsetPicture` as has to be known."""

    committed_offset: int
    commit_timestamp_ms: int
    topic_id: str = ""


_keys = ForeignJson[tuple[str, str, int]](tuple[str, str, int])
_offsets = ForeignJson[_Offset](_Offset)


class Commits:
    """Writes records of the topic of offsets into a book, and never goes back to an older one."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._newest = Newest()
        self._skipped = Skipped("committed offset")

    def take(self, record: Any) -> None:
        """Take the next record of a partition. One that is none is skipped with a warning."""
        if not self._newest.take(record.key, record.headers):
            return
        try:
            group_id, topic, number = _keys.read(record.key)
            partition = TopicPartition(topic, number)
            offset = None if record.value is None else _offsets.read(record.value)
        except UnreadableError as error:
            self._skipped.skip(place_of(record), error)
            return
        if offset is None or offset.committed_offset < 0:
            # Kafka takes a negative offset from a client, and tells others that nothing is committed.
            self._book.deleted(group_id, partition)
            return
        at_ms, committed = offset.commit_timestamp_ms, offset.committed_offset
        self._book.committed(group_id, partition, at_ms, committed, offset.topic_id)
