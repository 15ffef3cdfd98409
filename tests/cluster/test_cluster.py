"""The packed coordinator on a real standalone cluster, of which one worker dies under load."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from group_coordinator.deploy.submit import pack
from tests.cluster.cluster import Cluster, Program
from tests.patience import PATIENCE_S, wait_for
from tests.topics import Reader, Requests

pytestmark = [pytest.mark.spark, pytest.mark.verify]

STATE_PARTITIONS = 4
GROUPS = [f"group-{number}" for number in range(12)]
SESSION_MS = 15_000  # a join on a busy machine takes seconds to be answered, and the session runs by then
BEAT_S = 0.5
SETTINGS = {
    "clock.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "state.partitions": STATE_PARTITIONS,
}


class Members:
    """One member in each group, beating and committing at a steady pace whatever is answered."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._due = 0.0
        self.members: dict[str, dict[str, Any]] = {}
        self.committed: dict[str, int] = {}

    def call(self, api: str, group_id: str, **fields: Any) -> dict[str, Any]:
        """Send a request, and beat until it is answered."""
        request_id = self._requests.send(api, group_id, **fields)
        self.wait_until(lambda: request_id in self._requests.answered)
        return self._requests.answered[request_id]

    def join(self) -> None:
        """Form the groups, after a warm-up: the first batch takes longer than a session."""
        for group_id in GROUPS:
            self._requests.send("heartbeat", group_id, member_id="nobody", generation_id=1)
        self.wait_until_answered()
        joining = {
            # Version 3 makes a member at once, without a second request.
            each: self._requests.join(each, api_version=3, session_timeout_ms=SESSION_MS)
            for each in GROUPS
        }
        self.wait_until(lambda: set(joining.values()) <= self._requests.answered.keys())
        for group_id, request_id in joining.items():
            joined = self._requests.answered[request_id]
            self.members[group_id] = {name: joined[name] for name in ("member_id", "generation_id")}
            own = {"member_id": joined["member_id"], "assignment": ""}
            self._requests.send(
                "sync_group", group_id, api_version=3, assignments=[own], **self.members[group_id]
            )

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Go on beating until it is so."""
        wait_for(condition, meanwhile=self._beat)

    def _beat(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + BEAT_S
            for group_id, member in self.members.items():
                self._requests.send("heartbeat", group_id, **member)
                self.committed[group_id] = len(self._requests.sent)
                partition = {"partition_index": 0, "committed_offset": self.committed[group_id]}
                topics = [{"name": "t", "partitions": [partition]}]
                self._requests.send("offset_commit", group_id, topics=topics, **member)
        self._requests.hear()

    def wait_until_answered(self) -> None:
        """Go on until all that has been sent by now is answered."""
        sent = set(self._requests.sent)
        self.wait_until(lambda: sent <= self._requests.answered.keys())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def topics(tmp_path: Path) -> dict[str, str]:
    names = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
    return {name: f"{tmp_path.name}.{name}" for name in names}


@pytest.mark.parametrize("start", [Cluster.submit, Cluster.run], ids=["spark-submit", "run"])
def test_a_worker_that_dies_costs_nothing_but_time(
    cluster: Cluster,
    bootstrap_servers: str,
    topics: dict[str, str],
    tmp_path: Path,
    start: Callable[..., Program],
) -> None:
    packed = tmp_path / "dist"
    pack(packed)
    settings = SETTINGS | {f"topics.{name}": topic for name, topic in topics.items()}
    coordinator = start(
        cluster,
        packed,
        *("run", "--bootstrap-server", bootstrap_servers, "--checkpoint", str(tmp_path / "checkpoint")),
        *("--create-topics", "--metrics-port", "-1"),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
    )
    coordinator.wait_for("^the coordinator is running")
    with ExitStack() as stack:
        config = {"bootstrap_servers": bootstrap_servers}
        requests = stack.enter_context(closing(Requests(config, topics["requests"], topics["responses"])))
        members = Members(requests)
        members.join()
        members.wait_until_answered()
        before = [cluster.state_partitions(worker) for worker in (0, 1)]
        pid = coordinator.python_pid()

        assert all(before), "each worker has partitions of the state"
        assert before[0] | before[1] == set(range(STATE_PARTITIONS))
        assert all(has_loaded_from_archive(cluster, worker) for worker in (0, 1))

        # At this moment beats and commits of all groups are on their way.
        cluster.workers[0].kill()
        members.wait_until_answered()
        # Whoever was wrongly thought silent is gone by then.
        session_over = time.monotonic() + SESSION_MS / 1000
        members.wait_until(lambda: time.monotonic() > session_over)
        members.wait_until_answered()

        assert cluster.state_partitions(1) == set(range(STATE_PARTITIONS)), "all are on the one that is left"
        assert errors(requests) == {"NONE"}
        acknowledged = dict(members.committed)
        members.wait_until_answered()
        for group_id, offset in acknowledged.items():
            (topic,) = members.call("offset_fetch", group_id)["topics"]
            assert topic["partitions"][0]["committed_offset"] >= offset
        events = stack.enter_context(Reader(config, topics["events"]))
        events.read_to_end()
        happened = {event["event"] for event in events.values()}
        assert "generation_completed" in happened
        assert "member_removed" not in happened
    assert coordinator.python_pid() == pid, "it was not started again"
    os.kill(pid, signal.SIGTERM)
    assert coordinator.exit_code(PATIENCE_S) == 0
    assert "stopped" in coordinator.said


def errors(requests: Requests) -> set[str]:
    """Of all requests but those of the warm-up."""
    sent = [*requests.sent][len(GROUPS) :]
    return {requests.answered[each]["error"] for each in sent if each in requests.answered}


def has_loaded_from_archive(cluster: Cluster, worker: int) -> bool:
    return any(
        "group-coordinator" in library.parts and library.name.startswith("_core")
        for library in cluster.libraries(worker)
    )
