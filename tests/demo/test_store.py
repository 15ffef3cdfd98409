from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from group_coordinator.demo.store import OrderStore, Owner, Totals
from tests.rooms import ROOT

FIRST = Owner("worker-1", "m1", 1)
SECOND = Owner("worker-2", "m2", 2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OrderStore]:
    store = OrderStore(tmp_path / "orders.sqlite")
    yield store
    store.close()


def test_duplicates_are_kept_and_counted(store: OrderStore) -> None:
    store.add(FIRST, [(1, 0, 0), (2, 0, 1)])
    store.add(SECOND, [(2, 0, 1)])

    assert store.totals() == Totals(rows=3, orders=2, by_worker={"worker-1": 2, "worker-2": 1})
    assert [(order.number, order.worker, order.generation) for order in store.orders()] == [
        (1, "worker-1", 1),
        (2, "worker-1", 1),
        (2, "worker-2", 2),
    ]
    assert store.active_workers(2) == {"worker-2"}


def test_records_what_workers_were_told(store: OrderStore) -> None:
    store.record("assigned", FIRST, {0, 1})
    store.record("revoked", FIRST, {0, 1})

    assert [told[:5] for told in store.ownership()] == [
        ("assigned", frozenset({0, 1}), *FIRST),
        ("revoked", frozenset({0, 1}), *FIRST),
    ]


def test_what_a_killed_process_had_begun_never_happened(store: OrderStore, tmp_path: Path) -> None:
    dies_before_the_commit = """
import os, signal, sys
from pathlib import Path
from group_coordinator.demo.store import OrderStore
store = OrderStore(Path(sys.argv[1]))
with store._transaction():
    store._db.execute("INSERT INTO orders VALUES (1, 0, 0, 'worker-1', 1, 0)")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run(
        [sys.executable, "-c", dies_before_the_commit, tmp_path / "orders.sqlite"], cwd=ROOT, check=False
    )

    assert died.returncode == -9
    assert store.orders() == []
