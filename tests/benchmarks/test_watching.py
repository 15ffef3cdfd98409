"""The benchmark of the watcher, with few topics."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main


@pytest.mark.timeout(120)
def test_a_look_at_topics_is_measured_whether_they_have_changed_or_not() -> None:
    done = CliRunner().invoke(main, ["watching", "--topics", "20", "--partitions", "2", "--rounds", "1"])

    assert done.exit_code == 0, done.output
    assert "nothing has changed" in done.output
    assert "each partition has another leader" in done.output
