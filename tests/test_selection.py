"""Each test is in exactly one run of `make test` and `make verify`."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from _pytest.mark.expression import Expression

MAKEFILE = (Path(__file__).parents[1] / "Makefile").read_text()
MARKERS = ("alone", "conformance", "core", "drawn", "spark", "verify")


def runs_of(target: str) -> list[str]:
    """The expressions by which the target's runs of pytest select tests; those of more cases are left out."""
    recipe = MAKEFILE.partition(f"\n{target}:")[2].partition("\n\n")[0]
    runs = re.findall(r"^\t\$\(BIN\)/pytest (.*(?:\\\\\n.*)*)", recipe, re.MULTILINE)
    found = [re.fullmatch(r"-m '([^']+)'(?: (?:--|\$).*)?", run, re.DOTALL) for run in runs]
    assert all(found), f"a run that selects by something else than markers: {runs}"
    return [run[1] for run in found if run is not None]


def test_no_test_is_in_none_and_none_in_two() -> None:
    runs = [run for target in ("test", "test-fast", "verify") for run in runs_of(target)]
    assert len(runs) == 5
    for chosen in itertools.product((False, True), repeat=len(MARKERS)):
        has = {name for name, is_there in zip(MARKERS, chosen, strict=True) if is_there}
        if {"core", "conformance"} <= has:
            continue  # they are in different folders
        matching = [run for run in runs if Expression.compile(run).evaluate(has.__contains__)]
        assert len(matching) == 1, (has, matching)


def test_tests_are_left_out_by_nothing_else() -> None:
    assert "--ignore" not in MAKEFILE
    assert "--deselect" not in MAKEFILE
