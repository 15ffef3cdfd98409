"""The commands: `group-coordinator run | member | groups | checkpoint | write-history | history | ui | demo`.

Every error that a user can cause or mend is one line on stderr and exit code 1 (2 for wrong usage).
"""

from __future__ import annotations

import logging

import click

from group_coordinator.commands.checkpoint.command import checkpoint
from group_coordinator.commands.demo import demo
from group_coordinator.commands.groups.command import groups
from group_coordinator.commands.history.command import history
from group_coordinator.commands.member import member
from group_coordinator.commands.run import run
from group_coordinator.commands.ui import ui
from group_coordinator.commands.write_history import write_history

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="group-coordinator")
@click.option("--verbose", is_flag=True, help="Log what the Kafka clients do, too.")
def main(*, verbose: bool) -> None:
    """A group coordinator for any kind of work, as one Spark stream over Kafka topics."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if not verbose:
        # Reconnects are their daily business; what matters comes back as an error of a call.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)


for command in (run, member, groups, checkpoint, write_history, history, ui, demo):
    main.add_command(command)
