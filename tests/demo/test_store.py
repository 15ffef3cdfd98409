from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from group_coordinator.demo.store import Fenced, OrderStore, Owner, Totals

ROOT = Path(__file__).parents[2]
FIRST = Owner("worker-1", "m1", 1)
SECOND = Owner("worker-2", "m2", 2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OrderStore]:
    store = OrderStore(tmp_path / "orders.sqlite")
    yield store
    store.close()


def test_an_owner_goes_on_where_the_one_before_stopped(store: OrderStore) -> None:
    assert store.take_over(FIRST, {0, 1}) == {0: 0, 1: 0}
    store.add(FIRST, [(1, 0, 0), (2, 0, 1), (3, 1, 7)])

    assert store.take_over(SECOND, {0, 1}) == {0: 2, 1: 8}


def test_an_owner_may_take_over_from_itself(store: OrderStore) -> None:
    store.take_over(FIRST, {0})
    store.add(FIRST, [(1, 0, 0)])

    assert store.take_over(FIRST, {0}) == {0: 1}


def test_who_lost_one_partition_stores_nothing_at_all(store: OrderStore) -> None:
    store.take_over(FIRST, {0, 1})
    store.take_over(SECOND, {1})

    with pytest.raises(Fenced, match="partition 1 is not worker-1's"):
        store.add(FIRST, [(1, 0, 0), (2, 1, 0)])

    assert store.orders() == []
    assert store.take_over(Owner("worker-3", "m3", 3), {0, 1}) == {0: 0, 1: 0}


def test_an_older_generation_takes_nothing_over(store: OrderStore) -> None:
    store.take_over(SECOND, {1})

    with pytest.raises(Fenced, match="newer than generation 1"):
        store.take_over(FIRST, {0, 1})

    assert [told.worker for told in store.ownership()] == ["worker-2"]
    store.add(SECOND, [(1, 1, 0)])


def test_a_worker_that_never_owned_a_partition_stores_nothing(store: OrderStore) -> None:
    with pytest.raises(Fenced):
        store.add(FIRST, [(1, 0, 0)])


def test_duplicates_are_kept_and_counted(store: OrderStore) -> None:
    store.take_over(FIRST, {0})
    store.add(FIRST, [(1, 0, 0), (2, 0, 1)])
    store.take_over(SECOND, {0})
    store.add(SECOND, [(2, 0, 1)])

    assert store.totals() == Totals(rows=3, orders=2, by_worker={"worker-1": 2, "worker-2": 1})
    assert [(order.number, order.worker, order.generation) for order in store.orders()] == [
        (1, "worker-1", 1),
        (2, "worker-1", 1),
        (2, "worker-2", 2),
    ]
    assert store.active_workers(2) == {"worker-2"}


def test_records_what_workers_were_told(store: OrderStore) -> None:
    store.take_over(FIRST, {0, 1})
    store.give_up(FIRST, {0, 1}, "revoked")

    assert [told[:5] for told in store.ownership()] == [
        ("assigned", frozenset({0, 1}), *FIRST),
        ("revoked", frozenset({0, 1}), *FIRST),
    ]


def test_what_a_killed_process_had_begun_never_happened(store: OrderStore, tmp_path: Path) -> None:
    store.take_over(FIRST, {0})
    dies_before_the_commit = """
import os, signal, sys
from pathlib import Path
from group_coordinator.demo.store import OrderStore, Owner
store = OrderStore(Path(sys.argv[1]))
with store._transaction():
    store._db.execute("UPDATE positions SET next_offset = 99")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    died = subprocess.run(
        [sys.executable, "-c", dies_before_the_commit, tmp_path / "orders.sqlite"], cwd=ROOT, check=False
    )

    assert died.returncode == -9
    assert store.take_over(SECOND, {0}) == {0: 0}
