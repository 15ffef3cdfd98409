from __future__ import annotations

import pytest
from click.testing import CliRunner

from group_coordinator.commands.cli import main


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            ["--listen", "host:x"],
            "gateway.listen: 'host:x' is no address: write HOST:PORT, such as 0.0.0.0:19092",
        ),
        (
            ["--set", "gateway.max.conections=1"],
            "there is no setting gateway.max.conections; did you mean gateway",
        ),
        (
            ["--set", "gateway.tls.certificate=none.pem"],
            "cannot use gateway.tls.certificate none.pem with its key",
        ),
        (
            ["--set", "kafka.security.protocol=TLS"],
            "kafka.security.protocol is TLS, and must be one of PLAINTEXT",
        ),
    ],
)
def test_settings_that_cannot_be_used(options: list[str], why: str) -> None:
    result = CliRunner().invoke(main, ["gateway", "--bootstrap-server", "k:1", *options])

    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert why in result.stderr
