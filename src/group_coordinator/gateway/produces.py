"""The begin of a Produce: whether there will be a response stands in it, behind texts that may be long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.gateway import codec
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.limits import Limits

if TYPE_CHECKING:
    from group_coordinator.gateway.frames import Piece


class ProduceBegin:
    """The pieces of a Produce as long as it is not known whether it has a response."""

    __slots__ = ("_kept", "_look_at", "_version")

    def __init__(self, api_version: int) -> None:
        self._version = api_version
        self._kept = bytearray()
        self._look_at = 0
        """How long it has to be before it is looked at again."""

    def __len__(self) -> int:
        """Bytes that are kept."""
        return len(self._kept)

    def take(self, piece: Piece) -> tuple[bytes | bytearray | memoryview, bool] | None:
        """Take the next piece; returns all that has come, and whether it has a response, once that is known.

        Raises `FrameError`.
        """
        # Mostly the first one is enough.
        begin: bytes | bytearray | memoryview = piece.data
        if self._kept:
            self._kept += begin
            begin = self._kept
            if len(begin) < self._look_at and not piece.is_last:
                # However small the pieces are, the begin is not looked at again and again.
                return None
        acks = codec.produce_acks(begin, self._version)
        if acks is not None:
            return begin, acks != 0
        if not self._kept:
            # A view would keep all that came with it.
            self._kept += begin
        self._look_at = 2 * len(begin)
        if piece.is_last or len(begin) > Limits.local_frame:
            raise FrameError(f"Produce has no acks in its first {len(begin)} bytes")
        return None
