"""Exactly once: results and positions in one store, and one transaction for both.

The group only says whose partitions are whose. A worker that dies in the middle leaves neither its results
nor its new position, and the next owner begins at the old one. A worker that is not the owner any more, and
has not noticed, is fenced by the position: its successor has moved it, so its transaction does nothing.
(Not by the generation: that begins anew when a group was empty for long and is deleted.)

    make run                                                       # a broker and the coordinator
    python examples/produce.py --topic numbers
    python examples/exactly_once.py --group g --topic numbers --store squares.sqlite
                                                                   # in other terminals; kill -9 one
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Collection
from typing import Any

from kafka import TopicPartition

from group_coordinator import GroupConsumer

SCHEMA = """
CREATE TABLE IF NOT EXISTS results (number INTEGER, square INTEGER);
CREATE TABLE IF NOT EXISTS positions (
    topic TEXT, partition INTEGER, next_offset INTEGER, PRIMARY KEY (topic, partition)
);
"""


class Store:
    """Results, and where to go on."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, timeout=30)
        self._db.executescript(SCHEMA)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset to go on from."""
        with self._db:
            self._db.execute("INSERT OR IGNORE INTO positions VALUES (?, ?, 0)", partition)
        query = "SELECT next_offset FROM positions WHERE topic = ? AND partition = ?"
        (offset,) = self._db.execute(query, partition).fetchone()
        return int(offset)

    def save(self, results: list[tuple[int, int]], partition: TopicPartition, old: int, new: int) -> bool:
        """Store results and the position after them; False if it is not the `old` one any more."""
        advance = "UPDATE positions SET next_offset = ? WHERE topic = ? AND partition = ? AND next_offset = ?"
        with self._db:  # all or nothing
            if not self._db.execute(advance, (new, *partition, old)).rowcount:
                return False
            self._db.executemany("INSERT INTO results VALUES (?, ?)", results)
        return True


class Worker:
    """Squares numbers; the consumer's rebalance listener."""

    def __init__(self, consumer: GroupConsumer, store: Store) -> None:
        self._consumer = consumer
        self._store = store
        self._positions: dict[TopicPartition, int] = {}

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Go on where the store says. The group has no say: nothing is committed to it."""
        for partition in assigned:
            self._positions[partition] = self._store.position(partition)
            self._consumer.seek(partition, self._positions[partition])

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Nothing is left to be saved: positions are stored with the results."""

    def work(self) -> None:
        """Process what there is."""
        for partition, records in self._consumer.poll(timeout_ms=1_000).items():
            results = [process(record) for record in records]
            old, new = self._positions[partition], records[-1].offset + 1
            if self._store.save(results, partition, old, new):
                self._positions[partition] = new
            else:
                print("fenced: somebody else has worked on", partition, flush=True)
                self.on_partitions_assigned([partition])


def process(record: Any) -> tuple[int, int]:
    """Compute what takes a while, and leave no trace: what is to show is stored."""
    time.sleep(0.05)
    number = int(record.value)
    print("processed", number, flush=True)
    return number, number * number


def main(group: str, topic: str, store: str, bootstrap_servers: str, session_timeout_ms: int) -> None:
    """Work until Ctrl-C."""
    consumer = GroupConsumer(
        group_id=group,
        bootstrap_servers=bootstrap_servers,
        session_timeout_ms=session_timeout_ms,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=10,  # this many at most are computed again
    )
    worker = Worker(consumer, Store(store))
    with consumer:
        consumer.subscribe([topic], listener=worker)
        while True:
            worker.work()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--store", required=True, help="SQLite file, of all workers alike")
    parser.add_argument("--bootstrap-server", dest="bootstrap_servers", default="localhost:9092")
    parser.add_argument(
        "--session-timeout-ms", type=int, default=10_000, help="until a dead worker is missed"
    )
    try:
        main(**vars(parser.parse_args()))
    except KeyboardInterrupt:
        print("stopped")
