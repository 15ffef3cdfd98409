"""Makes a failing sequence small: fewer steps first, then plainer ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import fields, replace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.conformance.sequence import Sequence

    AnySequence = Sequence[Any]

_AT_ONCE = 12


async def shrink(sequence: AnySequence, fails: Callable[[AnySequence], Awaitable[bool]]) -> AnySequence:
    """Return a sequence that fails as `sequence` does, and has nothing that can be left out.

    `fails` is asked about several candidates at a time.
    """
    while True:
        smaller = await _first_failing(_with_fewer_steps(sequence), fails)
        if smaller is None:
            smaller = await _first_failing(_with_plainer_steps(sequence), fails)
        if smaller is None:
            return sequence
        sequence = smaller


async def _first_failing(
    candidates: Iterator[AnySequence], fails: Callable[[AnySequence], Awaitable[bool]]
) -> AnySequence | None:
    batch: list[AnySequence] = []
    for candidate in candidates:
        batch.append(candidate)
        if len(batch) == _AT_ONCE:
            if (found := await _any_failing(batch, fails)) is not None:
                return found
            batch = []
    return await _any_failing(batch, fails)


async def _any_failing(
    batch: list[AnySequence], fails: Callable[[AnySequence], Awaitable[bool]]
) -> AnySequence | None:
    failed = await asyncio.gather(*(fails(candidate) for candidate in batch))
    return next((candidate for candidate, fail in zip(batch, failed, strict=True) if fail), None)


def _with_fewer_steps(sequence: AnySequence) -> Iterator[AnySequence]:
    """Leave out steps, half of them at first, and at last each alone."""
    steps = sequence.steps
    size = len(steps) // 2
    while size > 0:
        # From the end: what comes after the difference is not needed in any case.
        for end in range(len(steps), 0, -size):
            yield replace(sequence, steps=steps[: max(end - size, 0)] + steps[end:])
        size //= 2


def _with_plainer_steps(sequence: AnySequence) -> Iterator[AnySequence]:
    """Give one field of one step, or of all steps, its default."""
    steps = sequence.steps
    for field in fields(steps[0]) if steps else ():
        if field.name == "actor":
            continue
        plain = tuple(replace(step, **{field.name: field.default}) for step in steps)
        if plain == steps:
            continue
        yield replace(sequence, steps=plain)
        for place, step in enumerate(plain):
            if step != steps[place]:
                yield replace(sequence, steps=(*steps[:place], step, *steps[place + 1 :]))
