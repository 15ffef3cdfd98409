"""A sequence of requests as plain data, which one line of text can hold.

    {"setup":"plain","steps":[{"version":3},{"actor":1,"pause":"next"},{"actor":1,"api":"leave"}]}

Each protocol has steps of its own. A field that is not given has its default, which is what a program that
follows the protocol would send.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["Sequence", "read_sequence", "write_sequence"]

_Step = TypeVar("_Step")


class Sequence(msgspec.Struct, Generic[_Step], frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Steps, and the broker they are for (a key of the game's setups)."""

    setup: str
    steps: tuple[_Step, ...]
    nameless: bool = False
    """Whether the group id is empty."""


def write_sequence(sequence: Sequence[Any]) -> str:
    """Write the sequence as one line."""
    return msgspec.json.encode(sequence).decode()


def read_sequence(line: str, step: type[_Step]) -> Sequence[_Step]:
    """Read the sequence that `write_sequence` wrote, of steps of this type."""
    return msgspec.json.decode(line, type=Sequence[step])  # type: ignore[valid-type]
