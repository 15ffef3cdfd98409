"""Plays the load of `test_proof.py` while the job that writes the history is killed, and compares.

python -m tests.history --kills 20
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.rows import time_of
from tests.faults.checker import check
from tests.faults.notes import now_ms
from tests.history.crew import PARTITIONS, play
from tests.history.proof import compare


def main() -> int:
    """Run as the arguments say; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.history", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of the job (default: 20)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the kills")
    arguments = parser.parse_args()
    # So that nothing is left running: by default Python ends without a word.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix=f"history-{arguments.seed}-"))
    _say(f"seed {arguments.seed}")
    with EmbeddedBroker(directory / "kafka", heap_mb=384) as broker:
        # Small batches, so that there is something to be written whenever it is killed.
        played = play(
            broker.bootstrap_servers,
            directory,
            seed=arguments.seed,
            kills=arguments.kills,
            max_events=10,
            say=_say,
        )
    story = HistoryReader(str(played.writer.path)).story(played.group_id, time_of(0), time_of(now_ms()))
    partitions = [f"{played.topic}-{number}" for number in range(PARTITIONS)]
    violations = [*compare(story, played.history.notes, partitions), *check(played.history)]
    for each in violations:
        _say(f"{each.rule}: {each.detail}")
    rows = ", ".join(f"{len(rows)} {name}" for name, rows in played.history.tables.items())
    kills, in_batch = played.writer.kills, played.writer.kills_in_batch
    _say(f"{kills} SIGKILL, {in_batch} of them in the middle of a batch; rows: {rows}")
    _say(f"{len(violations)} violations, in {time.monotonic() - began:.0f} s")
    if violations:
        _say(f"everything is in {directory}")
        return 1
    shutil.rmtree(directory)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
