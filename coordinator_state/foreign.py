"""The one reader of JSON that somebody else may have written.

Anybody who may write to a topic may write anything there. msgspec raises its own error for most of what is no
JSON. It raises others for text that is not UTF-8, and for values that are nested too deeply.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar, cast

import msgspec

T = TypeVar("T")

UNREADABLE = (ValueError, RecursionError)
"""All that msgspec raises for a text. Its own errors and that of Unicode are ValueErrors."""
MOST_MS = 1 << 42
"""The greatest time and length of time that a record may have: 139 years. Calendars end later."""
Ms = Annotated[int, msgspec.Meta(ge=0, le=MOST_MS)]


class UnreadableError(ValueError):
    """The text is not JSON of that type; the message is one line and says why."""


class ForeignJson(Generic[T]):
    """Reads JSON of one type. `strict` as msgspec has it: False takes numbers that are written as text."""

    def __init__(self, type_: Any, *, strict: bool = True) -> None:
        self._decode = msgspec.json.Decoder(type_, strict=strict).decode

    def read(self, text: bytes | str | None) -> T:
        """Read a value; None is no text. Raises `UnreadableError` for all that is not of the type."""
        try:
            if isinstance(text, bytes) and not text.isascii():
                # msgspec does not look at fields that the type does not have, but others may.
                text.decode()
            return cast("T", self._decode(b"" if text is None else text))
        except UNREADABLE as error:
            raise UnreadableError(str(error)) from None

    def read_or_none(self, text: bytes | str | None) -> T | None:
        """Read a value; None if it is not of the type."""
        try:
            return self.read(text)
        except UnreadableError:
            return None
