"""All parts of the project log in by each mechanism, at a real broker.

Tokens are in a file of their own (test_tokens.py), and Amazon's IAM has not been tried.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

from group_coordinator.deploy.broker import EmbeddedBroker, _free_port
from tests.commands.job import COMMAND, ROOT, HistoryJob, Job, Process
from tests.patience import PATIENCE_S, wait_for
from tests.security.conftest import password_of, write_settings
from tests.security.kerberos import Kerberos
from tests.security.rights import rights_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

HOST = "localhost"
"""As the broker's principal has it."""


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    with Kerberos(tmp_path_factory.mktemp("kerberos") / "kdc") as kdc:
        if not kdc.has_python():
            pytest.skip("Debian's python3-gssapi is for another Python")
        yield kdc


@pytest.fixture(scope="module")
def kerberos_servers(kerberos: Kerberos, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that lets nobody do anything but the principal `coordinator`."""
    open_port, port, controller = _free_port(), _free_port(), _free_port()
    protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT"
    broker = EmbeddedBroker(
        tmp_path_factory.mktemp("broker"),
        port=open_port,
        jvm_flags=("-XX:TieredStopAtLevel=1", kerberos.java_option),
        overrides={
            "listeners": (
                f"PLAINTEXT://127.0.0.1:{open_port},KERBEROS://127.0.0.1:{port},"
                f"CONTROLLER://127.0.0.1:{controller}"
            ),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{open_port},KERBEROS://{HOST}:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listener.security.protocol.map": protocols,
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.kerberos.gssapi.sasl.jaas.config": kerberos.login(f"kafka/{HOST}"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "false",
            "super.users": "User:ANONYMOUS;User:coordinator",
        },
    )
    with broker:
        yield f"{HOST}:{port}"


def told(*words: str) -> subprocess.CompletedProcess[str]:
    """What the command line says."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def described(group: str, *options: str) -> str:
    """What the command line says of a group's state."""
    done = told("groups", "--describe", "--state", "--group", group, *options)
    # There is no such group before the member has come.
    assert done.returncode == 0 or "does not exist" in done.stderr, done.stderr
    return done.stdout


def shown(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    return text


def take_part(servers: str, java: dict[str, str], directory: Path, name: str) -> None:
    """Let all parts do their work with these Java properties; topics begin with `name`."""
    file = write_settings(
        directory / "coordinator.toml",
        {f"kafka.{key}": value for key, value in java.items()}
        | {"ui.port": "0", "gateway.allow.plaintext.passwords": "true"},
    )
    properties = directory / "client.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in java.items()))
    job = Job(servers, directory, name, "--config", str(file))
    topics = [f"topics.{it}={job.topics[it]}" for it in ("requests", "responses", "groups", "events")]
    settings = ("--config", str(file), *(word for it in topics for word in ("--set", it)))
    connected = ("--bootstrap-server", servers, "--command-config", str(properties))
    asking = ("--request-topic", job.topics["requests"], "--response-topic", job.topics["responses"])
    running = [job]
    try:
        job.wait_for("the coordinator is running")
        gateway = Process(
            directory,
            *("gateway", "--bootstrap-server", servers, "--listen", "127.0.0.1:0", "--metrics-port", "-1"),
            *settings,
        )
        running.append(gateway)
        page = Process(directory, "ui", "--bootstrap-server", servers, "--port", "0", *settings)
        running.append(page)
        lag = ("measure-lag", "--bootstrap-server", servers, "--groups", "seen", "--metrics-port", "0")
        topic = f"topics.offsets={job.topics['offsets']}"
        measuring = Process(directory, *lag, "--config", str(file), "--set", topic)
        running.append(measuring)
        history = HistoryJob(servers, directory, job.topics["events"], "--config", str(file))
        running.append(history)
        gateway.wait_for("clients find the gateway at ")
        url = page.wait_for("the page is at ")
        running.append(Process(directory, "member", "--group", "seen", "--units", "2", *connected, *asking))
        wait_for(lambda: "Stable" in described("seen", *connected, *asking))
        wait_for(lambda: "seen" in shown(url))
        wait_for(lambda: measuring.metrics().get(("group_coordinator_lag_measured_timestamp_seconds",)))
        wait_for(lambda: history.metrics().get(("group_coordinator_history_rows_merged_total", "events")))
        events = told("events", "--group", "seen", "--events-topic", job.topics["events"], *connected)
        assert " joined from " in events.stdout, events.stderr
        examine(job, servers, file)
    finally:
        for each in running:
            each.kill()


def examine(job: Job, servers: str, file: Path) -> None:
    """Have the doctor look at what it can only see when it is logged in."""
    topics = [word for name, it in job.topics.items() for word in ("--set", f"topics.{name}={it}")]
    checkpoint = ("--checkpoint", str(job.checkpoint))
    done = told(
        "doctor", "--json", "--bootstrap-server", servers, *checkpoint, "--config", str(file), *topics
    )
    verdicts = {it["subject"]: it["verdict"] for it in json.loads(done.stdout)}
    asked = ["kafka", *(f"topic {it}" for it in job.topics.values()), "spark", "checkpoint"]
    assert {it: verdicts[it] for it in asked} == dict.fromkeys(asked, "ok"), done.stdout


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_all_log_in_with_a_password(secured: SecuredBroker, tmp_path: Path, mechanism: str) -> None:
    name = mechanism.lower()
    topics = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
    names = {f"coordinator.{it}": f"{name}.{it}" for it in topics}
    names["coordinator.responses*"] = names["coordinator.responses"]
    roles = ("The coordinator", "The gateway", "The history", "Who measures lag", "A member", "An operator")
    secured.grant("coordinator", [right for role in roles for right in rights_of(role, names)])
    java = secured.java_properties("coordinator", password_of("coordinator"))
    if mechanism == "PLAIN":
        java["sasl.mechanism"] = mechanism
        java["sasl.jaas.config"] = java["sasl.jaas.config"].replace("scram.Scram", "plain.Plain")

    take_part(secured.bootstrap_servers, java, tmp_path, name)


def test_all_log_in_with_a_keytab(
    kerberos: Kerberos, kerberos_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in kerberos.environment.items():
        monkeypatch.setenv(name, value)

    take_part(kerberos_servers, properties_of(kerberos, "coordinator"), tmp_path, "kerberos")


def test_a_service_that_kerberos_does_not_know_is_told(
    kerberos: Kerberos, kerberos_servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in kerberos.environment.items():
        monkeypatch.setenv(name, value)
    java = properties_of(kerberos, "stranger") | {"sasl.kerberos.service.name": "nobody"}
    file = write_settings(tmp_path / "wrong.toml", {f"kafka.{name}": it for name, it in java.items()})

    message = Job(kerberos_servers, tmp_path, "wrong", "--config", str(file)).error()

    assert message.startswith(f"cannot reach Kafka at {kerberos_servers}: ")
    assert "Kerberos: look at /etc/krb5.conf" in message


def properties_of(kerberos: Kerberos, principal: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": kerberos.login(principal),
    }
