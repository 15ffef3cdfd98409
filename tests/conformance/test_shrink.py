from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.conformance.classic.sequence import Step
from tests.conformance.sequence import Sequence
from tests.conformance.shrink import shrink


def shrunk(sequence: Sequence, is_wrong: Callable[[Sequence], bool]) -> Sequence:
    async def fails(candidate: Sequence) -> bool:
        await asyncio.sleep(0)
        return is_wrong(candidate)

    return asyncio.run(shrink(sequence, fails))


def sequence_of(*steps: Step) -> Sequence:
    return Sequence("tight", steps)


def test_leaves_out_what_is_not_needed() -> None:
    steps = [Step(actor=number) for number in range(30)]

    smallest = shrunk(sequence_of(*steps), lambda each: {3, 17} <= {step.actor for step in each.steps})

    assert smallest == sequence_of(Step(actor=3), Step(actor=17))


def test_keeps_the_order_and_the_setup() -> None:
    def is_wrong(candidate: Sequence) -> bool:
        apis = [step.api for step in candidate.steps]
        return "sync" in apis and "leave" in apis[apis.index("sync") :]

    smallest = shrunk(
        sequence_of(*(Step(api=api) for api in ("leave", "sync", "join", "leave", "sync"))), is_wrong
    )

    assert smallest == sequence_of(Step(api="sync"), Step(api="leave"))


def test_makes_steps_plain() -> None:
    odd = Step(actor=2, api="join", pause="next", version=3, session=900, protocols="ba", member="nobody")

    smallest = shrunk(
        sequence_of(odd, odd), lambda each: sum(step.protocols == "ba" for step in each.steps) == 2
    )

    assert smallest == sequence_of(Step(actor=2, protocols="ba"), Step(actor=2, protocols="ba"))


def test_what_does_not_get_smaller_stays() -> None:
    sequence = sequence_of(Step(), Step(actor=1))

    assert shrunk(sequence, lambda _candidate: False) == sequence
