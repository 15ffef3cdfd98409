"""Errors of a history."""

from __future__ import annotations


class HistoryError(Exception):
    """The history cannot be written or read; the message is one line and says what to do."""
