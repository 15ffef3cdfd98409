from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.scripted import SCRIPTS
from tests.conformance.sequence import read_sequence

pytestmark = pytest.mark.spark

# Sequences in which the two once differed, as small as they could be made.
REGRESSIONS = Path(__file__).with_name("regressions.txt").read_text(encoding="utf-8").splitlines()
ALL = SCRIPTS | {f"regression {place}": read_sequence(line) for place, line in enumerate(REGRESSIONS)}


@pytest.fixture(scope="module")
def results(play_all):
    return dict(zip(ALL, play_all(list(ALL.values())), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_both_do_the_same(results, name: str) -> None:
    result = results[name]

    assert result.verdict == "same", str(result)
