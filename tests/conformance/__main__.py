"""Compares the core with real Kafka brokers for as long as it is asked to.

python -m tests.conformance --minutes 10
python -m tests.conformance --replay '{"setup":"plain","steps":[{"version":3}]}'
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.errors import Errors
from tests.conformance.generator import random_sequence
from tests.conformance.runner import CONCURRENCY, Runner, start_brokers
from tests.conformance.scripted import PATIENT
from tests.conformance.sequence import read_sequence, write_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.driver import Result
    from tests.conformance.sequence import Sequence

_ERRORS = {error.value: error.name for error in Errors}
_PROGRESS_S = 10
_MAX_FAILURES = 10
_PATIENT_MINUTES = 6


def main() -> int:
    """Run as the arguments say; 1 if a difference was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    limit = parser.add_mutually_exclusive_group(required=True)
    limit.add_argument("--minutes", type=float, help="draw sequences for so long")
    limit.add_argument("--sequences", type=int, help="draw so many sequences")
    limit.add_argument("--replay", help="play this sequence, and tell what happens")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first sequence")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY, help="sequences at a time")
    parser.add_argument("--dynamic", action="store_true", help="draw no static members")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        addresses = start_brokers(stack, directory)
        if arguments.replay:
            return asyncio.run(_replay(arguments, addresses))
        return asyncio.run(_explore(arguments, addresses))


async def _replay(arguments: argparse.Namespace, addresses: dict[str, str]) -> int:
    async with Runner(addresses) as runner:
        result = await runner.run(read_sequence(arguments.replay))
    print(result)
    return int(result.verdict != "same")


async def _explore(arguments: argparse.Namespace, addresses: dict[str, str]) -> int:
    failures: list[Result] = []
    started = time.monotonic()
    told = started
    print(f"seeds from {arguments.seed} on", flush=True)
    async with Runner(addresses, arguments.concurrency) as runner:

        def report(result: Result) -> None:
            nonlocal told
            if result.verdict in ("different", "inconclusive"):
                failures.append(result)
                print(f"{result.verdict}: {result.reason}\n  {write_sequence(result.sequence)}", flush=True)
            if time.monotonic() - told >= _PROGRESS_S:
                told = time.monotonic()
                print(_summary(runner, told - started), flush=True)

        until = None if arguments.minutes is None else started + 60 * arguments.minutes
        await runner.run_all(_sequences(arguments), until, report)
        print(_summary(runner, time.monotonic() - started))
        for (state, api, error), count in sorted(runner.answered.items()):
            print(f"    {state:20} {api:14} {_ERRORS.get(error, error)!s:28} {count}")
        for failure in failures[:_MAX_FAILURES]:
            print()
            print(await runner.shrink(failure) if failure.verdict == "different" else failure, flush=True)
    if len(failures) > _MAX_FAILURES:
        print(f"\nand {len(failures) - _MAX_FAILURES} more")
    return int(bool(failures))


def _sequences(arguments: argparse.Namespace) -> Iterator[Sequence]:
    if arguments.minutes is not None and arguments.minutes >= _PATIENT_MINUTES:
        yield from PATIENT.values()
    seeds = itertools.count(arguments.seed)
    for seed in itertools.islice(seeds, arguments.sequences):
        yield random_sequence(random.Random(seed), static=not arguments.dynamic)


def _summary(runner: Runner, seconds: float) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(runner.counts.items()))
    return f"{seconds:.0f} s: {runner.requests} requests, {runner.comparisons} comparisons; {counts}"


if __name__ == "__main__":
    sys.exit(main())
