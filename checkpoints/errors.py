"""The one error of this package."""

from __future__ import annotations


class CheckpointError(Exception):
    """A checkpoint or an export cannot be used so; the message is one line and says what to do."""
