"""`group-coordinator doctor` tells of all that is wrong at once. `run` finds one thing after the other."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.output import json_of, put, put_json
from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    need_spark,
    overriding,
    set_option,
    use_java,
)
from group_coordinator.jobs.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from group_coordinator.page.settings import PageSettings
    from group_coordinator.streaming.doctor import Finding
    from group_coordinator.streaming.settings import CoordinatorSettings

_SUBJECT = 34
"""The width of the column."""


@click.command()
@bootstrap_option()
@click.option("--checkpoint", help="Directory or object-store URI for the coordinator's state.")
@config_option()
@set_option("kafka.security.protocol=SSL")
@click.option("--json", "as_json", is_flag=True, help="As JSON, when all is known.")
def doctor(*, config: Path | None, assignments: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Look at all that `run` needs, and change nothing.

    There is a line for Java, pyspark, its jars, the disk, Kafka and each port. There is one for each topic,
    with its settings and rights, for clocks, for another coordinator and for the checkpoint. A line says what
    to do if something is wrong, and the exit code is 1 then. Spark is started, which takes some seconds.

    \b
    group-coordinator doctor --config coordinator.toml
    group-coordinator doctor --bootstrap-server kafka:9092 --checkpoint /var/lib/gc --json
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need_spark(java=False)
    from group_coordinator.streaming.doctor import Verdict

    findings = []
    for finding in _findings(config, overriding(options, assignments)):
        findings.append(finding)
        if not as_json:
            line = f"{finding.verdict:9}{finding.subject:{_SUBJECT}}{finding.told}"
            put(f"{printable(line)}\n")
    if as_json:
        put_json(f"{json_of([each._asdict() for each in findings], indent=2)}\n")
    if Verdict.WRONG in {each.verdict for each in findings}:
        sys.exit(1)


def _findings(config: Path | None, overrides: dict[str, object]) -> Iterator[Finding]:
    from group_coordinator.commands.settings import load_settings
    from group_coordinator.deploy.java import JavaNotFound
    from group_coordinator.jobs.settings import SettingsError
    from group_coordinator.page.settings import PageSettings
    from group_coordinator.streaming.doctor import Finding, Verdict, examine
    from group_coordinator.streaming.settings import CoordinatorSettings

    try:
        settings = load_settings(CoordinatorSettings, config, overrides)
        page = load_settings(PageSettings, config, overrides)
    except SettingsError as error:
        yield Finding("settings", Verdict.WRONG, str(error))
        return
    yield Finding("settings", Verdict.OK, "all are known, and go together")
    # It is a finding if there is none.
    with suppress(JavaNotFound):
        use_java()
    yield from examine(settings, _ports(settings, page))


def _ports(settings: CoordinatorSettings, page: PageSettings) -> dict[str, Callable[[], None]]:
    """What listens for a moment where `run` will, by setting; only on ports that have a number."""
    from prometheus_client import CollectorRegistry

    from group_coordinator.jobs.batches import BatchWatch
    from group_coordinator.jobs.endpoint import serve
    from group_coordinator.jobs.health import Health
    from group_coordinator.page.server import listen

    def metrics() -> None:
        health = Health(BatchWatch("doctor"), settings.stall_ms)
        _, close = serve(settings.metrics_host, settings.metrics_port, CollectorRegistry(), health)
        close()

    def site() -> None:
        with listen(page.ui_host, page.ui_port, lambda _environ, _start: []):
            pass

    ports = {"metrics.port": (settings.metrics_port, metrics), "ui.port": (page.ui_port, site)}
    return {f"{name} {port}": look for name, (port, look) in ports.items() if port > 0}
