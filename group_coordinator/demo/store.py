"""Where workers keep results and positions: one SQLite file, and one transaction for both.

A position that is stored apart from the results is either too early when a worker dies (orders are
processed twice) or too late (orders are lost). Stored together, they are never apart.

Each position also says who owns it. A worker that lost its partition but has not noticed yet finds a newer
generation there, and its whole transaction is refused: it is fenced.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

__all__ = ["Fenced", "OrderStore", "Owner", "Ownership", "StoredOrder", "Totals"]

# Duplicates are to be seen, not to be hidden: no unique index on orders.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS positions (
    partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL,
    member_id TEXT NOT NULL, generation INTEGER NOT NULL
);
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
# The newest owner wins; the position is whatever the one before left.
_TAKE_OVER = """
INSERT INTO positions VALUES (:partition, 0, :member_id, :generation)
ON CONFLICT (partition) DO UPDATE SET member_id = :member_id, generation = :generation
WHERE generation <= :generation
RETURNING next_offset
"""
_ADVANCE = """
UPDATE positions SET next_offset = ? WHERE partition = ? AND member_id = ? AND generation = ?
"""


class Fenced(Exception):  # noqa: N818 - it names the fact, as Kafka does
    """The partition has a newer owner; nothing was stored."""


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
    """What a worker was told: `kind` is assigned, revoked or lost."""

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

    def take_over(self, owner: Owner, partitions: Collection[int]) -> dict[int, int]:
        """Make `owner` the owner of `partitions`; return where to go on: partition -> offset.

        Raises Fenced if one of them has an owner of a newer generation.
        """
        positions = {}
        with self._transaction():
            for partition in partitions:
                row = self._db.execute(
                    _TAKE_OVER,
                    {"partition": partition, "member_id": owner.member_id, "generation": owner.generation},
                ).fetchone()
                if row is None:
                    raise Fenced(
                        f"partition {partition} has an owner newer than generation {owner.generation}"
                    )
                positions[partition] = row[0]
            self._record("assigned", owner, partitions)
        return positions

    def give_up(self, owner: Owner, partitions: Collection[int], kind: str) -> None:
        """Record that `partitions` were `kind`: revoked or lost. Their positions are stored already."""
        with self._transaction():
            self._record(kind, owner, partitions)

    def add(self, owner: Owner, orders: Sequence[tuple[int, int, int]]) -> None:
        """Store processed orders (number, partition, offset) together with the positions after them.

        Raises Fenced, and stores nothing, if `owner` does not own all of the partitions any more.
        """
        next_offsets = {partition: offset + 1 for _, partition, offset in orders}
        with self._transaction():
            for partition, next_offset in next_offsets.items():
                advanced = self._db.execute(
                    _ADVANCE, (next_offset, partition, owner.member_id, owner.generation)
                )
                if not advanced.rowcount:
                    raise Fenced(f"partition {partition} is not {owner.worker}'s any more")
            about = (owner.worker, owner.generation, _now_ms())
            self._db.executemany(
                "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", [(*order, *about) for order in orders]
            )

    def _record(self, kind: str, owner: Owner, partitions: Collection[int]) -> None:
        row = (kind, json.dumps(sorted(partitions)), *owner, _now_ms())
        self._db.execute("INSERT INTO ownership VALUES (?, ?, ?, ?, ?, ?)", row)

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
