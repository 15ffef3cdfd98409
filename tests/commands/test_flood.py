"""A flood of questions about a large group, while members of other groups send heartbeats."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.flood import ASIDE, ask, commits, question
from benchmarks.load import Load, call
from tests.commands.asking import requests_to
from tests.commands.ending import end
from tests.commands.job import Job
from tests.faults.history import read_topic
from tests.memory import Memory
from tests.patience import wait_for
from tests.topics import sending

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.alone]

MEMBERS, QUESTIONS = 200, 750
# A join of this version makes a member at once. It may take more than 10 s until all of them beat.
JOIN = {"api_version": 3, "session_timeout_ms": 30_000}


def apis(bootstrap_servers: str, topic: str) -> Counter[str]:
    """How many records of each API a topic has. Probes are of none."""
    records = [json.loads(record.value) for record in read_topic(bootstrap_servers, topic)]
    return Counter(each["api"] for each in records if "api" in each)


def test_of_questions_neither_restarts_the_query_nor_expires_a_member(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    job = start()
    job.wait_for("the coordinator is running")
    topic, memory = job.topics["requests"], Memory()
    load = Load(bootstrap_servers, topic, job.topics["responses"], ASIDE)
    assert {json.loads(answer)["error"] for answer in call(load, commits())} == {"NONE"}
    with requests_to(bootstrap_servers, job) as requests, ThreadPoolExecutor(1) as pool:
        groups = [f"beating-{number}" for number in range(MEMBERS)]
        joins = [requests.join(group_id, **JOIN) for group_id in groups]
        members = []
        for group_id, request_id in zip(groups, joins, strict=True):
            joined = requests.answer(request_id)
            members.append((group_id, {key: joined[key] for key in ("member_id", "generation_id")}))
        for group_id, me in members:
            requests.send("sync_group", group_id, api_version=3, assignments=[], **me)
        names = {"api": "heartbeat", "client_id": "c1", "request_id": "beat"}
        beats = [
            (group_id.encode(), json.dumps({**names, "group_id": group_id, **me}).encode())
            for group_id, me in members
        ]
        flood = [question(f"question-{number}") for number in range(QUESTIONS)]
        with sending(requests.producer, topic, beats, 3):
            asked = pool.submit(ask, load, flood, MEMBERS)
            wait_for(asked.done, meanwhile=memory.look, said=lambda: job.said)
        told, _ = asked.result()
        # Each after all others of its group.
        last = [requests.send("heartbeat", group_id, **me) for group_id, me in members]
        assert {requests.answer(request_id)["error"] for request_id in last} == {"NONE"}
    assert told.keys() == {"NONE", "COORDINATOR_LOAD_IN_PROGRESS"}
    assert told.total() == QUESTIONS
    assert 50e6 < memory.worker < 1e9
    assert not [line for line in job.said if line.startswith("restarting the query")]
    assert not [event for event in end(job, bootstrap_servers) if b"member_removed" in event]
    assert apis(bootstrap_servers, topic) == apis(bootstrap_servers, job.topics["responses"])
