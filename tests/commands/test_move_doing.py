"""What the command tells of a move."""

from __future__ import annotations

from typing import Any, Self

import pytest
from click.testing import CliRunner
from kafka.errors import KafkaTimeoutError

from group_coordinator.commands.cli import main
from group_coordinator.commands.move import doing
from group_coordinator.commands.move.doing import done
from group_coordinator.commands.move.steps import Look, Seen
from group_coordinator.commands.tables import Line

LOOK = Look(
    *(None, "brokers", {"brokers": Seen(True), "coordinator": Seen(False)}),
    offsets={"brokers": {}, "coordinator": {}},
    already=False,
    obstacle="",
)


@pytest.mark.parametrize(
    ("group_id", "typed"), [("billing", "billing"), ("my group", "'my group'"), ("a;b", "'a;b'")]
)
def test_the_command_that_shows_the_group_can_be_typed_as_it_is(group_id: str, typed: str) -> None:
    report = done(group_id, "coordinator", LOOK)
    assert report.items == [
        Line(
            f"Group '{group_id}' is at the coordinator: see group-coordinator groups --describe "
            f"--group {typed}"
        )
    ]


class Hanging:
    """All clients of the command, of brokers that do not tell where logs end."""

    def __init__(self, *_: Any, **_given: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def list_partition_offsets(self, _specs: object) -> None:
        raise KafkaTimeoutError("no leader has told")

    def move(self) -> Look:
        return LOOK

    look = move


@pytest.mark.usefixtures("own_environment")
def test_a_move_that_is_done_is_told_even_if_brokers_hang_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AdminClient", "BrokersAdmin", "BrokersGuard", "SidesLog", "Mover"):
        monkeypatch.setattr(doing, name, Hanging)
    moved = CliRunner().invoke(main, ["move", "billing", "--to", "coordinator"])
    assert (moved.exit_code, moved.stdout[:37]) == (0, "Group 'billing' is at the coordinator")
    looked = CliRunner().invoke(main, ["move", "billing", "--to", "coordinator", "--dry-run"])
    assert (looked.exit_code, looked.stderr) == (1, "error: no leader has told\n")
