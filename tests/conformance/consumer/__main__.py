"""Compares the core's consumer groups with real Kafka 4.4 brokers for as long as it is asked to.

python -m tests.conformance.consumer --minutes 10
python -m tests.conformance.consumer --record
python -m tests.conformance.consumer --play 'group 2, join 2, settled 3'
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

from tests.conformance.consumer.generator import random_sequence
from tests.conformance.consumer.recorded import (
    PLAYED,
    SHOWN,
    checksum,
    complaint,
    read_records,
    recorded,
    write_records,
)
from tests.conformance.consumer.replay import replay
from tests.conformance.consumer.runner import CONCURRENCY, Runner, start_brokers
from tests.conformance.consumer.sequence import Sequence
from tests.conformance.consumer.setups import SETUPS
from tests.conformance.consumer.steps import script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.consumer.game import Result
    from tests.conformance.consumer.recorded import Recorded
    from tests.conformance.consumer.runner import Broker

_PROGRESS_S = 10
_MAX_FAILURES = 10


def main() -> int:
    """Run as the arguments say; 1 if a difference was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.consumer", description=(__doc__ or "").splitlines()[0]
    )
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
    limit.add_argument("--play", metavar="STEPS", help="play this script, and tell what happens")
    parser.add_argument("--setup", choices=list(SETUPS), default="plain", help="the broker of the script")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first sequence")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY, help="sequences at a time")
    arguments = parser.parse_args()
    if arguments.record is None and {arguments.minutes, arguments.sequences, arguments.play} == {None}:
        parser.error("say what to do: --record, --minutes, --sequences or --play")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        brokers = start_brokers(stack, directory)
        return asyncio.run(_run(arguments, brokers))


async def _run(arguments: argparse.Namespace, brokers: dict[str, Broker]) -> int:
    async with Runner(brokers, arguments.concurrency) as runner:
        if arguments.play:
            result = await runner.run(Sequence(arguments.setup, script(arguments.play)))
            print(result)
            return int(result.verdict == "different")
        is_recorded = arguments.record is None or await _record(runner, arguments.record)
        if arguments.minutes is None and arguments.sequences is None:
            return int(not is_recorded)
        return await _explore(runner, arguments) or int(not is_recorded)


async def _record(runner: Runner, text: str) -> bool:
    """Renew the records that do not hold any more; False if broker and core differ somewhere."""
    records = {name: record for name, record in read_records().items() if name in PLAYED}
    wrong = []

    async def play(name: str) -> None:
        result = await runner.run(PLAYED[name], SHOWN.get(name))
        if complaint(name, result):
            wrong.append(name)
            print(f"{name}: {complaint(name, result)}", flush=True)
        elif not _holds(name, records.get(name)):
            records[name] = recorded(name, result)
            print(f"recorded: {name}", flush=True)

    async with asyncio.TaskGroup() as group:
        for name in PLAYED:
            if text in name:
                group.create_task(play(name))
    write_records(records.values())
    print(f"{len(records)} of {len(PLAYED)} scripts have records; broker and core differ in {len(wrong)}")
    return not wrong


def _holds(name: str, record: Recorded | None) -> bool:
    """Whether the core repeats what the record says; times and chance differ from run to run."""
    if record is None or record.of != checksum(PLAYED[name]):
        return False
    return not complaint(name, replay(record, PLAYED[name], SHOWN.get(name)))


async def _explore(runner: Runner, arguments: argparse.Namespace) -> int:
    failures: list[Result] = []
    told = started = time.monotonic()
    print(f"seeds from {arguments.seed} on", flush=True)

    def report(result: Result) -> None:
        nonlocal told
        if result.verdict in ("different", "inconclusive"):
            failures.append(result)
            print(f"{result.verdict}: {result.reason}", flush=True)
        if time.monotonic() - told >= _PROGRESS_S:
            told = time.monotonic()
            print(_summary(runner, told - started), flush=True)

    until = None if arguments.minutes is None else started + 60 * arguments.minutes
    await runner.run_all(_sequences(arguments), until, report)
    print(_summary(runner, time.monotonic() - started))
    for (state, api, kind), count in sorted(runner.answered.items()):
        print(f"    {state:12} {api:26} {kind:6} {count}")
    for failure in failures[:_MAX_FAILURES]:
        print()
        print(await runner.shrink(failure) if failure.verdict == "different" else failure, flush=True)
    if len(failures) > _MAX_FAILURES:
        print(f"\nand {len(failures) - _MAX_FAILURES} more")
    return int(bool(failures))


def _sequences(arguments: argparse.Namespace) -> Iterator[Sequence]:
    seeds = itertools.count(arguments.seed)
    for seed in itertools.islice(seeds, arguments.sequences):
        yield random_sequence(random.Random(seed))


def _summary(runner: Runner, seconds: float) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(runner.counts.items()))
    return f"{seconds:.0f} s: {runner.steps} steps; {counts}"


if __name__ == "__main__":
    sys.exit(main())
