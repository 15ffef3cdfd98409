"""The short story of a coordinator that is killed and its standby; test_standby.py and faults have more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count

import pytest
from kafka import KafkaAdminClient

from group_coordinator import GroupMember
from group_coordinator.coordinator_state.partitioning import partition_for_key
from tests.commands.ending import end
from tests.commands.job import Job
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = pytest.mark.spark

# Longer than the test waits: that the first one has ended is known by its port, and not by its ticks.
GAP = ("--set", "clock.max.gap.ms=600000")
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
        # On a busy machine a batch may take as long as a short one.
        session_timeout_ms=30_000,
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
        standby.wait_for("standing by is warm: ")
        wait_for(lambda: "standing by, and warm" in standby.probe("readyz")[1])
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

    # A member that closes does not wait for the answer to its leaving.
    with Reader({"bootstrap_servers": bootstrap_servers}, first.topics["events"]) as reader:
        reader.until(
            lambda events: {it["group_id"] for it in events if it.get("to") == "Empty"} == {"g", "h"}
        )
    # Nothing was lost, and nothing decided otherwise.
    events = end(standby, bootstrap_servers)
    assert standby.said[-1] == "stopped"
    assert standby.batches("offsets") == standby.batches("commits")
    assert sum(b"member_added" in event for event in events) == 2

    # What it has decided to become warm is nowhere to be read.
    for topic in ("responses", "groups", "events", "rejected"):
        with Reader({"bootstrap_servers": bootstrap_servers}, first.topics[topic]) as reader:
            assert not [
                it for it in reader.read_to_end() if b"warm-up" in (it.key or b"") + (it.value or b"")
            ]
