"""At most once: commit, then process.

A worker that dies in between leaves records that are committed but not processed, and nobody comes back to
them: some may be lost, none is processed twice. For work that must not be repeated, and may be missing.

    make run                                                       # a broker and the coordinator
    python examples/produce.py --topic numbers
    python examples/at_most_once.py --group g --topic numbers      # in other terminals; kill -9 one
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from group_coordinator import CommitFailedError, GroupConsumer


def process(record: Any) -> None:
    """Do what takes a while and shows in the world outside."""
    time.sleep(0.05)
    print("processed", record.value.decode(), flush=True)


def work(consumer: GroupConsumer) -> None:
    """Process what there is."""
    polled = consumer.poll(timeout_ms=1_000)
    if not polled:
        return
    try:
        consumer.commit()
    except CommitFailedError as error:
        # Not committed, so not this worker's to process: the partitions have another owner.
        print(error, flush=True)
        return
    for records in polled.values():
        for record in records:
            process(record)


def main(group: str, topic: str, bootstrap_servers: str, session_timeout_ms: int) -> None:
    """Work until Ctrl-C."""
    consumer = GroupConsumer(
        topic,
        group_id=group,
        bootstrap_servers=bootstrap_servers,
        session_timeout_ms=session_timeout_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=10,  # this many at most are lost
    )
    with consumer:
        while True:
            work(consumer)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--bootstrap-server", dest="bootstrap_servers", default="localhost:9092")
    parser.add_argument(
        "--session-timeout-ms", type=int, default=10_000, help="until a dead worker is missed"
    )
    try:
        main(**vars(parser.parse_args()))
    except KeyboardInterrupt:
        print("stopped")
