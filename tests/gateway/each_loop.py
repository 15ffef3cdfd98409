"""Stories that are told on each event loop that a gateway may run on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest
import uvloop

T = TypeVar("T")
_made: list[Callable[[], asyncio.AbstractEventLoop]] = []


@pytest.fixture(
    autouse=True, params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def each_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test of a module that imports this runs once on each of them."""
    _made.append(request.param)
    yield
    _made.clear()


def run(story: Coroutine[Any, Any, T]) -> T:
    """What `asyncio.run` does, on the event loop of the test."""
    with asyncio.Runner(loop_factory=_made[-1]) as runner:
        return runner.run(story)
