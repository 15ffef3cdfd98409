"""All benchmarks, where none is named."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import core
from benchmarks.__main__ import main


def test_without_a_name_each_is_run_with_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    for name, command in main.commands.items():
        monkeypatch.setattr(command, "callback", lambda name=name, **given: ran.append((name, given)))

    done = CliRunner().invoke(main, [])

    assert done.exit_code == 0, done.output
    assert [name for name, _ in ran] == [name for name in main.commands if name != "draw"]
    assert dict(ran)["failover"]["rounds"] == 10


def test_the_core_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "_RUN_S", 0.01)
    monkeypatch.setattr(core, "_ROUNDS", 1)
    monkeypatch.setattr(core, "HEARTBEAT_GROUPS", (1, 10))
    monkeypatch.setattr(core, "JOIN_GROUPS", (20,))

    done = CliRunner().invoke(main, ["core"])

    assert done.exit_code == 0, done.output
    assert "Stored group" in done.output
