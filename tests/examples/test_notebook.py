"""The notebook: its cells are run in their order by plain Python, over tables with an hour of a group.

Jupyter would be 30 more packages to lock. So a cell holds nothing that plain Python does not know, and the
value of its last line is printed, where Jupyter would show it.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.coordinator_state.scenario import clock
from tests.history.plain import lag_rows, write_plain_tables
from tests.history.scripts import GROUP, a_day, bodies, events, read_event, renamed
from tests.history.stories import BEGIN_MS, an_hour
from tests.patience import PATIENCE_S
from tests.rooms import ROOT

CELLS: list[dict[str, Any]] = json.loads((ROOT / "examples" / "history.ipynb").read_text())["cells"]


def code() -> list[dict[str, Any]]:
    return [cell for cell in CELLS if cell["cell_type"] == "code"]


def program(cells: Iterable[dict[str, Any]], parameters: dict[str, Any]) -> str:
    """The cells as one program. As with papermill, other parameters come after the cell of that name."""
    lines = ["import pandas", "pandas.options.display.width = 200", "pandas.options.display.max_columns = 20"]
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        match tree.body[-1]:
            case ast.Expr(value=value) as last:
                name = ast.Constant(f"-- {cell['id']}")
                shown = ast.Call(ast.Name("print"), [name, value], [ast.keyword("sep", ast.Constant("\n"))])
                last.value = ast.fix_missing_locations(ast.copy_location(shown, value))
        lines.append(ast.unparse(tree))
        if "parameters" in cell["metadata"].get("tags", ()):
            lines += [f"{name} = {value!r}" for name, value in parameters.items()]
    return "\n".join(lines)


def run(path: Path) -> tuple[int, dict[str, str], str]:
    """The exit code, what each cell has shown, and what it said besides."""
    command = [sys.executable, "-c", program(code(), {"HISTORY_PATH": str(path)})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    parts = re.split(r"^-- (\w+)\n", done.stdout, flags=re.MULTILINE)[1:]
    return done.returncode, dict(zip(parts[::2], parts[1::2], strict=True)), done.stderr


def measured(time: str) -> int:
    return (BEGIN_MS + clock(time)) // 1_000


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An hour with eight rebalances; before the one at 14:18 a worker was silent, and the lag grew."""
    path = tmp_path_factory.mktemp("notebook")
    calm = filter(None, map(read_event, renamed(bodies(a_day()), "calm")))
    lag = [("14:16:00", 10), ("14:18:40", 200), ("14:19:10", 450), ("14:22:00", 30), ("14:25:00", 0)]
    rows = lag_rows(GROUP, *((measured(time), records) for time, records in lag))
    write_plain_tables(path, events(an_hour().s), calm, lag=rows)
    exit_code, shown, said = run(path)
    assert (exit_code, said) == (0, "")
    return shown


def test_it_holds_no_output() -> None:
    assert [(cell["outputs"], cell["execution_count"]) for cell in code()] == [([], None)] * len(code())
    ids = [cell["id"] for cell in CELLS]
    assert len(set(ids)) == len(ids)


def test_which_groups_rebalance_most_and_why(shown: dict[str, str]) -> None:
    assert shown["open"].startswith("2 groups, of which all is known to ")
    first = shown["fleet"].splitlines()[1].split()
    # The other one moved in 1970.
    assert (first[1:3], len(shown["fleet"].splitlines())) == ([GROUP, "8"], 2)
    heading, _, row = shown["causes"].splitlines()[:3]
    told = dict(zip(heading.split()[1:], row.split()[1:], strict=True))
    assert told["session_expired"] == "2"
    assert sum(map(int, told.values())) == 8


def test_who_owned_a_partition_then_and_since(shown: dict[str, str]) -> None:
    ((_, owner, *_),) = [line.split() for line in shown["moment"].splitlines()[1:]]
    owners = [line.split()[1] for line in shown["later"].splitlines()[1:]]
    assert owners[0] == owner
    assert len(set(owners)) > 2


def test_how_the_lag_moved_around_a_rebalance(shown: dict[str, str]) -> None:
    assert shown["measured"] == "8 rebalances, 5 measurements\n"
    heading, *rows = [line.split() for line in shown["story"].splitlines()]
    assert heading == ["began", "cause", "took_ms", "before", "highest", "highest_after"]
    # In two topics.
    assert (
        " ".join(rows[2][2:])
        == "14:18:59.130000+00:00 session_expired 11035 400.0 900.0 0 days 00:00:10.870000"
    )
    # No measurement is less than ten minutes younger.
    assert rows[3][3:] == ["member_joined", "165", "0.0", "NaN", "NaT"]


def test_tables_without_an_event_end_it_with_a_word(tmp_path: Path) -> None:
    write_plain_tables(tmp_path, [])
    assert run(tmp_path) == (1, {}, "No event is in the tables yet.\n")
