"""What a classic game is made of: requests that were sent, and looks at what the broker shows."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Look", "Move", "Sent"]


class Sent(msgspec.Struct, array_like=True, tag="sent", frozen=True):
    """A request was sent."""

    at_ms: int
    """Since the sequence began, as all times of moves."""
    step: int
    """Of which step of the sequence."""


class Look(msgspec.Struct, array_like=True, tag="look", frozen=True):
    """What the broker showed when everything due had been done."""

    at_ms: int
    """Up to when deadlines had passed."""
    answers: dict[str, dict[str, Any]]
    """What it had answered since the look before, by request id, in the contract's terms."""
    group: dict[str, Any]
    """The group's description and, as `offsets`, all that is committed; in a record only what has changed."""


Move = Sent | Look
