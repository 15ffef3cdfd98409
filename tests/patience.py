"""How tests wait for what is to come."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PATIENCE_S = 240
"""Seconds. Only what never comes takes that long: a busy machine is ten times as slow as a quiet one."""

LOOK_EVERY_S = 0.02


def wait_for(
    condition: Callable[[], T],
    *,
    meanwhile: Callable[[], object] = lambda: time.sleep(LOOK_EVERY_S),
    said: Callable[[], object] = lambda: "",
) -> T:
    """Wait until `condition` is true, and return what it returned.

    `meanwhile` is done between two looks. If it never comes, the failure shows the source of the condition,
    and what `said` says then.
    """
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {PATIENCE_S} s: {_source(condition)}\n{said()}")
        meanwhile()
    return found


async def eventually(condition: Callable[[], object]) -> None:
    """Wait in an event loop until `condition`, which may be a coroutine function, is true."""

    async def is_so() -> object:
        found = condition()
        return await found if inspect.isawaitable(found) else found

    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await is_so():  # noqa: ASYNC110 - it is about anything
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise AssertionError(f"not in {PATIENCE_S} s: {_source(condition)}") from None


def _source(condition: Callable[[], object]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        # It is no Python.
        return repr(condition)
