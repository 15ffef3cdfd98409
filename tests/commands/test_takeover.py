"""The short story of a standby; the long ones are in test_standby.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count

import pytest
from kafka import KafkaAdminClient

from group_coordinator import GroupMember
from group_coordinator.coordinator_state.partitioning import partition_for_key
from tests.commands.job import Job
from tests.patience import wait_for

pytestmark = pytest.mark.spark

# A machine that starts Spark beside is not to be taken for dead.
GAP = ("--set", "clock.max.gap.ms=10000")
MORE = 16
"""Partitions of the responses, once somebody has added some."""


def test_a_standby_takes_over_and_members_notice_nothing(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    first = start(*GAP, "--set", "responses.partitions=2")
    first.wait_for("the coordinator is running")
    responses = first.topics["responses"]
    standby = start(*GAP, "--standby", "--set", f"responses.partitions={MORE}")
    member_of = partial(
        GroupMember,
        bootstrap_servers=bootstrap_servers,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        request_topic=first.topics["requests"],
        response_topic=responses,
    )
    with member_of(group_id="g") as member:
        member.subscribe(units=["north", "south"])
        wait_for(lambda: member.poll(timeout_ms=100))
        was = member.member_id, member.generation_id

        standby.wait_for(f"topic {responses} has 2 partitions, fewer than responses.partitions = {MORE}")
        standby.wait_for("standing by: ")
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
            admin.create_partitions({responses: MORE})
        first.kill()
        standby.wait_for("the coordinator is running")
        beats = "group_coordinator_requests_total", "heartbeat"
        wait_for(lambda: standby.metrics().get(beats, 0) > 3)
        # One that comes now is answered on a partition that there was not when the others began.
        number = next(it for it in count() if partition_for_key(f"c{it}".encode(), MORE) >= 2)
        with member_of(group_id="h", client_id=f"c{number}") as newcomer:
            newcomer.subscribe(units=["east"])
            wait_for(lambda: newcomer.poll(timeout_ms=100) == {"east"})
        assert member.poll(timeout_ms=100) == {"north", "south"}
        assert (member.member_id, member.generation_id) == was
