"""Compares the core with real Kafka brokers for as long as it is asked to.

python -m tests.conformance classic --minutes 10
python -m tests.conformance consumer --record
python -m tests.conformance consumer --play 'group 2, join 2, settled 3'
python -m tests.conformance classic --replay '{"setup":"plain","steps":[{"version":3}]}'
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
from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.errors import Errors
from tests.conformance.games import GAMES
from tests.conformance.recorded import complaint, read_records, recorded, replay, write_records
from tests.conformance.runner import Runner, start_brokers
from tests.conformance.sequence import Sequence, read_sequence, write_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.game import Game, Result
    from tests.conformance.recorded import Recorded
    from tests.conformance.runner import Broker

_ERRORS = {error.value: error.name for error in Errors}
_PROGRESS_S = 10
_MAX_FAILURES = 10


def main() -> int:
    """Run as the arguments say; 1 if a difference was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("protocol", choices=list(GAMES), help="whose groups are compared")
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
    limit.add_argument("--replay", metavar="LINE", help="play this sequence, and tell what happens")
    limit.add_argument("--play", metavar="STEPS", help="play this script, and tell what happens")
    parser.add_argument("--setup", default="plain", help="the broker of the script (default: plain)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9), help="of the first sequence")
    parser.add_argument("--concurrency", type=int, help="sequences at a time")
    parser.add_argument("--dynamic", action="store_true", help="draw no static members")
    parser.add_argument("--patterns", action="store_true", help="draw only members with patterns (consumer)")
    arguments = parser.parse_args()
    limits = (arguments.minutes, arguments.sequences, arguments.replay, arguments.play)
    if arguments.record is None and limits == (None,) * len(limits):
        parser.error("say what to do: --record, --minutes, --sequences, --replay or --play")
    if arguments.patterns and arguments.protocol != "consumer":
        parser.error("only members of the consumer protocol have patterns")
    game = GAMES[arguments.protocol]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
        brokers = start_brokers(stack, game, directory)
        return asyncio.run(_run(arguments, game, brokers))


async def _run(arguments: argparse.Namespace, game: type[Game], brokers: dict[str, Broker]) -> int:
    async with Runner(game, brokers, game.scripts_at_a_time) as runner:
        if arguments.replay or arguments.play:
            result = await runner.run(_sequence(arguments, game))
            print(result)
            return int(result.verdict != "same")
        is_recorded = arguments.record is None or await _record(arguments.record, game, runner)
    if arguments.minutes is None and arguments.sequences is None:
        return int(not is_recorded)
    async with Runner(game, brokers, arguments.concurrency or game.drawn_at_a_time) as runner:
        return await _explore(arguments, game, runner) or int(not is_recorded)


def _sequence(arguments: argparse.Namespace, game: type[Game]) -> Sequence[Any]:
    if arguments.replay:
        return read_sequence(arguments.replay, game.step)
    return Sequence(arguments.setup, game.script(arguments.play))


async def _record(text: str, game: type[Game], runner: Runner) -> bool:
    """Renew the records that do not hold any more; False if broker and core differ somewhere."""
    records = {name: record for name, record in read_records(game).items() if name in game.played}
    wrong = []

    async def play(name: str) -> None:
        result = await runner.run(game.played[name], game.shows(name))
        if told := complaint(game, name, result, is_live=True):
            wrong.append(name)
            print(f"{name}: {told}", flush=True)
        elif not _holds(name, game, records.get(name)):
            records[name] = recorded(game, name, result)
            print(f"recorded: {name}", flush=True)

    async with asyncio.TaskGroup() as group:
        for name in game.played:
            if text in name:
                group.create_task(play(name))
    write_records(game, records.values())
    print(
        f"{len(records)} of {len(game.played)} scripts have records; broker and core differ in {len(wrong)}"
    )
    return not wrong


def _holds(name: str, game: type[Game], record: Recorded | None) -> bool:
    """Whether the record is one of the script as it is, and the core still does the same."""
    if record is None or record.mark != game.mark(game.played[name]):
        return False
    return not complaint(game, name, replay(game, record, game.shows(name)))


async def _explore(arguments: argparse.Namespace, game: type[Game], runner: Runner) -> int:
    told = started = time.monotonic()
    print(f"seeds from {arguments.seed} on", flush=True)

    def report(result: Result) -> None:
        nonlocal told
        if result.verdict in ("different", "inconclusive"):
            print(f"{result.verdict}: {result.reason}\n  {write_sequence(result.sequence)}", flush=True)
        if time.monotonic() - told >= _PROGRESS_S:
            told = time.monotonic()
            print(_summary(runner, told - started), flush=True)

    until = None if arguments.minutes is None else started + 60 * arguments.minutes
    failures = await runner.run_all(_sequences(arguments, game), until, report)
    print(_summary(runner, time.monotonic() - started))
    for (state, api, error), count in sorted(runner.answered.items()):
        print(f"    {state:20} {api:26} {_ERRORS.get(error, error)!s:28} {count}")
    for failure in failures[:_MAX_FAILURES]:
        print(f"\n{await runner.shrink(failure)}", flush=True)
    if len(failures) > _MAX_FAILURES:
        print(f"\nand {len(failures) - _MAX_FAILURES} more")
    return int(bool(failures))


def _sequences(arguments: argparse.Namespace, game: type[Game]) -> Iterator[Sequence[Any]]:
    seeds = itertools.count(arguments.seed)
    patterns = {"patterns": True} if arguments.patterns else {}
    for seed in itertools.islice(seeds, arguments.sequences):
        yield game.draw(random.Random(seed), static=not arguments.dynamic, **patterns)


def _summary(runner: Runner, seconds: float) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in sorted(runner.counts.items()))
    return f"{seconds:.0f} s: {runner.requests} requests, {runner.comparisons} comparisons; {counts}"


if __name__ == "__main__":
    sys.exit(main())
