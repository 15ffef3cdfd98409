"""The event loop of a gateway: uvloop's where it is installed, or asyncio's own."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Make the event loop, for `asyncio.Runner`."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop  # noqa: PLC0415 - an extra

    return uvloop.new_event_loop()
