from __future__ import annotations

import pytest
from click.testing import CliRunner

from group_coordinator.commands.cli import main


@pytest.mark.parametrize("address", ["19092", "host:", "host:x", "host:70000"])
def test_an_address_that_is_none(address: str) -> None:
    result = CliRunner().invoke(main, ["gateway", "--listen", address])

    assert result.exit_code == 2
    assert f"{address!r} is no address: write HOST:PORT, such as 0.0.0.0:19092" in result.stderr
