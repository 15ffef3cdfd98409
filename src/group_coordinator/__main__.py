"""The command `group-coordinator`, which is also `python -m group_coordinator`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from group_coordinator.deploy.extras import how_to_install


def main() -> None:
    """Run the command line, or say what it needs: programs that only import the client do without it."""
    if find_spec("click") is None:
        advice = how_to_install("cli")
        print(f"error: the command needs click, which is not installed. {advice}", file=sys.stderr)
        sys.exit(1)
    from group_coordinator.commands.cli import main as command

    command(prog_name="group-coordinator")


if __name__ == "__main__":
    main()
