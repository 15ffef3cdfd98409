"""A sentence of a story, with its evidence."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Sentence(msgspec.Struct, frozen=True):
    """A statement in words that can be shown, with its evidence.

    `event_id`: the event that says so. `log_offset`: its place in its partition of the topic of events.
    `member_id`: the member that it is about. Each is None if it is not known, or if there are several.
    """

    at: datetime
    text: str
    event_id: str | None = None
    log_offset: int | None = None
    member_id: str | None = None
