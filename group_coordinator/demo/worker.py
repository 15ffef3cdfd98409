"""A worker of the demo, a process of its own: shares the orders' partitions and processes what it owns.

This is what a program around `GroupMember` looks like: positions and results are kept in one place
(`store.py`), and are read from there whenever partitions are assigned.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click
from kafka import KafkaConsumer

from group_coordinator.client import GroupMember
from group_coordinator.demo.store import Fenced, OrderStore, Owner

_POLL_MS = 200


class Worker:
    """Processes the orders of the partitions that are assigned to it; its member's listener."""

    def __init__(self, name: str, member: GroupMember, consumer: Any, store: OrderStore) -> None:
        self._name = name
        self._member = member
        self._consumer = consumer
        self._store = store
        self._owner = Owner(name, "", -1)

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """Go on where the last owner stopped."""
        self._owner = Owner(self._name, self._member.member_id, self._member.generation_id)
        try:
            positions = self._store.take_over(self._owner, {each.partition for each in assigned})
        except Fenced as error:
            # This generation is over already, and the next poll is going to say so.
            _say(f"fenced: {error}")
            return
        self._consumer.assign(sorted(assigned))
        for each in assigned:
            self._consumer.seek(each, positions[each.partition])
        _say(f"assigned {positions} in generation {self._owner.generation}")

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        """Stop. The positions need no saving: they are stored with each result."""
        self._stop("revoked", revoked)

    def on_partitions_lost(self, lost: Collection[Any]) -> None:
        """Stop: they may be somebody else's already."""
        self._stop("lost", lost)

    def _stop(self, kind: str, partitions: Collection[Any]) -> None:
        self._consumer.assign([])
        self._store.give_up(self._owner, {each.partition for each in partitions}, kind)
        _say(f"{kind} {sorted(partitions)} of generation {self._owner.generation}")

    def work(self) -> None:
        """Take part in the group for a moment, and process what there is."""
        owns_any = bool(self._consumer.assignment())
        self._member.poll(timeout_ms=0 if owns_any else _POLL_MS)
        if not self._consumer.assignment():
            return
        by_partition = self._consumer.poll(timeout_ms=_POLL_MS)
        orders = [
            (json.loads(record.value)["order"], record.partition, record.offset)
            for records in by_partition.values()
            for record in records
        ]
        if not orders:
            return
        try:
            self._store.add(self._owner, orders)
        except Fenced as error:
            _say(f"fenced: {error}")
            self._consumer.assign([])


@click.command()
@click.option("--name", required=True)
@click.option("--group", required=True)
@click.option("--topic", required=True)
@click.option("--bootstrap-servers", required=True)
@click.option("--session-timeout-ms", type=int, required=True)
@click.option("--store", "store_path", type=click.Path(path_type=Path), required=True)
def main(
    *, name: str, group: str, topic: str, bootstrap_servers: str, session_timeout_ms: int, store_path: Path
) -> None:
    """Work until SIGTERM, then leave the group."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    store = OrderStore(store_path)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, client_id=name)
    with GroupMember(
        group_id=group,
        bootstrap_servers=bootstrap_servers,
        client_id=name,
        session_timeout_ms=session_timeout_ms,
    ) as member:
        worker = Worker(name, member, consumer, store)
        member.subscribe([topic], listener=worker)
        while not stopping.is_set():
            worker.work()
    consumer.close()
    store.close()
    _say("left the group")


def _say(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")


if __name__ == "__main__":
    main()
