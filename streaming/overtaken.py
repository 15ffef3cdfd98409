"""The keys of one batch in the compacted topics, and which of them an older record has overwritten."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka import TopicPartition

from group_coordinator.coordinator_state.newest import place_in

_AGAIN_S = 10.0
"""A correction may be lost, or meet another late record."""
_MOST_BYTES = 128 << 20
_OVERHEAD = 500
"""Bytes that Python needs for a key and its record besides their own, about."""


class Correction(NamedTuple):
    """The newest record of a key, to be written again if an older one comes after it."""

    partition: TopicPartition
    key: bytes
    value: bytes | None
    place: int

    @property
    def size(self) -> int:
        """Bytes that it takes in memory."""
        return _OVERHEAD + len(self.key) + len(self.value or b"")


class _Key:
    __slots__ = ("is_late", "newest", "tried_at")

    def __init__(self, newest: Correction) -> None:
        self.newest = newest
        self.is_late = False
        """Whether the record that stands in the topic is an older one."""
        self.tried_at: float | None = None


class Overtaken:
    """The newest records of the batch's keys.

    `most_bytes`: with more, no other keys are taken in, and `is_full`.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._keys: dict[tuple[str, bytes], _Key] = {}
        self.is_full = False

    def take(self, record: Any, *, is_of_batch: bool) -> bool:
        """Take the next record of its partition; return whether it came late.

        `is_of_batch`: its key may be of the batch. Records of other keys are passed over.
        """
        known = self._keys.get((record.topic, record.key))
        if known is None and not is_of_batch:
            return False
        place = place_in(record.headers)
        if place is None or record.key is None:
            return False
        newest = Correction(TopicPartition(record.topic, record.partition), record.key, record.value, place)
        if known is None:
            self._add(newest)
        elif place < known.newest.place:
            known.is_late = True
            return True
        else:
            self._bytes += newest.size - known.newest.size
            known.newest, known.is_late, known.tried_at = newest, False, None
        return False

    def _add(self, newest: Correction) -> None:
        if self._bytes + newest.size > self._most_bytes:
            self.is_full = True
            return
        self._bytes += newest.size
        self._keys[newest.partition.topic, newest.key] = _Key(newest)

    def due(self, now_s: float) -> list[Correction]:
        """Return the records to write again: at once, and once more later if nothing has come of it."""
        due = [
            each
            for each in self._keys.values()
            if each.is_late and (each.tried_at is None or now_s - each.tried_at >= _AGAIN_S)
        ]
        for each in due:
            each.tried_at = now_s
        return [each.newest for each in due]
