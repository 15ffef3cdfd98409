"""Passwords and the secret of member ids are told nowhere, however much is logged and whatever fails."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka.admin import ACLOperation

from group_coordinator import GroupMember
from tests.commands.job import ROOT
from tests.patience import PATIENCE_S, wait_for
from tests.security.certificates import make_client_key
from tests.security.conftest import password_of, write_settings
from tests.security.disguises import disguises
from tests.security.rights import rights_of

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker
    from tests.security.token_server import TokenServer

pytestmark = pytest.mark.spark

SECRETS = {
    "sasl.jaas.config": password_of("coordinator"),
    "ssl.key.password": "what-decrypts-the-key",
    "member.id.secret": "what-nobody-can-guess",
}
# Python's root logger, kafka-python and Spark all say whatever they can.
PROGRAM = """
import logging
logging.basicConfig(level=1)
from group_coordinator.commands.cli import main
main()
"""


def test_a_secret_is_recognised_in_disguise() -> None:
    for before in ("", "x", "xy", "xyz"):
        said = base64.b64encode(f"{before}hunter2{before}".encode())

        assert any(form in said for form in disguises("hunter2"))


def told(where: dict[str, bytes], secrets: dict[str, str]) -> list[tuple[str, str]]:
    """Who tells which secret."""
    return [
        (place, name)
        for name, secret in secrets.items()
        for form in disguises(secret)
        for place, text in where.items()
        if form in text
    ]


@pytest.mark.verify
@pytest.mark.parametrize("login", ["password", "token"])
def test_no_secret_is_told(secured: SecuredBroker, tokens: TokenServer, tmp_path: Path, login: str) -> None:
    secured.grant("coordinator", rights_of("The coordinator"))
    secured.grant("member", rights_of("A member"))
    before = len(tokens.given)
    servers, properties = secured.bootstrap_servers, secured.java_properties
    if login == "token":
        servers, properties = secured.token_servers, secured.token_properties
    java = properties("coordinator", SECRETS["sasl.jaas.config"]) | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(make_client_key(tmp_path, SECRETS["ssl.key.password"])),
        "ssl.key.password": SECRETS["ssl.key.password"],
    }
    checkpoint = tmp_path / "checkpoint"
    settings = {
        "bootstrap.servers": servers,
        "checkpoint": str(checkpoint),
        "create.topics": "true",
        "metrics.port": "0",
        "member.id.secret": SECRETS["member.id.secret"],
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.log.level": "ALL",
        "log.level": "debug",
        # To say all that takes long, and nothing here depends on time.
        "clock.max.gap.ms": "100000",
        **{f"kafka.{name}": value for name, value in java.items()},
    }
    file = write_settings(tmp_path / "coordinator.toml", settings)
    output, errors = tmp_path / "stdout", tmp_path / "stderr"
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "--verbose", "run", "--config", str(file)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    def said(pattern: str) -> str:
        """Wait for it to say something like this; what is in the brackets."""
        found: list[str] = []

        def there() -> bool:
            found[:] = re.findall(pattern, errors.read_text(errors="replace"))
            return bool(found) or process.poll() is not None

        wait_for(there)
        assert found, errors.read_text(errors="replace")[-2_000:]
        return found[0]

    try:
        said(r"\n(the coordinator is running)\n")
        with GroupMember(group_id="g", **secured.client_config("member", password_of("member"))) as member:
            member.subscribe(units=["eu"])
            wait_for(lambda: bool(member.poll(timeout_ms=100)))
        web = f"http://127.0.0.1:{said(r'service .SparkUI. on port ([0-9]+)')}"
        shown = {
            place: fetch(place)
            for place in (said(r"(?m)^metrics are at (\S+)"), f"{web}/environment/", f"{web}/StreamingQuery/")
        }
        of_application = (
            f"{web}/api/v1/applications/{json.loads(fetch(f'{web}/api/v1/applications'))[0]['id']}"
        )
        for page in ("environment", "sql?details=true&planDescription=true", "jobs"):
            shown[page] = fetch(f"{of_application}/{page}")

        # It may not answer any more, and fails with all that Spark and Kafka have to say about that.
        without_write = [
            right._replace(operations=(ACLOperation.DESCRIBE,))
            if right.pattern.resource_name == "coordinator.responses"
            else right
            for right in rights_of("The coordinator")
        ]
        secured.grant("coordinator", without_write)
        with GroupMember(group_id="g", **secured.client_config("member", password_of("member"))) as member:
            member.subscribe(units=["eu"])
            member.poll(timeout_ms=100)
        process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    shown |= {"stdout": output.read_bytes(), "stderr": errors.read_bytes()}
    shown |= {str(it): it.read_bytes() for it in checkpoint.rglob("*") if it.is_file()}
    assert process.returncode == 1
    (failure,) = [line for line in shown["stderr"].splitlines() if line.startswith(b"error: ")]
    assert failure.endswith(b"Not authorized to access topics: [coordinator.responses]")
    # Otherwise nothing would have been logged in which a secret could have been.
    for spoken in (
        b"sasl.jaas.config",
        b" level=debug logger=kafka.",
        b" level=info logger=py4j.",
        b" level=debug event=request_answered group=g member=",
        b" TRACE ",
    ):
        assert spoken in shown["stderr"]
    given = [each for each in tokens.given[before:] if each.client == "coordinator"]
    assert bool(given) == (login == "token")
    # The signature is what nobody else can make.
    signatures = {f"token {number}": it.token.rpartition(".")[2] for number, it in enumerate(given)}
    assert told(shown, SECRETS | signatures) == []


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        found: bytes = answer.read()
    return found
