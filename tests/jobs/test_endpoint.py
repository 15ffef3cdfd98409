"""The port that Prometheus and the probes look at."""

from __future__ import annotations

import http.client
import re
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from group_coordinator.jobs.batches import BatchWatch
from group_coordinator.jobs.endpoint import serve, serving
from group_coordinator.jobs.health import Activity, Health
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.streaming.counts import Counts
from group_coordinator.streaming.metrics import DecisionMetrics
from tests.patience import PATIENCE_S


@pytest.fixture
def health() -> Health:
    return Health(BatchWatch("the-query-under-test"), stall_ms=9_000)


@pytest.fixture
def port(health: Health) -> Iterator[int]:
    registry = CollectorRegistry()
    registry.register(DecisionMetrics(lambda: Counts(rejected=6)))
    port, close = serve("", 0, registry, health)
    yield port
    close()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    """Status, type and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def test_metrics(port: int) -> None:
    status, content_type, text = ask(port, "/metrics")

    assert status == 200
    assert content_type.startswith("text/plain; version=")
    assert "group_coordinator_requests_rejected_total 6.0\n" in text


def test_probes_say_why(port: int, health: Health) -> None:
    plain = "text/plain; charset=utf-8"
    assert ask(port, "/healthz") == (200, plain, "starting\n")
    assert ask(port, "/readyz") == (503, plain, "starting\n")
    health.does(Activity.STANDING_BY)
    assert ask(port, "/readyz") == (200, plain, "standing by: another coordinator runs\n")
    assert ask(port, "/readyz", "HEAD") == (200, plain, "")


@pytest.mark.parametrize("path", ["/", "/metric", "/healthz/"])
def test_elsewhere_there_is_nothing(port: int, path: str) -> None:
    assert ask(port, path)[::2] == (404, "there is /metrics, /healthz, /readyz\n")


def test_closed(health: Health) -> None:
    port, close = serve("", 0, CollectorRegistry(), health)
    close()

    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S)


def test_a_port_that_somebody_else_has(port: int, health: Health) -> None:
    message = re.escape(f"cannot listen on metrics.port {port}: Address already in use; ")
    with pytest.raises(SettingsError, match=message):
        serve("", port, CollectorRegistry(), health)
    with pytest.raises(
        SettingsError, match=rf"^cannot listen on metrics\.port {port} of metrics\.host ::1: "
    ):
        serve("::1", port, CollectorRegistry(), health)
    with pytest.raises(SettingsError, match=rf"^cannot listen on history\.metrics\.port {port}: "):
        serve("", port, CollectorRegistry(), health, setting="history.metrics.port")


@pytest.mark.parametrize("host", [f"{'a' * 70}.example", "192.0.2.1", "not.there.invalid"])
def test_an_address_that_is_none_of_this_machines(health: Health, host: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.host") as refused:
        serve(host, 0, CollectorRegistry(), health)
    assert "\n" not in str(refused.value)


def test_it_says_where_it_serves(health: Health) -> None:
    said: list[str] = []
    for host in ("", "127.0.0.1", "::1"):
        with serving(host, 0, CollectorRegistry(), health, said.append):
            pass

    assert [re.sub(r":\d+/", ":PORT/", each) for each in said] == [
        "metrics are at http://localhost:PORT/metrics",
        "metrics are at http://127.0.0.1:PORT/metrics",
        "metrics are at http://[::1]:PORT/metrics",
    ]


def test_only_so_many_ask_for_metrics_at_once_and_a_probe_is_answered_meanwhile(health: Health) -> None:
    all_ask, may_end = threading.Barrier(5), threading.Event()

    class Slow(Collector):
        def describe(self) -> list[Metric]:
            return []

        def collect(self) -> Iterator[Metric]:
            all_ask.wait(PATIENCE_S)
            may_end.wait(PATIENCE_S)
            return iter(())

    registry = CollectorRegistry()
    registry.register(Slow())
    port, close = serve("127.0.0.1", 0, registry, health)
    with ExitStack() as stack, ThreadPoolExecutor(4) as threads:
        stack.callback(close)
        asked = [threads.submit(ask, port, "/metrics") for _ in range(4)]
        all_ask.wait(PATIENCE_S)
        assert ask(port, "/metrics")[::2] == (503, "4 others are being answered: ask again\n")
        assert ask(port, "/healthz")[0] == 200
        may_end.set()
        assert [each.result(PATIENCE_S)[0] for each in asked] == [200] * 4
