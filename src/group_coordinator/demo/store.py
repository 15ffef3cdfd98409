"""The store of the workers' results and of what they were told, which is one SQLite file.

How far they are is not in here: they commit that to the coordinator, after the results. So a worker that
dies in between has its last orders processed again by the next (at least once), and none is lost. Programs
that cannot have that keep results and positions in one place: see `examples/exactly_once.py`.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

# Duplicates are to be seen, not to be hidden: no unique index on orders.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    number INTEGER NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    worker TEXT NOT NULL, generation INTEGER NOT NULL, at_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS orders_by_number ON orders (number);
CREATE TABLE IF NOT EXISTS ownership (
    kind TEXT NOT NULL, partitions TEXT NOT NULL,
    worker TEXT NOT NULL, member_id TEXT NOT NULL, generation INTEGER NOT NULL, at_ms INTEGER NOT NULL
);
"""


class Owner(NamedTuple):
    """A worker in one generation."""

    worker: str
    member_id: str
    generation: int


class StoredOrder(NamedTuple):
    """One processed order, and who processed it."""

    number: int
    partition: int
    offset: int
    worker: str
    generation: int
    at_ms: int


class Ownership(NamedTuple):
    """A message to a worker about its partitions: `kind` is assigned, revoked or lost."""

    kind: str
    partitions: frozenset[int]
    worker: str
    member_id: str
    generation: int
    at_ms: int


class Totals(NamedTuple):
    """Processed orders: `rows` in all, `orders` different ones, `by_worker` rows."""

    rows: int
    orders: int
    by_worker: dict[str, int]


class OrderStore:
    """The store, as one process sees it. Not to be shared between threads."""

    def __init__(self, path: Path) -> None:
        # Autocommit: transactions are where this module says BEGIN, and nowhere else.
        self._db = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # -- workers ---------------------------------------------------------------------------------------

    def record(self, kind: str, owner: Owner, partitions: Collection[int]) -> None:
        """Record what `owner` was told: its `partitions` are assigned, revoked or lost (`kind`)."""
        row = (kind, json.dumps(sorted(partitions)), *owner, _now_ms())
        with self._transaction():
            self._db.execute("INSERT INTO ownership VALUES (?, ?, ?, ?, ?, ?)", row)

    def add(self, owner: Owner, orders: Sequence[tuple[int, int, int]]) -> None:
        """Store processed orders: (number, partition, offset)."""
        about = (owner.worker, owner.generation, _now_ms())
        with self._transaction():
            self._db.executemany(
                "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", [(*order, *about) for order in orders]
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        # IMMEDIATE: wait for other writers here, not in the middle, where SQLite would refuse.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # -- the audience ----------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """Count what was processed so far."""
        by_worker = dict(self._db.execute("SELECT worker, COUNT(*) FROM orders GROUP BY worker").fetchall())
        (orders,) = self._db.execute("SELECT COUNT(DISTINCT number) FROM orders").fetchone()
        return Totals(sum(by_worker.values()), orders, by_worker)

    def active_workers(self, generation: int) -> set[str]:
        """Names of the workers that have processed something in `generation`."""
        query = "SELECT DISTINCT worker FROM orders WHERE generation = ?"
        return {worker for (worker,) in self._db.execute(query, (generation,))}

    def orders(self) -> list[StoredOrder]:
        """Return all processed orders, oldest first."""
        return [StoredOrder(*row) for row in self._db.execute("SELECT * FROM orders ORDER BY rowid")]

    def ownership(self) -> list[Ownership]:
        """Return all that workers were told, oldest first."""
        rows = self._db.execute("SELECT * FROM ownership ORDER BY rowid")
        return [Ownership(kind, frozenset(json.loads(partitions)), *rest) for kind, partitions, *rest in rows]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
