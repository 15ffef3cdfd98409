"""`group-coordinator measure-lag`: the lag of groups, for Prometheus and for a topic."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    metrics_port_option,
    need,
    of_option,
    overriding,
    set_option,
)
from group_coordinator.jobs.signals import stop_event


@click.command()
@bootstrap_option()
@of_option()
@click.option(
    "--groups",
    "lag_groups",
    metavar="IDS",
    help="Groups to measure: ids with commas between, * for any characters.",
)
@config_option()
@click.option("--create-topics", is_flag=True, default=None, help="Create the topic of lag if it is missing.")
@metrics_port_option("lag_metrics_port", 9468, "Prometheus and probes")
@set_option("topics.offsets=... or lag.interval.ms=60000")
def measure_lag(*, config: Path | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Measure how far groups are behind, in records and in time.

    It runs until Ctrl-C or SIGTERM. It tells Prometheus the lag of each partition in records and in seconds,
    whether a group's lag grows, and which partitions stand still. It asks the brokers, and never the
    coordinator. If the topic coordinator.lag is there, it writes each measurement to it, for `groups`, the
    page and the history.

    \b
    group-coordinator measure-lag --bootstrap-server kafka:9092 --groups 'orders, etl-*'
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need("measure-lag", "prometheus_client", "structlog")
    from prometheus_client import CollectorRegistry

    from group_coordinator.commands.settings import job, job_settings
    from group_coordinator.jobs.endpoint import serving
    from group_coordinator.jobs.kafka_config import python_client_config
    from group_coordinator.lag.metrics import LagMetrics
    from group_coordinator.lag.service import measure_lag as measure
    from group_coordinator.lag.settings import LagSettings

    needed = ("bootstrap.servers", "lag.groups")
    stopping = stop_event(signal.SIGTERM, signal.SIGINT)
    settings = job_settings(LagSettings, config, overriding(options, assignments), needed)
    with job(settings) as tell:
        kafka_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        metrics = LagMetrics(settings.lag_cluster_name, settings.lag_interval_ms / 1_000)
        registry = CollectorRegistry()
        registry.register(metrics)
        port = settings.lag_metrics_port
        with serving(settings.metrics_host, port, registry, metrics, tell, "lag.metrics.port"):
            measure(settings, kafka_config, metrics, tell, stopping)
