"""`group-coordinator gateway`: a bootstrap server for Kafka's own clients."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING

import click

from group_coordinator.commands.arguments import parsed
from group_coordinator.commands.command_config import client_config, command_config_option
from group_coordinator.commands.terminal import bootstrap_option, fail, need, request_topic_option, say
from group_coordinator.coordinator_state.topics import GROUPS, RESPONSES

if TYPE_CHECKING:
    from group_coordinator.gateway.service import Gateway

__all__ = ["gateway"]


def _address(text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise ValueError(f"{text!r} is no address: write HOST:PORT, such as 0.0.0.0:19092")
    return host.strip("[]"), int(port)


@click.command()
@bootstrap_option("localhost:9092")
@click.option(
    "--listen",
    default="0.0.0.0:19092",
    show_default=True,
    callback=parsed(_address),
    help="Address that clients use as bootstrap server. The port of a broker is this one + 1 + its id.",
)
@click.option(
    "--advertised-host",
    default="localhost",
    show_default=True,
    help="Host that clients are told to connect to.",
)
@request_topic_option()
@click.option(
    "--response-topic",
    "response_topics",
    multiple=True,
    default=[RESPONSES],
    show_default=True,
    envvar="GROUP_COORDINATOR_TOPICS_RESPONSES",
    help="Topic that the coordinator answers on (repeatable, for the groups of several tenants).",
)
@click.option(
    "--groups-topic",
    default=GROUPS,
    show_default=True,
    envvar="GROUP_COORDINATOR_TOPICS_GROUPS",
    help="Topic with the newest picture of each group.",
)
@click.option(
    "--groups-prefix",
    default="",
    help="Text that the gateway puts before the ids of all groups, such as the prefix of a tenant.",
)
@click.option(
    "--beats-linger-ms",
    type=click.IntRange(min=1, max=10_000),
    default=200,
    show_default=True,
    help="Time that heartbeats wait for those of other members, in ms.",
)
@click.option(
    "--commit-unknown-topics",
    is_flag=True,
    help="Let members commit for topics and partitions that do not exist; brokers answer 3 to that.",
)
@click.option(
    "--rights",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    show_default=True,
    help="Whether the brokers are asked what a client may do; auto: where they have SASL or TLS.",
)
@command_config_option()
@click.option(
    "--metrics-port",
    type=click.IntRange(min=-1, max=65_535),
    default=9467,
    show_default=True,
    help="Port for Prometheus and probes; 0: any free one, -1: none.",
)
def gateway(  # noqa: PLR0913 - one for each option
    *,
    bootstrap_servers: str,
    listen: tuple[str, int],
    advertised_host: str,
    request_topic: str,
    response_topics: tuple[str, ...],
    groups_topic: str,
    groups_prefix: str,
    beats_linger_ms: int,
    commit_unknown_topics: bool,
    rights: str,
    command_config: str | None,
    metrics_port: int,
) -> None:
    """Let Kafka's own clients use the coordinator.

    The gateway runs until Ctrl-C or SIGTERM.

    \b
    group-coordinator gateway --bootstrap-server kafka:9092 --listen 0.0.0.0:19092
    kafka-console-consumer.sh --bootstrap-server localhost:19092 --group g --topic orders
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need("gateway", "prometheus_client")
    from kafka.errors import KafkaError
    from prometheus_client import CollectorRegistry

    from group_coordinator.gateway.metrics import GatewayHealth, GatewayMetrics
    from group_coordinator.gateway.service import Gateway, GatewayError
    from group_coordinator.gateway.settings import GatewaySettings
    from group_coordinator.jobs.endpoint import serving
    from group_coordinator.jobs.settings import SettingsError

    host, port = listen
    settings = GatewaySettings(
        host=host,
        port=port,
        advertised_host=advertised_host,
        request_topic=request_topic,
        response_topics=response_topics,
        groups_topic=groups_topic,
        groups_prefix=groups_prefix,
        beats_linger_ms=beats_linger_ms,
        commit_unknown_topics=commit_unknown_topics,
        rights=rights,
    )
    logging.getLogger("group_coordinator.gateway").setLevel(logging.INFO)
    registry, health = CollectorRegistry(), GatewayHealth()
    try:
        made = Gateway(
            settings, client_config(bootstrap_servers, command_config), GatewayMetrics(registry), health
        )
        with serving(metrics_port, registry, health, say, "--metrics-port"):
            asyncio.run(_run(made))
    except (GatewayError, KafkaError, SettingsError, ValueError) as error:
        fail(error)


async def _run(made: Gateway) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopping.set)
    await made.run(say, stopping)
