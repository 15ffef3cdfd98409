"""`group-coordinator run`: the long-lived job, on one's own Kafka or on a broker of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    fail,
    metrics_port_option,
    need_spark,
    overriding,
    say,
    set_option,
)

if TYPE_CHECKING:
    from group_coordinator.page.settings import PageSettings
    from group_coordinator.streaming.settings import CoordinatorSettings


@click.command()
@bootstrap_option()
@click.option("--checkpoint", help="Directory or object-store URI for the coordinator's state.")
@config_option()
@click.option("--create-topics", is_flag=True, default=None, help="Create the topics that are missing.")
@click.option(
    "--standby", is_flag=True, default=None, help="Wait while another coordinator runs, then take over."
)
@metrics_port_option("metrics_port", 9464)
@set_option("group.max.size=100 or kafka.security.protocol=SSL")
@click.option(
    "--embedded",
    is_flag=True,
    help="Start a Kafka broker as well, and keep everything in a temporary directory. This is to play with.",
)
def run(*, config: Path | None, assignments: tuple[str, ...], embedded: bool, **options: Any) -> None:
    """Run the coordinator until SIGTERM or Ctrl-C.

    The coordinator reads settings from a TOML file (--config or $GROUP_COORDINATOR_CONFIG), from
    GROUP_COORDINATOR_* variables and from the options here. Variables win over the file, and options win over
    both.

    \b
    group-coordinator run --bootstrap-server kafka:9092 --checkpoint /var/lib/gc --create-topics
    group-coordinator run --config coordinator.toml --set group.max.size=100
    group-coordinator run --embedded
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need_spark()
    from group_coordinator.commands.settings import job_settings
    from group_coordinator.deploy.broker import BrokerError
    from group_coordinator.deploy.jars import JarError
    from group_coordinator.jobs.signals import exiting_on_sigterm
    from group_coordinator.page.settings import PageSettings
    from group_coordinator.streaming.settings import CoordinatorSettings

    overrides = overriding(options, assignments)
    with ExitStack() as stack:
        stack.enter_context(exiting_on_sigterm())
        if embedded:
            try:
                overrides = _embed(stack, overrides)
            except (BrokerError, JarError) as error:
                fail(error)
        settings = job_settings(CoordinatorSettings, config, overrides)
        _run(settings, job_settings(PageSettings, config, overrides))


def _run(settings: CoordinatorSettings, page: PageSettings) -> None:
    from group_coordinator.checkpoints.errors import CheckpointError
    from group_coordinator.commands.settings import job
    from group_coordinator.deploy.jars import JarError
    from group_coordinator.jobs.serving import CannotListenError
    from group_coordinator.page.service import serving
    from group_coordinator.streaming.errors import CoordinatorError
    from group_coordinator.streaming.leadership import check_alone
    from group_coordinator.streaming.service import run_coordinator
    from group_coordinator.streaming.topic_specs import TopicError

    with job(settings, CheckpointError, CoordinatorError, JarError, TopicError) as tell:
        try:
            with serving(page, tell):
                run_coordinator(settings, tell, progress=True)
        except CannotListenError:
            # The process that has the port may be the other coordinator.
            check_alone(settings)
            raise


def _embed(stack: ExitStack, overrides: dict[str, object]) -> dict[str, object]:
    """Start a broker that lives as long as `stack`; return the settings that use it."""
    from group_coordinator.deploy.broker import EmbeddedBroker, PortInUseError

    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="group-coordinator-")))
    say("starting a Kafka broker")
    try:
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka", port=_port_to_play_with(9092)))
    except PortInUseError:
        # Another one was started at the same time.
        broker = stack.enter_context(EmbeddedBroker(directory / "kafka"))
    servers = broker.bootstrap_servers
    where = "" if servers.endswith(":9092") else f" --bootstrap-server {servers}"
    say(f"Kafka is at {servers}. In other terminals, when the coordinator is running:")
    say(f"  {_this_command()} member --group g --units 12{where}")
    say(f"  {_this_command()} groups --describe --all-groups{where}")
    _start_gateway(stack, servers)
    return {
        "checkpoint": str(directory / "checkpoint"),
        "create.topics": True,
        "requests.partitions": 2,
        # A second one beside the first takes other ports.
        "metrics.port": _port_to_play_with(9464),
        "ui.port": _port_to_play_with(9465),
        **overrides,
        "bootstrap.servers": servers,
    }


def _start_gateway(stack: ExitStack, servers: str) -> None:
    """Start a gateway that lives as long as `stack`. It waits for the coordinator's topics by itself."""
    command = [sys.executable, "-m", "group_coordinator", "gateway", "--bootstrap-server", servers]
    command += ["--listen", f"127.0.0.1:{_port_to_play_with(19092)}", "--metrics-port", "-1"]
    # For more a machine may have to allow more open files, of which the gateway would warn.
    gateway = subprocess.Popen([*command, "--set", "gateway.max.connections=100"])
    stack.callback(gateway.wait)
    stack.callback(gateway.terminate)


def _this_command() -> str:
    """The command as somebody in the same directory can type it."""
    program = Path(sys.argv[0])
    if program.name != "group-coordinator":
        return f"{sys.executable} -m group_coordinator"
    return program.name if shutil.which(program.name) else os.path.relpath(program)


def _port_to_play_with(usual: int) -> int:
    """The usual port, so that nobody has to name it; any free one (0) if it is taken."""
    from group_coordinator.deploy.broker import is_free

    return usual if is_free(usual, host="") else 0
