"""The short story of a standby; the long ones are in test_standby.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from group_coordinator import GroupMember
from tests.commands.job import Job
from tests.patience import wait_for

pytestmark = pytest.mark.spark

# A machine that starts Spark beside is not to be taken for dead.
GAP = ("--set", "clock.max.gap.ms=10000")


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
        first.kill()
        standby.wait_for("the coordinator is running")
        answered = "group_coordinator_responses_total", "heartbeat", "NONE"
        wait_for(lambda: standby.metrics().get(answered, 0) > 3)
        assert member.poll(timeout_ms=100) == {"north", "south"}
        assert (member.member_id, member.generation_id) == was
