"""The packed coordinator on a real standalone cluster, of which one worker dies under load."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from group_coordinator.deploy.submit import pack
from tests.cluster.cluster import Cluster
from tests.patience import PATIENCE_S, wait_for

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


class Log:
    """All records of a topic from the beginning, as they come."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None)
        partitions = [TopicPartition(topic, each) for each in self._consumer.partitions_for_topic(topic)]
        self._consumer.assign(partitions)
        self._consumer.seek_to_beginning(*partitions)
        self.close = self._consumer.close

    def read(self, timeout_ms: int) -> Iterator[bytes]:
        for records in self._consumer.poll(timeout_ms=timeout_ms).values():
            yield from (record.value for record in records)

    def read_to_end(self) -> list[bytes]:
        partitions = self._consumer.assignment()
        ends = self._consumer.end_offsets(partitions)
        values: list[bytes] = []
        while any(self._consumer.position(each) < ends[each] for each in partitions):
            values += self.read(timeout_ms=100)
        return values


class Members:
    """One member in each group, beating and committing at a steady pace whatever is answered."""

    def __init__(self, bootstrap_servers: str, topics: dict[str, str]) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks="all")
        self._responses = Log(bootstrap_servers, topics["responses"])
        self._topic = topics["requests"]
        self._ids = itertools.count()
        self._due = 0.0
        self.members: dict[str, dict[str, Any]] = {}
        self.committed: dict[str, int] = {}
        self.sent: list[str] = []
        self.answers: dict[str, bytes] = {}

    def close(self) -> None:
        self._producer.close()
        self._responses.close()

    def _send(self, api: str, group_id: str, **fields: Any) -> str:
        request_id = f"r{next(self._ids)}"
        request = {"api": api, "request_id": request_id, "client_id": "c", "group_id": group_id} | fields
        self._producer.send(self._topic, key=group_id.encode(), value=json.dumps(request).encode())
        self.sent.append(request_id)
        return request_id

    def _hear(self) -> None:
        for value in self._responses.read(timeout_ms=50):
            request_id = json.loads(value)["request_id"]
            assert self.answers.setdefault(request_id, value) == value, "a repeated answer is the same bytes"

    def call(self, api: str, group_id: str, **fields: Any) -> dict[str, Any]:
        """Send a request, and beat until it is answered."""
        request_id = self._send(api, group_id, **fields)
        self.wait_until(lambda: request_id in self.answers)
        return json.loads(self.answers[request_id])

    def join(self) -> None:
        """Form the groups, after a warm-up: the first batch takes longer than a session."""
        for group_id in GROUPS:
            self._send("heartbeat", group_id, member_id="nobody", generation_id=1)
        self.wait_until_answered()
        protocols = [{"name": "range", "metadata": ""}]
        joining = {
            # Version 3 makes a member at once, without a second request.
            each: self._send(
                *("join_group", each),
                api_version=3,
                session_timeout_ms=SESSION_MS,
                protocol_type="consumer",
                protocols=protocols,
            )
            for each in GROUPS
        }
        self.wait_until(lambda: set(joining.values()) <= self.answers.keys())
        for group_id, request_id in joining.items():
            joined = json.loads(self.answers[request_id])
            self.members[group_id] = {name: joined[name] for name in ("member_id", "generation_id")}
            own = {"member_id": joined["member_id"], "assignment": ""}
            self._send("sync_group", group_id, api_version=3, assignments=[own], **self.members[group_id])

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Go on beating until it is so."""
        wait_for(condition, meanwhile=self._beat)

    def _beat(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + BEAT_S
            for group_id, member in self.members.items():
                self._send("heartbeat", group_id, **member)
                self.committed[group_id] = len(self.sent)
                partition = {"partition_index": 0, "committed_offset": self.committed[group_id]}
                topics = [{"name": "t", "partitions": [partition]}]
                self._send("offset_commit", group_id, topics=topics, **member)
        self._hear()

    def wait_until_answered(self) -> None:
        """Go on until all that has been sent by now is answered."""
        sent = set(self.sent)
        self.wait_until(lambda: sent <= self.answers.keys())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.fixture
def topics(tmp_path: Path) -> dict[str, str]:
    names = ("requests", "clock", "responses", "groups", "offsets", "events", "rejected")
    return {name: f"{tmp_path.name}.{name}" for name in names}


def test_a_worker_that_dies_costs_nothing_but_time(
    cluster: Cluster, bootstrap_servers: str, topics: dict[str, str], tmp_path: Path
) -> None:
    packed = tmp_path / "dist"
    pack(packed)
    settings = SETTINGS | {f"topics.{name}": topic for name, topic in topics.items()}
    coordinator = cluster.submit(
        packed,
        *("run", "--bootstrap-servers", bootstrap_servers, "--checkpoint", str(tmp_path / "checkpoint")),
        *("--create-topics", "--metrics-port", "-1"),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
    )
    coordinator.wait_for("^the coordinator is running")
    with ExitStack() as stack:
        members = Members(bootstrap_servers, topics)
        stack.callback(members.close)
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
        assert errors(members) == {"NONE"}
        acknowledged = dict(members.committed)
        members.wait_until_answered()
        for group_id, offset in acknowledged.items():
            (topic,) = members.call("offset_fetch", group_id)["topics"]
            assert topic["partitions"][0]["committed_offset"] >= offset
        events = Log(bootstrap_servers, topics["events"])
        stack.callback(events.close)
        happened = {json.loads(value)["event"] for value in events.read_to_end()}
        assert "generation_completed" in happened
        assert "member_removed" not in happened
    assert coordinator.python_pid() == pid, "it was not started again"
    os.kill(pid, signal.SIGTERM)
    assert coordinator.exit_code(PATIENCE_S) == 0
    assert "stopped" in coordinator.said


def errors(members: Members) -> set[str]:
    """Of all requests but those of the warm-up."""
    return {
        json.loads(members.answers[each])["error"]
        for each in members.sent[len(GROUPS) :]
        if each in members.answers
    }


def has_loaded_from_archive(cluster: Cluster, worker: int) -> bool:
    return any(
        "group-coordinator" in library.parts and library.name.startswith("_core")
        for library in cluster.libraries(worker)
    )
