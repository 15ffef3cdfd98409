"""All benchmarks, where none is named."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main


def test_without_a_name_each_is_run_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    for name, command in main.commands.items():
        monkeypatch.setattr(command, "callback", lambda name=name, **given: ran.append((name, given)))

    done = CliRunner().invoke(main, [])

    assert done.exit_code == 0, done.output
    assert [name for name, _ in ran] == [name for name in main.commands if name != "draw"]
    assert dict(ran)["failover"]["rounds"] == 10
