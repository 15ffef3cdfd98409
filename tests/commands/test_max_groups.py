"""A flood of new groups ends at max.groups; the groups that are there go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.asking import requests_to
from tests.commands.job import Job
from tests.patience import wait_for
from tests.topics import Requests

pytestmark = [pytest.mark.spark, pytest.mark.verify]


def commit(requests: Requests, group_id: str) -> str:
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    answer: dict[str, Any] = requests.call(
        "offset_commit", group_id, topics=[{"name": "t", "partitions": partitions}]
    )
    return str(answer["error"])


def test_no_more_groups_than_there_may_be(start: Callable[..., Job], bootstrap_servers: str) -> None:
    job = start("--set", "max.groups=3")
    job.wait_for("the coordinator is running")
    with requests_to(bootstrap_servers, job) as requests:
        assert [commit(requests, group_id) for group_id in "abcd"] == ["NONE"] * 4
        job.wait_for("restarting the query: there are 4 groups, so no new ones are created")
        wait_for(lambda: job.metrics()["group_coordinator_closed",] == 1)

        created = list("abcd")

        def is_refused(group_id: str) -> bool:
            if (error := commit(requests, group_id)) == "NONE":
                created.append(group_id)
            return error == "COORDINATOR_NOT_AVAILABLE"

        # It holds from the end of an outage on, which may be two seconds later.
        wait_for(lambda: is_refused(f"new-{len(created)}"))
        assert commit(requests, "a") == "NONE"
        assert is_refused("e")
        for group_id in created[2:]:
            assert requests.call("delete_group", group_id)["error"] == "NONE"
        job.wait_for("restarting the query: there are 2 groups, so new ones are created again")
        wait_for(lambda: job.metrics()["group_coordinator_closed",] == 0)
        # Likewise. A client asks again.
        wait_for(lambda: commit(requests, "e") == "NONE")
        assert commit(requests, "g") == "NONE"
