"""The commands: `group-coordinator run | gateway | member | groups | checkpoint | ... | demo`.

Every error that a user can cause or mend is one line on stderr, which begins with `error: `. The exit code is
1, and 2 for wrong usage.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from group_coordinator.commands.checkpoint.command import checkpoint
from group_coordinator.commands.demo import demo
from group_coordinator.commands.doctor import doctor
from group_coordinator.commands.events import events
from group_coordinator.commands.gateway import gateway
from group_coordinator.commands.groups.command import groups
from group_coordinator.commands.history.command import history
from group_coordinator.commands.measure_lag import measure_lag
from group_coordinator.commands.member.command import member
from group_coordinator.commands.move.command import move
from group_coordinator.commands.observe import observe
from group_coordinator.commands.output import open_streams, refuse_other_bytes, tell, why_refused
from group_coordinator.commands.run import run
from group_coordinator.commands.terminal import fail
from group_coordinator.commands.ui import ui
from group_coordinator.commands.write_history import write_history
from group_coordinator.jobs.printable import printable

_log = logging.getLogger(__name__)


class _Commands(click.Group):
    """Ends like any other group of commands, but spells errors of usage as all other errors are spelled.

    Whatever cannot be written or read is such an error as well. --verbose tells where.
    """

    def main(self, args: Sequence[str] | None = None, *others: Any, **kwargs: Any) -> NoReturn:
        open_streams()
        try:
            refuse_other_bytes(sys.argv[1:] if args is None else args)
            sys.exit(super().main(args, *others, **{**kwargs, "standalone_mode": False}))
        except click.Abort:
            sys.exit(1)
        except click.ClickException as error:
            shown = io.StringIO()
            error.show(shown)
            tell(printable(shown.getvalue().replace("Error: ", "error: ", 1)))
            sys.exit(error.exit_code)
        except OSError as error:
            _log.info("%s", error, exc_info=True)
            fail(why_refused(error))


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="group-coordinator")
@click.option("--verbose", is_flag=True, help="Also log what the Kafka clients do.")
def main(*, verbose: bool) -> None:
    """A group coordinator for any kind of work, as one Spark stream over Kafka topics."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if not verbose:
        # Reconnects are their daily business; what matters comes back as an error of a call.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)


for command in (
    run,
    doctor,
    gateway,
    member,
    groups,
    move,
    measure_lag,
    checkpoint,
    observe,
    write_history,
    history,
    events,
    ui,
    demo,
):
    main.add_command(command)
