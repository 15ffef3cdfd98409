"""A request partition that takes no requests for a while, because a follower hangs."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition

from group_coordinator.coordinator_state.partitioning import partition_for_key
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.commands.asking import requests_to
from tests.commands.ending import events_as_replayed
from tests.commands.job import Job
from tests.deploy.prometheus import watched
from tests.faults.history import collect, read_topic
from tests.gateway.cluster import another_of, hiding_listeners, replicate
from tests.gateway.ports import ports_in_a_row
from tests.patience import PATIENCE_S, wait_for
from tests.repeating import repeating
from tests.topics import Reader, Requests

pytestmark = [pytest.mark.spark, pytest.mark.verify]

ON_BOTH = next(f"g{it}" for it in range(99) if partition_for_key(b"g%d" % it, 2) == 0)
ON_ONE, BEATS = [f"g{it}" for it in range(99) if partition_for_key(b"g%d" % it, 2) == 1][:2]
DEAD_FOR_MS = 18_000
UNASKED = {"acks": 0, "enable_idempotence": False}
"""Settings of a producer that does not wait until others can read what it writes."""


@pytest.fixture(params=["hidden", "known"])
def first(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A broker that waits for its followers.

    If they are hidden, clients use a listener that those do not have. So no client waits for one that hangs.
    """
    # Longer than the test: nothing but the follower itself puts it right.
    overrides = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "600000"}
    if request.param == "hidden":
        overrides |= hiding_listeners(port := ports_in_a_row(3))
        with EmbeddedBroker(tmp_path / "1", port=port, overrides=overrides) as broker:
            yield broker
    else:
        with EmbeddedBroker(tmp_path / "1", overrides=overrides) as broker:
            yield broker


@contextmanager
def beating(requests: Requests, topic: str, group_id: str, member: dict[str, Any]) -> Iterator[None]:
    """Send a heartbeat each second, whether the others are answered or not."""
    beat = {"api": "heartbeat", "client_id": "c2", "group_id": group_id} | member
    numbers = itertools.count()

    def send() -> None:
        value = json.dumps(beat | {"request_id": f"beat{next(numbers)}"}).encode()
        requests.producer.send(topic, key=group_id.encode(), value=value)

    with repeating(send, 1):
        yield


def join(requests: Requests, group_id: str, client_id: str = "c1", **fields: Any) -> dict[str, Any]:
    """Be the one member of a group."""
    joined = requests.answer(requests.join(group_id, client_id, api_version=3, **fields))
    me = {name: joined[name] for name in ("member_id", "generation_id")}
    assignments = [{"member_id": joined["member_id"], "assignment": ""}]
    synced = requests.call("sync_group", group_id, client_id, api_version=3, **me, assignments=assignments)
    assert synced["error"] == "NONE"
    return me


@pytest.mark.parametrize(
    ("first", "is_killed"),
    [("hidden", False), ("hidden", True), ("known", False)],
    ids=["runs", "dies", "is_held_up"],
    indirect=["first"],
)
def test_time_stands_still_for_groups_of_a_partition_that_takes_no_requests(
    first: EmbeddedBroker, tmp_path: Path, is_killed: bool
) -> None:
    """Also for a coordinator that dies when it has found so, before it has noted it."""
    servers = first.bootstrap_servers

    def start() -> Job:
        return Job(servers, tmp_path, "stands", "--set", "requests.partitions=2")

    job = start()
    try:
        job.wait_for("the coordinator is running")
        stands = TopicPartition(job.topics["requests"], 0)
        with (
            requests_to(servers, job) as requests,
            # A client with requests for the other partition waits for that.
            requests_to(servers, job) as others,
            Reader({"bootstrap_servers": servers}, job.topics["events"]) as events,
            another_of(tmp_path, first, 2) as second,
            watched(job, tmp_path / "prometheus") as prometheus,
            ExitStack() as stack,
        ):
            replicate(second.bootstrap_servers, stands, [1, 2])
            member = join(requests, ON_BOTH)
            join(requests, ON_ONE, session_timeout_ms=DEAD_FOR_MS)
            beats = join(others, BEATS, "c2", session_timeout_ms=6_000)
            stack.enter_context(beating(others, stands.topic, BEATS, beats))
            holding = stack.enter_context(closing(KafkaProducer(bootstrap_servers=servers, **UNASKED)))
            # So that it does not ask the one that hangs.
            assert holding.partitions_for(stands.topic)
            assert second.pid is not None
            os.kill(second.pid, signal.SIGSTOP)
            try:
                # The leader has this, of this time, and nobody can read it.
                beat = {"api": "heartbeat", "request_id": "held", "client_id": "c1", "group_id": ON_BOTH}
                value = json.dumps(beat | member).encode()
                holding.send(stands.topic, key=ON_BOTH.encode(), value=value).get(PATIENCE_S)
                if is_killed:
                    job.wait_for("restarting the query: request partition 0 takes no requests")
                    job.kill()
                    job = start()
                job.wait_for("request partition 0 takes no requests: ")
                # Which takes longer than the session of the other one.
                removed = events.first(
                    lambda it: it["event"] == "member_removed" and it["group_id"] == ON_ONE
                )
                assert job.metrics()["group_coordinator_request_partitions_standing",] == 1, job.said
                if not is_killed:
                    # A coordinator that has died has other metrics' port.
                    wait_for(lambda: "CoordinatorPartitionStandsStill" in prometheus.firing())
            finally:
                os.kill(second.pid, signal.SIGCONT)
            job.wait_for("request partition 0 takes requests again, after ")
            assert requests.answer("held")["error"] == "NONE"
            assert requests.call("heartbeat", ON_BOTH, **member)["error"] == "NONE"
            wait_for(lambda: job.metrics()["group_coordinator_request_partitions_standing",] == 0)
        job.terminate()
        assert job.exit_code() == 0
        history = collect(job.settings, read_topic(servers, job.topics["requests"]), [], {})
        told = list(map(json.loads, events_as_replayed(history)))
        assert [it["group_id"] for it in told if it["event"] == "member_removed"] == [ON_ONE]
        # A request that waited for so long is not taken for one of a clock that is wrong.
        assert not [it for it in told if it["event"] == "clock_corrected"]
        (stood,) = history.standstills
        assert stood.end_ms is not None
        assert stood.start_ms < removed["at_ms"] < stood.end_ms
    finally:
        job.kill()
