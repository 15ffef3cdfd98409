"""The short story of a standby; the long ones are in test_standby.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator import GroupMember
from tests.commands.job import Job
from tests.patience import wait_for
from tests.topics import Reader

pytestmark = pytest.mark.spark

# Longer than the test waits: that the first one has ended is known by its port, and not by its ticks.
GAP = ("--set", "clock.max.gap.ms=600000")


def test_a_standby_takes_over_and_members_notice_nothing(
    start: Callable[..., Job], bootstrap_servers: str
) -> None:
    first = start(*GAP)
    first.wait_for("the coordinator is running")
    standby = start(*GAP, "--standby")
    with GroupMember(
        group_id="g",
        bootstrap_servers=bootstrap_servers,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        request_topic=first.topics["requests"],
        response_topic=first.topics["responses"],
    ) as member:
        member.subscribe(units=["north", "south"])
        wait_for(lambda: member.poll(timeout_ms=100))
        was = member.member_id, member.generation_id

        standby.wait_for("standing by: ")
        standby.wait_for("standing by is warm: ")
        wait_for(lambda: "standing by, and warm" in standby.probe("readyz")[1])
        first.kill()
        standby.wait_for("the coordinator is running")
        answered = "group_coordinator_responses_total", "heartbeat", "NONE"
        wait_for(lambda: standby.metrics().get(answered, 0) > 3)
        assert member.poll(timeout_ms=100) == {"north", "south"}
        assert (member.member_id, member.generation_id) == was

    # What it has decided to become warm is nowhere to be read.
    for topic in ("responses", "groups", "events", "rejected"):
        with Reader({"bootstrap_servers": bootstrap_servers}, first.topics[topic]) as reader:
            assert not [
                it for it in reader.read_to_end() if b"warm-up" in (it.key or b"") + (it.value or b"")
            ]
