"""The parts that values of records are made of, as all kinds have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.wire import LONGEST_TEXT, Place

if TYPE_CHECKING:
    from collections.abc import Callable

UUID_BYTES = 16

T = TypeVar("T")


class NewerError(FrameError):
    """The value is of a version that is not known."""


def read_value(
    value: bytes | None, read: Callable[[Place, int], T], newest: int, first_flexible: int
) -> T | None:
    """Read a value of version 0 to `newest`; None for a tombstone.

    `read` is given the place behind the version, and the version. Since `first_flexible` a version has
    compact lengths and tagged fields.
    """
    if value is None:
        return None
    version = Place(value, is_flexible=False).number(2)
    if not 0 <= version <= newest:
        raise NewerError(f"a value of version {version}, and not of 0 to {newest}")
    return read(Place(value, is_flexible=version >= first_flexible, at=2), version)


def text(place: Place) -> str:
    """Read a text, which is not null."""
    found = text_or_none(place)
    if found is None:
        raise FrameError(f"null before {place.at}, where a text has to be")
    return found


def text_or_none(place: Place) -> str | None:
    """Read a text; None for null."""
    found = place.text_or_null()
    if found is None:
        return None
    read = found.decode(errors="replace")
    if not is_writable(read):
        raise FrameError(f"a text of {len(found)} bytes before {place.at}, which cannot be written again")
    return read


def is_writable(read: str) -> bool:
    """Whether a text is short enough for Kafka's messages. A byte that is not UTF-8 has become three."""
    return len(read.encode()) <= LONGEST_TEXT


def limited_ms(ms: int) -> int:
    """Milliseconds that a reader of the contract takes."""
    return max(0, min(ms, MOST_MS))


def uuid_of(topic_id: bytes) -> str:
    """An id as it is everywhere; empty if there is none, or if it is of another length."""
    return str(UUID(bytes=topic_id)) if len(topic_id) == UUID_BYTES and any(topic_id) else ""
