"""Runs the coordinator under load and kills, pauses and starves everything in turn, for as long as asked.

python -m tests.faults --minutes 10
python -m tests.faults --runs 1 --seed 17              # the same faults again
python -m tests.faults --runs 1 --object-store         # checkpoint and history on an S3 server
python -m tests.faults --replay /tmp/faults-17/history # look at a run that went wrong once more
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import msgspec

from tests.faults.checker import check, figures
from tests.faults.faults import KINDS, plan
from tests.faults.history import History
from tests.faults.notes import now_ms
from tests.faults.stage import LoadSize, Stage, StageError
from tests.storage.s3 import ObjectStore

_SHOWN = 20
# Only where executors are processes of their own.
_OF_CLUSTER = {"kill-executor", "pause-executor"}
_OF_STORE = {"kill-store", "pause-store"}


def main() -> int:
    """Run as the arguments say; 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.splitlines()[0])
    limit = parser.add_mutually_exclusive_group(required=True)
    limit.add_argument("--minutes", type=float, help="begin no more runs after so many minutes")
    limit.add_argument("--runs", type=int, help="do so many runs")
    limit.add_argument("--replay", type=Path, metavar="FILE", help="check the history of a run again")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the first run")
    parser.add_argument("--seconds", type=float, default=60, help="of faults in each run (default: 60)")
    parser.add_argument("--master", choices=["local", "cluster"], help="by default one after the other")
    parser.add_argument("--kinds", help=f"comma-separated, of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--members", type=int, default=60, help="in each run (default: 60)")
    parser.add_argument(
        "--history-kills", type=int, default=3, help="of the job that writes the history (default: 3)"
    )
    parser.add_argument(
        "--no-history", action="store_true", help="without that job, which takes a third of a short run"
    )
    parser.add_argument("--object-store", action="store_true", help="checkpoint and history on an S3 server")
    arguments = parser.parse_args()
    if arguments.replay:
        history = msgspec.msgpack.decode(arguments.replay.read_bytes(), type=History)
        return int(_report(history))
    # So that nothing is left running: by default Python ends without a word.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    totals: Counter[str] = Counter()
    for number in count():
        if number == arguments.runs or (
            arguments.minutes is not None and time.monotonic() - began >= 60 * arguments.minutes
        ):
            break
        totals += _run(arguments, arguments.seed + number)
        print(f"so far, in {time.monotonic() - began:.0f} s: {_counts(totals)}", flush=True)
    return int(totals["runs that went wrong"] > 0)


def _run(arguments: argparse.Namespace, seed: int) -> Counter[str]:
    master = arguments.master or ("local", "cluster")[seed % 2]
    kinds = arguments.kinds.split(",") if arguments.kinds else sorted(KINDS)
    others = set[str]() if master == "cluster" else _OF_CLUSTER
    others = others if arguments.object_store else others | _OF_STORE
    faults = plan(seed, arguments.seconds, [it for it in kinds if it not in others])
    directory = Path(tempfile.mkdtemp(prefix=f"faults-{seed}-"))
    print(f"seed {seed}, {master}: {len(faults)} faults", flush=True)
    size = LoadSize(members=arguments.members // 3, groups=max(arguments.members // 8, 1))
    totals = Counter({"runs": 1})
    history = None
    with ExitStack() as stack:
        store = None
        if arguments.object_store:
            store = stack.enter_context(ObjectStore(directory / "store"))
            os.environ.update(store.environment)
        stage = stack.enter_context(
            Stage(
                *(directory, seed, master, size, _say),
                kills_of_history=None if arguments.no_history else arguments.history_kills,
                store=store,
            )
        )
        try:
            stage.wait_for_answers(arguments.members)
            stage.play(faults)
            history = stage.finish()
        except StageError as error:
            print(f"  seed {seed}: {error}")
        totals += stage.done
        totals["starts of the coordinator"] += stage.supervisor.starts
        for kind, number in stage.supervisor.orphans.items():
            totals[f"{kind} processes left behind"] += number
    if history is not None:
        (directory / "history").write_bytes(msgspec.msgpack.encode(history))
        totals += figures(history)
    if history is None or _report(history):
        totals["runs that went wrong"] += 1
        print(f"  seed {seed} went wrong: everything is in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return totals


def _say(line: str) -> None:
    # With the time as the log has it.
    print(f"  {now_ms()} {line}", flush=True)


def _report(history: History) -> int:
    violations = check(history)
    for rule, number in Counter(violation.rule for violation in violations).items():
        of_rule = [violation for violation in violations if violation.rule == rule]
        print(f"  {rule}: {number}")
        for violation in of_rule[:_SHOWN]:
            print(f"    {violation.group_id}: {violation.detail}")
    return len(violations)


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
