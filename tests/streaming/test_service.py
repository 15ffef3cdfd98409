"""The order of a start: whatever can be told at once is told before anybody waits for Kafka or Spark."""

from __future__ import annotations

import socket

import pytest

from group_coordinator.jobs.settings import SettingsError
from group_coordinator.streaming.service import run_coordinator
from group_coordinator.streaming.settings import CoordinatorSettings


def test_a_port_that_somebody_else_has_is_told_before_all_else() -> None:
    said: list[str] = []
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # Nobody answers at this address, and a start would wait for it for half a minute.
        given = {"bootstrap.servers": "127.0.0.1:1", "checkpoint": "/nowhere", "metrics.port": port}
        with pytest.raises(SettingsError, match=rf"^cannot listen on metrics\.port {port}: "):
            run_coordinator(CoordinatorSettings.load(None, {}, given), said.append)
    assert said == []
