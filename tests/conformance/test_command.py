from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_S
from tests.rooms import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.verify]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_draws_and_counts() -> None:
    done = run("classic", "--sequences", "4", "--seed", "1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seeds from 1 on\n")
    assert "requests" in done.stdout


def test_a_difference_is_told_and_fails() -> None:
    # A wanted difference that is not drawn, and so is not looked for: an empty instance id.
    done = run("classic", "--replay", '{"setup":"plain","steps":[{"instance":"empty"}]}')

    assert done.returncode == 1, done.stdout + done.stderr
    assert "different: join_group, error_code: the broker: r0: 0; the core: 42" in done.stdout
