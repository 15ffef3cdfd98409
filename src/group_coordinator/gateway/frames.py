"""Frames: what a peer sends, cut at the lengths that it tells.

Frames that are passed on are never held whole.

    frames = Frames(REQUEST_HEAD_BYTES, begin)
    for piece in frames.receive(data):
        ...

A frame is a length (int32) and as many bytes. Of each frame `begin` is given the first bytes, the head, and
says how the rest comes: as it arrives, or whole.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.gateway.errors import FrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LENGTH_BYTES = 4
REQUEST_HEAD_BYTES = 8
"""API key, version and correlation id."""
RESPONSE_HEAD_BYTES = 4
"""Correlation id."""

_REQUEST_HEAD = struct.Struct(">hhi")


class RequestHead(NamedTuple):
    """The beginning of every request, in each version of its header."""

    api_key: int
    api_version: int
    correlation_id: int


class Request(NamedTuple):
    """A request that was read whole."""

    head: RequestHead
    client_id: str | None
    message: Any
    """One of kafka-python's request classes, of the head's API and version."""
    elements: int = 0
    """Elements of all its lists together."""
    resolved: Any = None
    """The topics that the pattern in it matches (`guarding.Resolution`), once that is known."""


class Piece(NamedTuple):
    """A part of a frame, its length included; all of it if it was wanted whole."""

    data: bytes | memoryview
    is_first: bool
    is_last: bool


def read_request_head(head: bytes) -> RequestHead:
    """Read the first `REQUEST_HEAD_BYTES` of a request."""
    return RequestHead(*_REQUEST_HEAD.unpack(head))


class Frames:
    """Cuts a stream of bytes into frames.

    `begin`: is given the head and the length of a frame. It returns True if the frame is wanted whole, and
    raises `FrameError` if it must not be that long.
    """

    __slots__ = ("_begin", "_head_bytes", "_is_whole", "_kept", "_left", "_needed")

    def __init__(self, head_bytes: int, begin: Callable[[bytes, int], bool]) -> None:
        self._head_bytes = head_bytes
        self._needed = LENGTH_BYTES + head_bytes
        self._begin = begin
        self._kept = bytearray()
        """The begin of a frame whose head is not there yet, or of one that is wanted whole."""
        self._left: int | None = None
        """Bytes of the frame at hand that have not come yet; None before its head is there."""
        self._is_whole = False

    @property
    def bytes_held(self) -> int:
        """Bytes that are kept until more come."""
        return len(self._kept)

    @property
    def is_between(self) -> bool:
        """Whether no frame has begun that is not over."""
        return not self._kept and self._left is None

    def receive(self, data: bytes | memoryview) -> Iterator[Piece]:
        """Take what has arrived, and give out what can be told of it. Raises `FrameError`.

        Pieces may be views of `data`.
        """
        view, position = memoryview(data), 0
        length = len(view) - LENGTH_BYTES
        is_first = self._left is None and not self._kept
        if is_first and length >= self._head_bytes and int.from_bytes(view[:LENGTH_BYTES]) == length:
            # Mostly it is one frame, no less and no more.
            self._begin(bytes(view[LENGTH_BYTES : self._needed]), length)
            yield Piece(view, True, True)
            return
        while position < len(view):
            start, is_first = position, self._left is None
            if is_first:
                position = self._take_head(view, position)
            if self._left is None:
                return
            if self._kept:
                # The head is there already.
                start = position
            end = min(position + self._left, len(view))
            self._left -= end - position
            is_last = self._left == 0
            # Head and body are in one place mostly, and are passed on from there.
            piece: bytes | memoryview = view[start:end]
            position = end
            if self._kept or (self._is_whole and not is_last):
                self._kept += piece
                if self._is_whole and not is_last:
                    continue
                piece = bytes(self._kept)
                # Before it is given out: who takes it may let the next one wait.
                self._kept = bytearray()
            if is_last:
                self._left = None
            yield Piece(piece, is_first or self._is_whole, is_last)

    def _take_head(self, view: memoryview, position: int) -> int:
        """Take in the length and the head; `_left` is set once both are there. Returns where they end."""
        needed = self._needed
        end = position + needed - len(self._kept)
        head: bytes | memoryview = view[position:end]
        if self._kept or len(head) < needed:
            self._kept += head
            head = bytes(self._kept)
        if len(head) >= LENGTH_BYTES:
            length = int.from_bytes(head[:LENGTH_BYTES], signed=True)
            if length < self._head_bytes:
                raise FrameError(f"a frame of {length} bytes: it needs {self._head_bytes} for its head")
            if len(head) == needed:
                self._is_whole = self._begin(bytes(head[LENGTH_BYTES:]), length)
                self._left = length - self._head_bytes
        return end
