"""What the command tells of a move."""

from __future__ import annotations

import pytest

from group_coordinator.commands.move.doing import told
from group_coordinator.commands.move.steps import Look, Seen
from group_coordinator.commands.tables import Line


@pytest.mark.parametrize(
    ("group_id", "typed"), [("billing", "billing"), ("my group", "'my group'"), ("a;b", "'a;b'")]
)
def test_the_command_that_shows_the_group_can_be_typed_as_it_is(group_id: str, typed: str) -> None:
    seen = {"brokers": Seen(True), "coordinator": Seen(False)}
    look = Look(None, "brokers", seen, {"brokers": {}, "coordinator": {}}, already=False, obstacle="")
    report = told(group_id, "coordinator", look, {}, is_done=True)
    assert report.items == [
        Line(
            f"Group '{group_id}' is at the coordinator: see group-coordinator groups --describe "
            f"--group {typed}"
        )
    ]
