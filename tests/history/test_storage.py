"""The tables as they are stored: made, added to by later versions, compacted, and forgotten."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from group_coordinator.history import storage
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.rows import time_of
from group_coordinator.history.storage import Retention, prepare_tables
from group_coordinator.history.tables import ALL_TABLES, LAG, TABLES
from tests.history.filled import DAY, Tables
from tests.history.plain import lag_rows, write_plain_tables
from tests.history.scripts import a_day, a_night, events, renamed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify]

TODAY = time_of(0).date()
OLD = ("offsets", "lag", "membership.reason", "joins.is_first")


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables without those of offsets and of lag, and without the reasons why members went."""
    path = tmp_path_factory.mktemp("storage")
    write_plain_tables(path, events(a_day()), without=OLD)
    prepare_tables(spark, str(path))
    return path


def test_tables_and_columns_that_came_later_are_added(prepared: Path) -> None:
    for table in ALL_TABLES:
        names = [column.split()[0] for column in table.all_columns.split(", ")]
        assert {field.name for field in DeltaTable(prepared / table.name).schema().fields} == set(names)
    rows = DeltaTable(prepared / "membership").to_pyarrow_table().to_pylist()
    assert [(row["client_id"], row["reason"]) for row in rows] == [("c1", None), ("c2", None)]


def test_tables_that_are_there_stay_as_they_are(spark: SparkSession, prepared: Path) -> None:
    before = {table.name: DeltaTable(prepared / table.name).version() for table in TABLES}
    prepare_tables(spark, str(prepared))
    assert {table.name: DeltaTable(prepared / table.name).version() for table in TABLES} == before


def test_a_column_of_another_type_is_somebody_elses(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS event_id, DATE '2026-01-01' AS day").write.format("delta").save(
        str(tmp_path / "events")
    )
    with pytest.raises(HistoryError) as caught:
        prepare_tables(spark, str(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}/events is not a table of this history: event_id is int, not string; "
        "set history.path to a directory of its own"
    )


def test_many_small_files_become_one(spark: SparkSession, tmp_path: Path) -> None:
    minimum = "spark.databricks.delta.autoCompact.minNumFiles"
    spark.conf.set(minimum, "2")
    try:
        tables = Tables(spark, tmp_path)
        offset = next(i for i, body in enumerate(DAY) if b"offsets_committed" in body)
        for number in range(3):
            tables.write(*renamed([DAY[offset]], f"group-{number}"))
    finally:
        spark.conf.unset(minimum)

    table = DeltaTable(tmp_path / "events")
    assert len(table.to_pyarrow_table()) == 3
    assert len(table.file_uris()) == 1


# -- retention -------------------------------------------------------------------------------------------


def ids(path: Path, table: str) -> int:
    return len(DeltaTable(path / table).to_pyarrow_table())


def test_what_is_old_goes_unless_it_lasts(spark: SparkSession, tmp_path: Path) -> None:
    # In the night's story two members are still there.
    write_plain_tables(tmp_path, events(a_day()), events(a_night()), lag=lag_rows("orders", (0, 5)))
    before = {table.name: ids(tmp_path, table.name) for table in ALL_TABLES}

    kept = Retention(spark, str(tmp_path), days=7)
    assert kept.apply(TODAY + timedelta(days=7)) == 0
    assert {table.name: ids(tmp_path, table.name) for table in ALL_TABLES} == before

    assert kept.apply(TODAY + timedelta(days=8)) == 1
    assert [ids(tmp_path, name) for name in ("events", "transitions", "joins", "offsets", LAG.name)] == [
        0
    ] * 5
    rows = DeltaTable(tmp_path / "membership").to_pyarrow_table().to_pylist()
    assert {(row["client_id"], row["until"]) for row in rows} == {("c1", None), ("c3", None)}
    assert {row["until"] for row in DeltaTable(tmp_path / "assignments").to_pyarrow_table().to_pylist()} == {
        None
    }


def test_what_is_old_goes_once_a_day_however_often_the_job_is_started(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plain_tables(tmp_path, events(a_day()))
    vacuumed: list[storage.DeltaTable] = []

    def vacuum(table: storage.DeltaTable) -> None:
        vacuumed.append(table)

    monkeypatch.setattr(storage.DeltaTable, "vacuum", vacuum)

    for _ in range(2):
        Retention(spark, str(tmp_path), days=0).apply(TODAY)
        assert len(vacuumed) == len(ALL_TABLES)
    Retention(spark, str(tmp_path), days=0).apply(TODAY + timedelta(days=1))
    assert len(vacuumed) == 2 * len(ALL_TABLES)


def test_nothing_is_printed_when_files_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    """By Delta, which would say of each table how many there were."""
    write_plain_tables(tmp_path, events(a_day()))
    jvm = spark._jvm
    assert jvm is not None
    console = getattr(getattr(jvm.scala, "Console$"), "MODULE$")
    printed, before = jvm.java.io.ByteArrayOutputStream(), console.out()
    console.setOutDirect(jvm.java.io.PrintStream(printed))
    try:
        Retention(spark, str(tmp_path), days=0).apply(TODAY)
        console.println("what others print")
    finally:
        console.setOutDirect(before)
    assert printed.toString() == "what others print\n"


def test_tables_that_are_new_have_nothing_that_is_old(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prepare_tables(spark, str(tmp_path))
    assert not prepare_tables(spark, str(tmp_path))
    Retention(spark, str(tmp_path), days=0).done(TODAY)
    monkeypatch.delattr(storage.DeltaTable, "vacuum")
    assert Retention(spark, str(tmp_path), days=0).apply(TODAY) == 0


def test_without_a_retention_nothing_goes(spark: SparkSession, tmp_path: Path) -> None:
    write_plain_tables(tmp_path, events(a_day()))
    assert Retention(spark, str(tmp_path), days=0).apply(date(2100, 1, 1)) == 0
    assert ids(tmp_path, "events") == len(DAY)
