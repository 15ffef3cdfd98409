"""The coordinator dies of SIGKILL while programs commit their offsets, and is started again."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.commands.asking import requests_to
from tests.commands.job import Job
from tests.topics import Requests

pytestmark = [pytest.mark.spark, pytest.mark.verify]

GROUPS = [f"group-{number}" for number in range(20)]
PARTITIONS = range(3)


def commit(requests: Requests, group_id: str, offset: int) -> None:
    """Commit `offset` as no member, which is granted, and something else as one, which is refused."""
    granted = [{"partition_index": each, "committed_offset": offset} for each in PARTITIONS]
    refused = [{"partition_index": 99, "committed_offset": offset}]
    requests.send("offset_commit", group_id, topics=[{"name": "t", "partitions": granted}])
    requests.send(
        "offset_commit",
        group_id,
        topics=[{"name": "t", "partitions": refused}],
        member_id="nobody",
        generation_id=7,
    )


def newest_granted(requests: Requests, group_id: str) -> int:
    """The newest offset whose commit was answered NONE, or 0."""
    granted = (
        request["topics"][0]["partitions"][0]["committed_offset"]
        for request_id, request in requests.sent.items()
        if request["group_id"] == group_id
        and request["api"] == "offset_commit"
        and "generation_id" not in request
        and requests.answered.get(request_id, {}).get("error") == "NONE"
    )
    return max(granted, default=0)


def offsets_sent(requests: Requests, group_id: str) -> list[int]:
    return [
        request["topics"][0]["partitions"][0]["committed_offset"]
        for request in requests.sent.values()
        if request["group_id"] == group_id and request["api"] == "offset_commit"
    ]


def committed(requests: Requests, group_id: str) -> dict[int, int]:
    (topic,) = requests.call("offset_fetch", group_id)["topics"]
    return {each["partition_index"]: each["committed_offset"] for each in topic["partitions"]}


def test_no_commit_that_was_acknowledged_is_lost(start: Callable[..., Job], bootstrap_servers: str) -> None:
    job = start()
    job.wait_for("the coordinator is running")
    with requests_to(bootstrap_servers, job) as requests:
        offsets = itertools.count(1)
        for _ in range(2):
            first = offset = next(offsets)
            # Killed while commits are on their way, of which some are answered in each group.
            while any(newest_granted(requests, group_id) < first for group_id in GROUPS):
                for group_id in GROUPS:
                    commit(requests, group_id, offset)
                requests.hear(timeout_ms=20)
                offset = next(offsets)
            job.kill()
            acknowledged = {group_id: newest_granted(requests, group_id) for group_id in GROUPS}
            job = start()
            found = {group_id: committed(requests, group_id) for group_id in GROUPS}

            for group_id in GROUPS:
                assert set(found[group_id]) == set(PARTITIONS), "what was refused is not there"
                assert min(found[group_id].values()) >= acknowledged[group_id]
        requests.wait_until(lambda: requests.sent.keys() == requests.answered.keys())
        last = {max(offsets_sent(requests, group_id)) for group_id in GROUPS}
        assert last == {offset for each in GROUPS for offset in committed(requests, each).values()}
        errors = {
            requests.answered[request_id]["error"]
            for request_id, request in requests.sent.items()
            if "generation_id" in request
        }
        # A group is not there before the first commit that is granted, and then has no members.
        assert errors == {"UNKNOWN_MEMBER_ID"}
