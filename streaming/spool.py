"""The log of one group in a batch, with its large values on disk until their turn comes.

A batch has as many records as `max.batch.records` allows. All of them may be of one group, and each may be as
large as the request topic allows. They come in any order and have to be sorted. Memory would have to hold
all of them.
"""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.log import Record, in_log_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_HELD_BYTES = 16_000_000
"""Bytes of values of one group that are held in memory, large ones and small ones."""
_SMALL_BYTES = 1_000
"""A value of at most so many bytes is always held. A heartbeat is: to write and read it costs more."""


def spooled_in_log_order(records: Iterable[Record], counts: Callable[[Record], int]) -> Iterable[Record]:
    """Read all records, and do what `in_log_order` does, but hold at most 16 MB of values above 1 kB.

    The others are in a file without a name, which is gone when the iterator over the records is closed or has
    ended. Raises `OSError` if there is no room for it.
    """
    held: list[Record] = []
    held_bytes = 0
    waiting = iter(records)
    for record in waiting:
        held.append(record)
        held_bytes += len(record.value or b"")
        if held_bytes > _HELD_BYTES:
            return _spooled(held, waiting, counts)
    return in_log_order(held, counts)


def _spooled(
    held: list[Record], waiting: Iterator[Record], counts: Callable[[Record], int]
) -> Iterator[Record]:
    places: dict[tuple[int, int], tuple[int, int]] = {}
    with TemporaryFile(prefix="group-coordinator-") as file:
        for record in waiting:
            value = record.value or b""
            if len(value) > _SMALL_BYTES:
                places[record.partition, record.offset] = (file.tell(), len(value))
                file.write(value)
                record = record._replace(value=None)  # noqa: PLW2901
            held.append(record)
        for record in in_log_order(held, counts):
            place = places.get((record.partition, record.offset))
            if place is None:
                yield record
                continue
            position, size = place
            file.seek(position)
            yield record._replace(value=file.read(size))
