"""The worst well-formed requests of groups: as many of the smallest elements as one may have, or far more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_TAGS, _NULL, _EMPTY = b"\0", b"\0", b"\1"
"""Compact: no tagged fields, null, and a text, bytes or list without anything."""


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*written, number))


def text(value: bytes) -> bytes:
    """A compact text."""
    return varint(len(value) + 1) + value


def request(api_key: int, version: int, body: bytes, client_id: bytes = b"c") -> bytes:
    """A frame of a flexible version."""
    head = api_key.to_bytes(2) + version.to_bytes(2) + (7).to_bytes(4)
    frame = head + len(client_id).to_bytes(2) + client_id + _NO_TAGS + body
    return len(frame).to_bytes(4) + frame


class Worst(NamedTuple):
    """A request with a list of the smallest elements."""

    api_key: int
    version: int
    before: bytes
    """Of its body, what stands before the list, and behind it."""
    element: bytes
    after: bytes
    others: int = 0
    """Elements of other lists."""
    client_id: bytes = b"c"

    def of(self, elements: int) -> bytes:
        """The frame with so many of them."""
        body = self.before + varint(elements + 1) + self.element * elements + self.after
        return request(self.api_key, self.version, body, self.client_id)


_TIMES = (30_000).to_bytes(4) * 2
_G = text(b"g")
_GENERATION = (1).to_bytes(4)
_PARTITION = bytes(4 + 8 + 4) + _NULL + _NO_TAGS
_JOINING = _G + text(b"m") + bytes(4) + _NULL + _NULL + (30_000).to_bytes(4)

WORST = {
    "OffsetCommit, topics": Worst(
        8, 8, _G + _GENERATION + _EMPTY + _NULL, _EMPTY + _EMPTY + _NO_TAGS, _NO_TAGS
    ),
    "OffsetCommit, partitions": Worst(
        8,
        8,
        _G + _GENERATION + _EMPTY + _NULL + varint(2) + text(b"t"),
        _PARTITION,
        _NO_TAGS + _NO_TAGS,
        others=1,
    ),
    "OffsetFetch, groups": Worst(9, 8, b"", _EMPTY + _NULL + _NO_TAGS, b"\0" + _NO_TAGS),
    "OffsetFetch, topics": Worst(
        9, 8, varint(2) + _G, _EMPTY + _EMPTY + _NO_TAGS, _NO_TAGS + b"\0" + _NO_TAGS, others=1
    ),
    "FindCoordinator": Worst(10, 4, b"\0", _EMPTY, _NO_TAGS),
    "JoinGroup": Worst(
        11, 9, _G + _TIMES + _EMPTY + _NULL + text(b"c"), _EMPTY + _EMPTY + _NO_TAGS, _NULL + _NO_TAGS
    ),
    "LeaveGroup": Worst(13, 5, _G, _EMPTY + _NULL + _NULL + _NO_TAGS, _NO_TAGS),
    "SyncGroup": Worst(
        14,
        5,
        _G + _GENERATION + text(b"m") + _NULL + text(b"c") + text(b"r"),
        _EMPTY + _EMPTY + _NO_TAGS,
        _NO_TAGS,
    ),
    "DescribeGroups": Worst(15, 5, b"", _EMPTY, b"\0" + _NO_TAGS),
    "ListGroups, states": Worst(16, 5, b"", _EMPTY, _EMPTY + _NO_TAGS),
    "DeleteGroups": Worst(42, 2, b"", _EMPTY, _NO_TAGS),
    "ConsumerGroupHeartbeat, names": Worst(68, 1, _JOINING, _EMPTY, _NULL + _NULL + _NULL + _NO_TAGS),
    "ConsumerGroupHeartbeat, topics": Worst(
        68, 1, _JOINING + _NULL + _NULL + _NULL, bytes(16) + _EMPTY + _NO_TAGS, _NO_TAGS
    ),
    "ConsumerGroupHeartbeat, partitions": Worst(
        68,
        1,
        _JOINING + _NULL + _NULL + _NULL + varint(2) + bytes(16),
        bytes(4),
        _NO_TAGS + _NO_TAGS,
        others=1,
    ),
    "ConsumerGroupDescribe": Worst(69, 1, b"", _EMPTY, b"\0" + _NO_TAGS),
}
"""Each list in which a request of groups can have many elements."""


class Counted:
    """A function, and how often it is called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return self._function(*arguments, **named)
