"""Long runs: `python -m tests.simulation --seeds 10000 --jobs 2`, or one run as text: `--trace SEED`.

Each seed is played with groups of both kinds. `--kind` plays one of them, and says which one `--trace` shows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import count, islice

from tests.simulation.plays import CLASSIC, PLAYS
from tests.simulation.world import Failed, Outcome, World

# Seeds that a process runs at a time.
_PORTION = 50
_SHOWN = 3

Result = tuple[list[Outcome], list[tuple[int, str]]]
"""The runs that went well, and seed and account of the others."""
Portion = tuple[str, list[int]]
"""Seeds that are played with groups of one kind."""


def main() -> int:
    """Run; the exit code is 1 if a run went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, help="how many runs (default: 1000, or no end with --minutes)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--minutes", type=float, help="begin no more runs after so many minutes")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes (default: 1)")
    parser.add_argument("--trace", type=int, metavar="SEED", help="run this one seed and show all of it")
    parser.add_argument("--kind", choices=list(PLAYS), help="groups of this kind only")
    options = parser.parse_args()
    if options.trace is not None:
        return _trace(options.trace, options.kind or CLASSIC)
    seeds = options.seeds
    if seeds is None and options.minutes is None:
        seeds = 1000
    kinds = list(PLAYS) if options.kind is None else [options.kind]
    portions = _portions(options.first, seeds, kinds)
    began = time.monotonic()
    until = None if options.minutes is None else began + options.minutes * 60
    results = _run_all(portions, options.jobs, until)
    seconds = time.monotonic() - began
    for kind, (outcomes, failures) in results.items():
        _report(kind, outcomes, failures, seconds)
    return 1 if any(failures for _, failures in results.values()) else 0


def _trace(seed: int, kind: str) -> int:
    world = World(seed, kind=kind)
    try:
        outcome = world.run()
    except Failed as failure:
        failure.world.show()
        print(f"seed {seed} goes wrong: {failure.__cause__!r}")
        return 1
    world.show()
    print(outcome)
    return 0


def _portions(first: int, seeds: int | None, kinds: Iterable[str]) -> Iterator[Portion]:
    ends = count(first) if seeds is None else iter(range(first, first + seeds))
    while portion := list(islice(ends, _PORTION)):
        for kind in kinds:
            yield kind, portion


def run_portion(portion: Portion) -> tuple[str, Result]:
    """Run some seeds; their kind, and what has come of them."""
    kind, seeds = portion
    outcomes, failures = [], []
    for seed in seeds:
        try:
            outcomes.append(World(seed, kind=kind).run())
        except Failed as failure:
            failures.append((seed, str(failure)))
    return kind, (outcomes, failures)


def _run_all(portions: Iterator[Portion], jobs: int, until: float | None) -> dict[str, Result]:
    """The results by kind."""
    results: dict[str, Result] = {}
    for kind, (went_well, went_wrong) in _results(portions, jobs, until):
        outcomes, failures = results.setdefault(kind, ([], []))
        outcomes += went_well
        failures += went_wrong
    return results


def _results(portions: Iterator[Portion], jobs: int, until: float | None) -> Iterator[tuple[str, Result]]:
    if jobs == 1:
        for portion in portions:
            yield run_portion(portion)
            if until is not None and time.monotonic() >= until:
                return
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(run_portion, portion) for portion in islice(portions, jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            if until is None or time.monotonic() < until:
                running |= {pool.submit(run_portion, portion) for portion in islice(portions, len(done))}
            yield from (future.result() for future in done)


def _report(kind: str, outcomes: list[Outcome], failures: list[tuple[int, str]], seconds: float) -> None:
    """`seconds`: of all kinds together, whose runs take turns."""
    runs = len(outcomes) + len(failures)
    print(
        f"{runs} runs in {seconds:.0f} s of {kind} groups: {sum(it.requests for it in outcomes)} requests in "
        f"{sum(it.batches for it in outcomes)} batches, {sum(it.reruns for it in outcomes)} of them run "
        f"again, {sum(it.restarts for it in outcomes)} restarts; {len(failures)} failures"
    )
    jumped, stood = ([it for it in outcomes if getattr(it, name)] for name in ("corrections", "standstills"))
    print(
        f"{len(jumped)} runs had {sum(it.corrections for it in jumped)} corrections of a "
        f"clock, {len(stood)} had {sum(it.standstills for it in stood)} standstills"
    )
    if outcomes:
        slowest = max(outcomes, key=lambda it: it.calm_ms / it.allowed_ms)
        print(
            f"longest way back to order: {slowest.calm_ms / 1000:.1f} s of {slowest.allowed_ms / 1000:.1f} s "
            f"allowed, with seed {slowest.seed}"
        )
    failures.sort()
    for _, account in failures[:_SHOWN]:
        print(f"\n{account}")
    if failures:
        print(f"\nseeds that go wrong: {', '.join(str(seed) for seed, _ in failures)}")


if __name__ == "__main__":
    sys.exit(main())
