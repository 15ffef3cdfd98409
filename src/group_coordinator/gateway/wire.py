"""Numbers, lengths and texts as Kafka's messages have them: two ways of it, by version.

In a flexible version (KIP-482) a length is a varint of one more, and tagged fields end each structure.
Before, a length has two bytes for a text and four for an array, and there are no tagged fields.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.frames import LENGTH_BYTES, REQUEST_HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPACT = 0
"""Instead of the number of bytes that a length takes: it is a varint, of one more."""
LONGEST_TEXT = 2**15 - 1
"""Bytes, also where a compact length could say more (Readable.readString)."""
MOST_TAGS = 100
"""Tagged fields in one place of a frame."""
_VARINT_BYTES = 5
_LENGTHS = {2: struct.Struct(">h").unpack_from, 4: struct.Struct(">i").unpack_from}


class CutError(FrameError):
    """More of the frame would have to be there."""


# -- reading -------------------------------------------------------------------------------------------


def within(data: bytes | bytearray | memoryview, end: int) -> int:
    """Return `end`. Raises `CutError` if it is beyond the end of `data`."""
    if end > len(data):
        raise CutError(f"{end - len(data)} bytes are missing")
    return end


def varint_at(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint; returns it and where it ends. Raises `FrameError`."""
    if position < len(data) and (byte := data[position]) <= 0x7F:  # noqa: PLR2004 - seven bits a byte
        # Almost all of them.
        return byte, position + 1
    value = 0
    for number in range(_VARINT_BYTES):
        if position >= len(data):
            raise CutError("the frame ends within a length")
        byte, position = data[position], position + 1
        value |= (byte & 0x7F) << (7 * number)
        # Java takes more for a negative number.
        if not byte & 0x80 and value <= INT32_MAX:
            return value, position
    raise FrameError("a varint of more than 31 bits")


def length_at(
    data: bytes | bytearray | memoryview, position: int, length_bytes: int, *, is_nullable: bool
) -> tuple[int, int]:
    """Read a length, -1 for null; returns it and where it ends. `length_bytes`: 2, 4 or `COMPACT`.

    Raises `FrameError`.
    """
    if length_bytes == COMPACT:
        length, position = varint_at(data, position)
        length -= 1
    else:
        end = within(data, position + length_bytes)
        (length,), position = _LENGTHS[length_bytes](data, position), end
    if length < -1 or (length == -1 and not is_nullable):
        raise FrameError(f"a length of {length} at {position}")
    return length, position


class Place:
    """A place in a frame, which goes on with each reading. All of them raise `FrameError`."""

    __slots__ = ("_data", "at", "is_flexible")

    def __init__(self, data: bytes | bytearray | memoryview, *, is_flexible: bool, at: int = 0) -> None:
        self._data, self.is_flexible, self.at = data, is_flexible, at

    def since(self, start: int) -> bytes:
        """The bytes between `start` and this place."""
        return bytes(self._data[start : self.at])

    def skip(self, size: int) -> None:
        """Pass over so many bytes."""
        self.at = within(self._data, self.at + size)

    def skip_head(self) -> None:
        """Pass over the length of a request and its header."""
        self.skip(LENGTH_BYTES + REQUEST_HEAD_BYTES)
        # The client's id has a length of two bytes in all versions, which is negative for a null.
        self.skip(max(0, self.number(2)))
        self.skip_tags()

    def number(self, size: int) -> int:
        """Read a signed number of so many bytes."""
        start = self.at
        self.skip(size)
        return int.from_bytes(self._data[start : self.at], signed=True)

    def varint(self) -> int:
        """Read an unsigned varint."""
        value, self.at = varint_at(self._data, self.at)
        return value

    def count(self) -> int:
        """Read the number of elements of an array, which is not null."""
        size = COMPACT if self.is_flexible else 4
        number, self.at = length_at(self._data, self.at, size, is_nullable=False)
        return number

    def text(self) -> bytes:
        """Read a text; a null is an empty one."""
        return self.text_or_null() or b""

    def text_or_null(self) -> bytes | None:
        """Read a text; None for a null."""
        size = COMPACT if self.is_flexible else 2
        length, start = length_at(self._data, self.at, size, is_nullable=True)
        self.at = within(self._data, start + max(length, 0))
        return None if length < 0 else self.since(start)

    def octets(self) -> bytes:
        """Read bytes, which are not null."""
        size = COMPACT if self.is_flexible else 4
        length, start = length_at(self._data, self.at, size, is_nullable=False)
        self.at = within(self._data, start + length)
        return self.since(start)

    def end_of_bytes(self) -> int:
        """Read the length of bytes that follow, and return where they end, perhaps beyond what is there."""
        size = COMPACT if self.is_flexible else 4
        length, start = length_at(self._data, self.at, size, is_nullable=True)
        return start + max(length, 0)

    def skip_tags(self) -> None:
        """Pass over tagged fields, if there are any in this version."""
        for _ in self._tags():
            pass

    def tags(self) -> dict[int, bytes]:
        """Read the tagged fields by number; none if this version has none."""
        return {number: self.since(start) for number, start in self._tags()}

    def _tags(self) -> Iterator[tuple[int, int]]:
        """The number of each tagged field and where it begins; this place is at its end."""
        tags = self.varint() if self.is_flexible else 0
        if tags > MOST_TAGS:
            raise FrameError(f"has {tags} tagged fields in one place, of at most {MOST_TAGS}")
        for _ in range(tags):
            number, size = self.varint(), self.varint()
            start = self.at
            self.skip(size)
            yield number, start


# -- writing -------------------------------------------------------------------------------------------


def varint_of(number: int) -> bytes:
    """Write an unsigned varint."""
    written = bytearray()
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*written, number))


def count(number: int, *, is_flexible: bool) -> bytes:
    """Write the number of elements of an array."""
    return varint_of(number + 1) if is_flexible else number.to_bytes(4)


def text(value: str, *, is_flexible: bool) -> bytes:
    """Write a text with its length."""
    written = value.encode()
    return (varint_of(len(written) + 1) if is_flexible else len(written).to_bytes(2)) + written
