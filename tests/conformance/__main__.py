"""Compares the core with real Kafka brokers for as long as it is asked to.

python -m tests.conformance --minutes 10
python -m tests.conformance --record
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
from tests.conformance.recorded import (
    PLAYED,
    SHOWN,
    complaint,
    read_records,
    recorded,
    replay,
    write_records,
)
from tests.conformance.runner import CONCURRENCY, Runner, start_brokers
from tests.conformance.sequence import read_sequence, write_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.game import Result
    from tests.conformance.recorded import Recorded
    from tests.conformance.sequence import Sequence

_ERRORS = {error.value: error.name for error in Errors}
_PROGRESS_S = 10
_MAX_FAILURES = 10
_RECORDED_AT_A_TIME = 12
"""Few enough that a script is not held up by the others."""


def main() -> int:
    """Run as the arguments say; 1 if a difference was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--record",
        nargs="?",
        const="",
        metavar="TEXT",
        help="play the scripts with TEXT in their names first (default: all), and renew their records",
    )
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--minutes", type=float, help="draw sequences for so long")
    limit.add_argument("--sequences", type=int, help="draw so many sequences")
    limit.add_argument("--replay", help="play this sequence, and tell what happens")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first sequence")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY, help="sequences at a time")
    parser.add_argument("--dynamic", action="store_true", help="draw no static members")
    arguments = parser.parse_args()
    limits = (arguments.minutes, arguments.sequences, arguments.replay)
    if arguments.record is None and limits == (None, None, None):
        parser.error("say what to do: --record, --minutes, --sequences or --replay")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        addresses = start_brokers(stack, directory)
        if arguments.replay:
            return asyncio.run(_replay(arguments, addresses))
        is_recorded = arguments.record is None or asyncio.run(_record(arguments.record, addresses))
        if arguments.minutes is None and arguments.sequences is None:
            return int(not is_recorded)
        return asyncio.run(_explore(arguments, addresses)) or int(not is_recorded)


async def _replay(arguments: argparse.Namespace, addresses: dict[str, str]) -> int:
    async with Runner(addresses) as runner:
        result = await runner.run(read_sequence(arguments.replay))
    print(result)
    return int(result.verdict != "same")


async def _record(text: str, addresses: dict[str, str]) -> bool:
    """Renew the records that do not hold any more; False if broker and core differ somewhere."""
    records = {name: record for name, record in read_records().items() if name in PLAYED}
    wrong = []
    async with Runner(addresses, _RECORDED_AT_A_TIME) as runner, asyncio.TaskGroup() as group:

        async def play(name: str) -> None:
            result = await runner.run(PLAYED[name], SHOWN.get(name))
            if complaint(name, result):
                wrong.append(name)
                print(f"{name}: {complaint(name, result)}", flush=True)
            elif not _holds(name, records.get(name)):
                records[name] = recorded(name, result)
                print(f"recorded: {name}", flush=True)

        for name in PLAYED:
            if text in name:
                group.create_task(play(name))
    write_records(records.values())
    print(f"{len(records)} of {len(PLAYED)} scripts have records; broker and core differ in {len(wrong)}")
    return not wrong


def _holds(name: str, record: Recorded | None) -> bool:
    """Whether the record is one of the script as it is, and the core still does the same."""
    if record is None or record.sequence != PLAYED[name]:
        return False
    return not complaint(name, replay(record, SHOWN.get(name)))


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
    seeds = itertools.count(arguments.seed)
    for seed in itertools.islice(seeds, arguments.sequences):
        yield random_sequence(random.Random(seed), static=not arguments.dynamic)


def _summary(runner: Runner, seconds: float) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(runner.counts.items()))
    return f"{seconds:.0f} s: {runner.requests} requests, {runner.comparisons} comparisons; {counts}"


if __name__ == "__main__":
    sys.exit(main())
