"""A worker of the demo, a process of its own: shares the orders' partitions and processes what it owns.

This is what a program around `GroupConsumer` looks like. It stores the results of a `poll` before the next
one, which is when their positions may be committed.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Collection
from pathlib import Path

import click
from kafka import TopicPartition

from group_coordinator.client.consumer import GroupConsumer
from group_coordinator.demo.store import OrderStore, Owner
from group_coordinator.jobs.signals import stop_event

_POLL_MS = 200
_AUTO_COMMIT_INTERVAL_MS = 1_000


class Worker:
    """Processes the orders of the partitions that are assigned to it; its consumer's listener."""

    def __init__(self, name: str, consumer: GroupConsumer, store: OrderStore) -> None:
        self._name = name
        self._consumer = consumer
        self._store = store
        self._owner = Owner(name, "", -1)

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Go on where the last owner's commits end; the consumer does that by itself."""
        group = self._consumer.group_metadata()
        self._owner = Owner(self._name, group.member_id, group.generation_id)
        self._record("assigned", assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Stop. The positions are committed already."""
        self._record("revoked", revoked)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Stop: they may be somebody else's already."""
        self._record("lost", lost)

    def _record(self, kind: str, partitions: Collection[TopicPartition]) -> None:
        self._store.record(kind, self._owner, {each.partition for each in partitions})
        numbers = sorted(each.partition for each in partitions)
        _say(f"{kind} {numbers} in generation {self._owner.generation}")

    def work(self) -> None:
        """Take part in the group for a moment, and process what there is."""
        orders = [
            (json.loads(record.value)["order"], record.partition, record.offset)
            for records in self._consumer.poll(timeout_ms=_POLL_MS).values()
            for record in records
        ]
        if orders:
            self._store.add(self._owner, orders)


@click.command()
@click.option("--name", required=True)
@click.option("--group", required=True)
@click.option("--topic", required=True)
@click.option("--bootstrap-server", "bootstrap_servers", required=True)
@click.option("--session-timeout-ms", type=int, required=True)
@click.option("--store", "store_path", type=click.Path(path_type=Path), required=True)
def main(
    *, name: str, group: str, topic: str, bootstrap_servers: str, session_timeout_ms: int, store_path: Path
) -> None:
    """Work until SIGTERM, then leave the group."""
    stopping = stop_event(signal.SIGTERM)
    store = OrderStore(store_path)
    with GroupConsumer(
        group_id=group,
        bootstrap_servers=bootstrap_servers,
        client_id=name,
        session_timeout_ms=session_timeout_ms,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=_AUTO_COMMIT_INTERVAL_MS,
    ) as consumer:
        worker = Worker(name, consumer, store)
        consumer.subscribe([topic], listener=worker)
        while not stopping.is_set():
            worker.work()
    store.close()
    _say("left the group")


def _say(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")


if __name__ == "__main__":
    main()
