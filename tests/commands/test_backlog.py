"""More requests than one batch takes: after an outage, and coming faster than they are read."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaProducer

from group_coordinator.jobs.kafka_config import python_client_config
from tests.commands.job import Job
from tests.patience import wait_for
from tests.topics import Reader, Requests, sending

pytestmark = [pytest.mark.spark, pytest.mark.verify]

MEMBERS = 20
SMALL_BATCHES = ("--set", "max.batch.records=200")
LAG = ("group_coordinator_input_lag_records",)
READ = ("group_coordinator_input_rows_total",)
LIVES = 4
"""How often the coordinator is killed while it reads a backlog."""


def heartbeat(group_id: str, member_id: str, request_id: str = "beat") -> tuple[bytes, bytes]:
    request = {"api": "heartbeat", "request_id": request_id, "client_id": "c1", "group_id": group_id}
    return group_id.encode(), json.dumps(request | {"member_id": member_id, "generation_id": 1}).encode()


def newest_batch(job: Job) -> int:
    """The number of the newest batch that is committed."""
    return max(map(int, job.batches("commits")))


def stable_group(requests: Requests, number: int) -> tuple[str, str]:
    """Make a group of one member; return both ids."""
    group_id = f"group-{number}"
    # Of this version, a join makes a member at once.
    joined = requests.answer(requests.join(group_id, api_version=3, session_timeout_ms=6_000))
    place = {"api_version": 3, "member_id": joined["member_id"], "generation_id": joined["generation_id"]}
    assert requests.call("sync_group", group_id, assignments=[], **place)["error"] == "NONE"
    return group_id, joined["member_id"]


def test_nobody_who_sends_heartbeats_expires_while_the_reader_is_behind(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    config = python_client_config(bootstrap_servers, {})
    job = start(*SMALL_BATCHES)
    job.wait_for("the coordinator is running")
    topic = job.topics["requests"]
    producer = KafkaProducer(**config)
    events = Reader(config, job.topics["events"])
    requests = Requests(config, topic, job.topics["responses"])
    with closing(requests), closing(producer), events:
        beats: list[tuple[bytes, bytes]] = []
        flood = [heartbeat("flood", "nobody")] * 100

        with sending(producer, topic, beats, 1.0):
            # Each of them from the moment on that it is there.
            beats.extend(heartbeat(*stable_group(requests, number)) for number in range(MEMBERS))
            # Away, with a backlog of many batches. Each life ends in the batch after the first that it
            # commits, and the next one goes on from there.
            job.terminate()
            assert job.exit_code() == 0
            for key, value in flood * 60:
                producer.send(topic, key=key, value=value)
            producer.flush()
            for _ in range(LIVES):
                newest = newest_batch(job)
                job = start(*SMALL_BATCHES)
                wait_for(lambda job=job, newest=newest: newest_batch(job) > newest)
                job.kill()
            newest = newest_batch(job)
            job = start(*SMALL_BATCHES)
            job.wait_for("the coordinator is running")
            assert newest_batch(job) > newest + 5

            # And now for good more comes than is read, for longer than three sessions.
            with sending(producer, topic, flood, 0.02):
                job.wait_for("restarting the query: requests come faster than they are read")
                until = time.monotonic() + 18
                wait_for(lambda: time.monotonic() > until)
                assert job.metrics()[LAG] > 200
            wait_for(lambda: job.metrics()[LAG] < 200)
            read = job.metrics()[READ]
            wait_for(lambda: job.metrics()[READ] > read)
            # A request that had to wait is not taken for one of a clock that is set back.
            assert "clock" not in "".join(job.said)
        job.terminate()
        assert job.exit_code() == 0
        events.read_to_end()
        assert [event for event in events.values() if event["event"] == "member_removed"] == [], job.said
