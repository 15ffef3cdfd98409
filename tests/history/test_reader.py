"""`HistoryReader` as programs use it: questions and SQL, the types of what comes, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from group_coordinator.history import HistoryError, HistoryReader
from group_coordinator.history.rows import time_of
from tests.history.plain import lag_rows, write_plain_tables
from tests.history.scripts import GROUP, TOPIC, a_day, events
from tests.patience import PATIENCE_S

WHOLE: dict[str, Any] = {"since": time_of(0), "until": time_of(60_000)}
COUNT = "SELECT count(*) AS rows FROM events"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reader")
    write_plain_tables(path, events(a_day()), lag=lag_rows(GROUP, (5, 7)))
    return path


@pytest.fixture
def reader(path: Path) -> HistoryReader:
    return HistoryReader(str(path))


@pytest.mark.parametrize(
    "name",
    ["my history", "a#b", "a%b", "a?b", "a*b", "a[b", "{a,b}", "a:b", "a=b", "a+b", "~x", "`'", "grün 日本"],
)
def test_a_folder_may_have_any_name(path: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(path, folder)

    for place in (str(folder), f"file:{folder}", f"file://{folder}"):
        assert HistoryReader(place).query(COUNT) == HistoryReader(str(path)).query(COUNT)
    with pytest.raises(HistoryError, match=re.escape(f"there is no table {folder}/nowhere")):
        HistoryReader(f"{folder}/nowhere").query(COUNT)


@pytest.mark.parametrize("name", ["a%20b", "100%af", "a\\b"])
def test_a_folder_that_would_be_taken_for_another_is_refused(path: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(path, tmp_path / name)

    with pytest.raises(HistoryError, match="rename the folder"):
        HistoryReader(str(tmp_path / name)).query(COUNT)


# -- SQL -------------------------------------------------------------------------------------------------


def test_words_and_tables_may_be_written_in_any_way(reader: HistoryReader) -> None:
    counted = reader.query('select count(*) as n\nfrom\n  "transitions" t, generations g where t.at = g.at;')
    assert counted["n"].to_pylist()[0] > 1


def test_arrow_can_work_with_what_comes(reader: HistoryReader) -> None:
    found = reader.query("SELECT at, day, cause, generation_id, rebalance_ms FROM transitions")
    types = [pa.timestamp("us", tz="UTC"), pa.date32(), pa.string(), pa.int32(), pa.int64()]
    assert found.schema.types == types
    # Arrow does neither of them with `string_view`.
    assert len(found.filter(pc.equal(found["cause"], "session_expired"))) > 0
    assert found.sort_by("cause")["cause"].to_pylist()[0] == "member_joined"
    nothing = reader.query("SELECT at, cause FROM transitions WHERE false")
    assert (nothing.schema.types, len(nothing)) == ([types[0], types[2]], 0)


def test_pandas_has_times_with_their_zone(reader: HistoryReader) -> None:
    frame = reader.query(
        "SELECT at, cause, rebalance_ms FROM transitions ORDER BY at, log_offset"
    ).to_pandas()
    assert str(frame["at"].dtype) == "datetime64[us, UTC]"
    assert frame.groupby("cause")["rebalance_ms"].sum().to_dict()["session_expired"] == 2_000


def test_an_answer_has_all_rows_or_is_an_error(reader: HistoryReader) -> None:
    (rows,) = reader.query(COUNT)["rows"].to_pylist()
    every = "SELECT event_id FROM events"
    assert len(reader.query(every, most_rows=rows)) == rows
    with pytest.raises(HistoryError, match=rf"more than {rows - 1} rows: ask for a shorter time"):
        reader.query(every, most_rows=rows - 1)
    # Nor is an answer read to its end that is far too long.
    with pytest.raises(HistoryError, match="more than 1,000,000 rows"):
        reader.query("SELECT value FROM generate_series(1, 1000000000000)")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "No SQL statements"),
        ("SELECT 1; SELECT 2", "single SQL statement"),
        ("SELEC 1", "Expected: an SQL statement"),
        ("SELECT CAST('x' AS INT)", "Cannot cast string 'x' to value of Int32"),
        ("SELECT happiness\nFROM events", "No field named happiness"),
        ("SELECT * FROM moods", "not found"),
        ("SELECT 1 / (SELECT count(*) FROM events WHERE false)", "Divide by zero"),
        ("INSERT INTO events SELECT * FROM events", "insert_into"),
        ("DELETE FROM events", "DELETE"),
        ("UPDATE events SET reason = 'none'", "UPDATE"),
    ],
)
def test_what_is_no_question_is_an_error_of_one_line(path: Path, sql: str, why: str) -> None:
    reader = HistoryReader(str(path))
    before = reader.query(COUNT)
    with pytest.raises(HistoryError, match=rf"^the query failed: .*{re.escape(why)}.*: ") as error:
        reader.query(sql)
    assert "\n" not in str(error.value)
    assert HistoryReader(str(path)).query(COUNT) == before


def test_a_file_that_is_away_is_an_error(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, events(a_day()))
    reader = HistoryReader(str(tmp_path))
    reader.groups()
    for file in tmp_path.glob("joins/**/*.parquet"):
        file.unlink()
    with pytest.raises(HistoryError, match=r"^the query failed: .*not found"):
        reader.ask("joins", GROUP, **WHOLE)


def test_a_reader_keeps_to_what_it_has_opened(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, [])
    reader, later = HistoryReader(str(tmp_path)), HistoryReader(str(tmp_path))
    assert reader.groups() == []
    write_plain_tables(tmp_path, events(a_day()))
    assert reader.groups() == []
    assert later.groups() == [GROUP]


# -- questions -------------------------------------------------------------------------------------------


def test_who_owned_this_partition_then(reader: HistoryReader) -> None:
    owners = reader.ask("assignments", GROUP, at=time_of(5_000), topic=TOPIC, partition=1)
    assert owners.select(["client_id", "since", "until"]).to_pylist() == [
        {"client_id": "c2", "since": time_of(1_000), "until": time_of(11_000)}
    ]


def test_a_question_of_a_period_and_a_member(reader: HistoryReader) -> None:
    causes = reader.ask("causes", GROUP, **WHOLE)
    assert causes["cause"].to_pylist() == ["session_expired", "member_joined", "member_left"]
    assert reader.ask("members", GROUP, member="c2", **WHOLE)["reason"].to_pylist() == ["session_expired"]


def test_the_groups_that_moved(reader: HistoryReader) -> None:
    assert reader.fleet(**WHOLE).select(["group_id", "not_stable_ms"]).to_pylist() == [
        {"group_id": GROUP, "not_stable_ms": 2_000}
    ]


def test_without_a_time_it_is_the_last_day(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, events(a_day()))
    assert len(HistoryReader(str(tmp_path)).fleet()) == 0
    assert len(HistoryReader(str(tmp_path)).fleet(since=time_of(0))) == 1


NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - it is to be refused


@pytest.mark.parametrize(
    ("question", "narrowed", "why"),
    [
        ("moods", {}, "there is no question 'moods': choose from rebalances, causes, states, "),
        ("causes", {"at": time_of(5_000)}, "the question 'causes' does not take 'at'"),
        ("joins", {"topic": TOPIC}, "the question 'joins' does not take 'partition'"),
        ("states", {"member": "c1"}, "the question 'states' does not take 'member'"),
        ("states", {"since": NAIVE}, "1970-01-01T00:00:00 has no zone: "),
        ("states", {"at": time_of(0), "until": time_of(1)}, "ask of a moment (at) or of a period"),
        ("states", {"since": time_of(0) + timedelta(days=99_999)}, "the period begins at 2243-"),
    ],
)
def test_questions_that_are_none(
    reader: HistoryReader, question: str, narrowed: dict[str, Any], why: str
) -> None:
    with pytest.raises(HistoryError, match=f"^{re.escape(why)}"):
        reader.ask(question, GROUP, **narrowed)


def test_as_of_has_a_zone(path: Path) -> None:
    with pytest.raises(HistoryError, match="has no zone"):
        HistoryReader(str(path), as_of=NAIVE)


# -- imports ---------------------------------------------------------------------------------------------


def test_a_job_that_writes_a_history_does_not_import_what_reads_one() -> None:
    program = (
        "import sys, group_coordinator.history as it; print('deltalake' in sys.modules, it.HistoryReader)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "False <class 'group_coordinator.history.reader.HistoryReader'>\n"
    with pytest.raises(AttributeError, match=r"'group_coordinator.history' has no attribute 'Writer'"):
        import_it("Writer")


def import_it(name: str) -> Any:
    import group_coordinator.history

    return getattr(group_coordinator.history, name)
