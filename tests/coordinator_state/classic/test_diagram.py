"""The diagram is drawn from the table, and the committed one is up to date."""

from __future__ import annotations

import runpy
from pathlib import Path

from group_coordinator.coordinator_state.classic.states import TRANSITIONS
from tests.coordinator_state.classic import diagram
from tests.coordinator_state.classic.diagram import document, mermaid

COMMITTED = Path(__file__).parents[3] / "docs" / "state-machine.md"


def test_committed_document_is_up_to_date():
    command = "python -m tests.coordinator_state.classic.diagram"
    assert COMMITTED.read_text(encoding="utf-8") == document(), f"run {command}"


def test_every_move_is_one_arrow():
    arrows = [line.strip() for line in mermaid().splitlines()[1:]]
    expected = [
        f"{state} --> {target}: {why}" for state, it in TRANSITIONS.items() for target, why in it.items()
    ]
    assert arrows == ["[*] --> Empty", *expected, "Dead --> [*]"]


def test_causes_do_not_break_the_drawing():
    for moves in TRANSITIONS.values():
        for why in moves.values():
            assert not set(why) & set(":;|#\n")


def test_command_prints_the_document(capsys):
    runpy.run_path(str(diagram.__file__), run_name="__main__")
    assert capsys.readouterr().out == document()
