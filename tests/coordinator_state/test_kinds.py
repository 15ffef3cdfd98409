"""What does not belong to one kind of group knows none: it asks `Group`'s questions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.group import Group
from group_coordinator.coordinator_state.kinds import KINDS

CORE = Path(__file__).parents[2] / "coordinator_state"
SHARED = [
    file
    for file in sorted(CORE.rglob("*.py"))
    if file.relative_to(CORE).parts[0] not in {kind + ".py" for kind in KINDS} | set(KINDS)
]
# Where the kinds are listed, and where requests are handed to their rules.
MAY_IMPORT_RULES = {"kinds.py", "routes.py"}


def imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_there_are_shared_files() -> None:
    assert {"group.py", "turn.py", "offset_commit.py", "retention.py"} <= {file.name for file in SHARED}


@pytest.mark.parametrize("file", SHARED, ids=lambda file: file.name)
def test_no_shared_file_asks_what_kind_a_group_is(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            assert "Group)" not in ast.unparse(node)
    if file.name not in MAY_IMPORT_RULES:
        rules = {module for module in imported(file) if ".classic." in module}
        assert rules <= {"group_coordinator.coordinator_state.classic.group"}, "no rule of one kind"


def test_a_classic_group_answers_all_that_is_asked_of_a_group() -> None:
    asked = {name for name in vars(Group) if not name.startswith("_")} | set(Group.__annotations__)
    assert asked
    assert [name for name in asked if not hasattr(ClassicGroup, name)] == []


def test_every_kind_is_listed_under_its_own_tag() -> None:
    assert {tag: kind.group.KIND for tag, kind in KINDS.items()} == {tag: tag for tag in KINDS}
