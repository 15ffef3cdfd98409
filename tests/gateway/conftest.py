from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from tests.commands.job import COMMAND, Job, Process, set_all
from tests.patience import PATIENCE_S


class Running(NamedTuple):
    """A coordinator and a gateway, each a process, and a broker that clients are not told of."""

    broker: str
    gateway: str
    job: Job
    process: Process
    directory: Path

    def describe(self, group: str, *arguments: str) -> list[dict[str, Any]]:
        """Describe a group by our own command; a row for each partition, member or state."""
        names = {"request": "requests", "response": "responses", "groups": "groups"}
        topics = [word for it, name in names.items() for word in (f"--{it}-topic", self.job.topics[name])]
        command = [*COMMAND, "groups", "--bootstrap-server", self.broker, *topics]
        done = subprocess.run(
            [*command, "--describe", "--group", group, "--output", "json", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout))


TENANT = "tenant-"
TENANT_TOPIC = "through-gateway.tenant"
"""Groups whose ids begin so are answered on a topic of their own."""
TENANTS = ("--set", f"responses.topics.{TENANT}={TENANT_TOPIC}")


def start_gateway(
    directory: Path,
    broker: str,
    topics: Mapping[str, str],
    *arguments: str,
    listen: str = "127.0.0.1:0",
    advertised: str = "localhost",
    within: Sequence[str] = (),
) -> Process:
    """`topics`: the names that its coordinator has for them."""
    names = set_all({f"topics.{name}": topics[name] for name in ("requests", "responses", "groups")})
    return Process(
        directory,
        "gateway",
        "--bootstrap-server",
        broker,
        "--listen",
        listen,
        "--advertised-host",
        advertised,
        *names,
        "--metrics-port",
        "0",
        *arguments,
        within=within,
    )


# No longer: a coordinator that nobody needs any more still takes a tenth of the machine.
@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory, bootstrap_servers: str) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("gateway")
    with ExitStack() as stack:
        settings = {
            f"responses.topics.{TENANT}": TENANT_TOPIC,
            "group.consumer.heartbeat.interval.ms": "1000",
            "group.consumer.session.timeout.ms": "10000",
        }
        job = Job(bootstrap_servers, directory, "through-gateway", *set_all(settings))
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        process = start_gateway(directory, bootstrap_servers, job.topics, *TENANTS)
        stack.callback(process.kill)
        address = process.wait_for("clients find the gateway at ")
        yield Running(bootstrap_servers, address, job, process, directory)
        process.terminate()
        assert process.exit_code() == 0, process.said


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> bytearray:
    """All that kafka-python receives meanwhile."""
    data = bytearray()

    def tap(kind: type[KafkaTCPTransport]) -> None:
        receive = kind._sock_recv

        def tapped(self: KafkaTCPTransport) -> tuple[bytes, object]:
            received, error = receive(self)
            data.extend(received)
            return received, error

        monkeypatch.setattr(kind, "_sock_recv", tapped)

    tap(KafkaTCPTransport)
    tap(KafkaSSLTransport)
    return data
