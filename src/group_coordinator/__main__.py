"""The command `group-coordinator`, which is also `python -m group_coordinator`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    """Run the command line, or say what it needs: programs that only import the client do without it."""
    if find_spec("click") is None:
        print(
            "error: the command needs click, which is not installed. In the clone that group-coordinator comes "
            "from, run: pip install '.[cli]'",
            file=sys.stderr,
        )
        sys.exit(1)
    from group_coordinator.commands.cli import main as command

    command(prog_name="group-coordinator")


if __name__ == "__main__":
    main()
