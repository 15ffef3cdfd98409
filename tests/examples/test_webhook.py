"""The example that posts when a group rebalances too often: the rule, and the whole of it beside a group."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from examples.rebalance_webhook import Rebalances
from tests.commands.job import ROOT
from tests.patience import wait_for

MINUTE_MS = 60_000


def begun(group: str, at_ms: int) -> dict[str, object]:
    return {
        "event_id": f"{group}@{at_ms}",
        "event": "state_changed",
        "group_id": group,
        "at_ms": at_ms,
        "to": "PreparingRebalance",
        "reason": "c1 has left",
    }


def test_a_group_is_told_of_once_until_it_is_calmer() -> None:
    rebalances = Rebalances(2, 10 * MINUTE_MS)
    times = [0, 1, 2, 3, 20, 21, 22]
    told = [rebalances.take(begun("a", minute * MINUTE_MS)) for minute in times]
    assert [text is not None for text in told] == [False, False, True, False, False, False, True]
    assert told[2] == "a has rebalanced 3 times in 10 minutes, the last time: c1 has left"


def test_groups_and_other_events_do_not_count_for_each_other() -> None:
    rebalances = Rebalances(1, MINUTE_MS)
    assert rebalances.take(begun("a", 1)) is None
    assert rebalances.take(begun("b", 2)) is None
    assert rebalances.take(begun("a", 3) | {"to": "Stable"}) is None
    assert rebalances.take(begun("a", 4) | {"event": "member_added"}) is None
    assert rebalances.take(begun("a", 5)) is not None


@contextmanager
def chat() -> Iterator[tuple[str, list[str]]]:
    """A server that keeps what is posted."""
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook", posted
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.spark
def test_it_posts(bootstrap_servers: str, tmp_path: Path) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    if "coordinator.events" not in admin.list_topics():
        admin.create_topics({"coordinator.events": {"num_partitions": 1, "replication_factor": 1}})
    admin.close()
    with chat() as (url, posted), (tmp_path / "log").open("wb") as log:
        options = ["--url", url, "--most", "2", "--bootstrap-server", bootstrap_servers]
        example = subprocess.Popen(
            [sys.executable, "examples/rebalance_webhook.py", *options], cwd=ROOT, stdout=log, stderr=log
        )
        producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        try:
            # It reads from when it has begun, which nothing tells.
            numbers = iter(range(1_000_000))

            def look() -> None:
                event = json.dumps(begun("restless", next(numbers))).encode()
                producer.send("coordinator.events", event, key=b"restless").get(30)

            wait_for(lambda: posted, meanwhile=look)
            assert posted[0].startswith("restless has rebalanced 3 times in 10 minutes")
        finally:
            example.terminate()
            example.wait()
            producer.close()
