"""Transports: what asyncio leaves to be done with a connection, to a client or to a broker."""

from __future__ import annotations

import select
from typing import Any

_HUNG_UP = getattr(select, "POLLRDHUP", select.POLLHUP)
"""Linux alone tells of a side that has only closed its half."""


def has_hung_up(transport: Any) -> bool:
    """Whether the other side has gone. asyncio does not tell that of a transport that is not read."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), _HUNG_UP)
    return bool(poll.poll(0))


def set_reading(transport: Any, is_reading: bool) -> None:  # noqa: FBT001 - a switch
    """Read from a transport or not."""
    if transport.is_closing() or transport.is_reading() == is_reading:
        return
    if is_reading:
        transport.resume_reading()
    else:
        transport.pause_reading()
