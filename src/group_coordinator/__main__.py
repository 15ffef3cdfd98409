"""`python -m group_coordinator` is the command `group-coordinator`."""

from __future__ import annotations

from group_coordinator.commands.cli import main

main(prog_name="group-coordinator")
