"""The ten questions in examples/history.sql, and what docs/history.md says of the tables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from group_coordinator.commands.cli import main
from group_coordinator.history.reader import HistoryReader
from group_coordinator.history.tables import ALL_TABLES
from tests.history.filled import Tables
from tests.rooms import ROOT

GUIDE = (ROOT / "docs" / "history.md").read_text()
QUESTIONS = re.split(r"^-- \d+\. ", (ROOT / "examples" / "history.sql").read_text(), flags=re.MULTILINE)[1:]


def sql_of(question: str) -> str:
    return question.partition("\n")[2].strip().rstrip(";")


def plain(value: Any) -> Any:
    """Spark's Python times have no zone; the session's is UTC."""
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def test_there_are_ten() -> None:
    assert len(QUESTIONS) == 10


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda it: it.partition("\n")[0])
def test_spark_and_datafusion_answer_alike(tables: Tables, question: str) -> None:
    # The tests' groups live in the first minute of 1970.
    sql = re.sub(r"2026-01-3\d", "1970-01-01", sql_of(question))
    sql = sql.replace("22:00:00", "00:00:00").replace("14:05:00", "00:00:05").replace("worker-7", "c1")
    sql = sql.replace("group_id = 'orders'", "group_id = 'group-a'").replace("partition = 3", "partition = 1")
    ours = [tuple(map(plain, row.values())) for row in HistoryReader(tables.path).query(sql).to_pylist()]

    assert ours == tables.ask_spark(sql)
    # Nobody's offset goes back in the day of group-a.
    assert ours or "go back" in question


# -- the guide -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda it: it.name)
def test_the_guide_has_every_column(table: Any) -> None:
    (row,) = re.findall(rf"^\| `{table.name}` \| .* \| (.*) \|$", GUIDE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == [column.split()[0] for column in table.columns.split(", ")]


EXAMPLES = re.findall(r"^ {4,}(group-coordinator history .*)$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_guide_is_a_question(example: str, tmp_path: Path) -> None:
    words = shlex.split(example.partition("  #")[0])[1:]
    if "--explain" in words:
        # It asks several, and the first of them finds no tables.
        result = CliRunner().invoke(main, [*words, "--history-path", str(tmp_path)])
        assert (result.exit_code, "there is no table" in result.output) == (1, True), result.output
        return
    result = CliRunner().invoke(main, [*words, "--sql"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(("SELECT", "WITH"))


def test_the_guide_has_examples() -> None:
    assert len(EXAMPLES) >= 10
