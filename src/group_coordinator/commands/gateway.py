"""`group-coordinator gateway`: a bootstrap server for Kafka's own clients."""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.terminal import (
    bootstrap_option,
    config_option,
    metrics_port_option,
    need,
    overriding,
    set_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.gateway.service import Gateway
    from group_coordinator.gateway.settings import GatewaySettings

_COLLECT_AFTER = 10_000
"""New objects until Python looks for garbage; 700 by default.

Heartbeats that wait for their verdicts are none. With 10,000 members looking at them took a fifth of the CPU
time.
"""


@click.command()
@bootstrap_option()
@click.option(
    "--listen",
    "gateway_listen",
    metavar="HOST:PORT",
    help="Address that clients use as bootstrap server. The port of a broker is this one + 1 + its id.  "
    "[default: 0.0.0.0:19092]",
)
@click.option(
    "--advertised-host",
    "gateway_advertised_host",
    help="Host that clients are told to connect to.  [default: localhost]",
)
@config_option()
@metrics_port_option("gateway_metrics_port", 9467, "Prometheus and probes")
@set_option("topics.requests=... or gateway.tls.certificate=FILE")
def gateway(*, config: Path | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Let Kafka's own clients use the coordinator.

    The gateway runs until Ctrl-C or SIGTERM. It reads its settings as `run` does, and one file may be for
    both.

    \b
    group-coordinator gateway --bootstrap-server kafka:9092 --listen 0.0.0.0:19092
    kafka-console-consumer.sh --bootstrap-server localhost:19092 --group g --topic orders
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need("gateway", "prometheus_client", "structlog")
    from group_coordinator.commands.settings import job_settings
    from group_coordinator.gateway.settings import GatewaySettings

    _run(job_settings(GatewaySettings, config, overriding(options, assignments)))


def _run(settings: GatewaySettings) -> None:
    import asyncio

    from kafka.errors import KafkaError
    from prometheus_client import CollectorRegistry

    from group_coordinator.commands.settings import job
    from group_coordinator.gateway.apis import offer_of
    from group_coordinator.gateway.errors import GatewayError
    from group_coordinator.gateway.health import GatewayHealth
    from group_coordinator.gateway.loops import new_event_loop
    from group_coordinator.gateway.metrics import GatewayMetrics
    from group_coordinator.gateway.service import Gateway
    from group_coordinator.jobs.endpoint import serving
    from group_coordinator.jobs.kafka_config import python_client_config

    with job(settings, GatewayError, KafkaError) as tell:
        kafka_config = python_client_config(settings.bootstrap_servers, settings.kafka)
        registry, health = CollectorRegistry(), GatewayHealth()
        gc.set_threshold(_COLLECT_AFTER)
        # To look at all modules again takes 50 ms, in which no client is served.
        gc.freeze()
        made = Gateway(
            settings,
            kafka_config,
            GatewayMetrics(registry, offer_of(settings.gateway_groups_brokers)),
            health,
        )
        port = settings.gateway_metrics_port
        with (
            serving(settings.metrics_host, port, registry, health, tell, "gateway.metrics.port"),
            asyncio.Runner(loop_factory=new_event_loop) as runner,
        ):
            runner.run(_until_stopped(made, tell))


async def _until_stopped(made: Gateway, tell: Callable[[str], None]) -> None:
    import asyncio

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopping.set)
    await made.run(tell, stopping)
