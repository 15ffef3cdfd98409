"""Members that share a connection, against the real thing: Kafka, and the coordinator on Spark."""

from __future__ import annotations

import pytest

from group_coordinator import GroupMember, SharedConnection
from tests.client.memory import poll_until
from tests.topics import Reader

pytestmark = pytest.mark.spark

UNITS = [f"u{number}" for number in range(6)]
MEMBERS = 3


def heartbeats_of_several(harness):
    """The members of each heartbeat that was of several, as they are in the log."""
    config = {"bootstrap_servers": harness.settings.bootstrap_servers}
    with Reader(config, harness.settings.topics_requests) as reader:
        reader.read_to_end()
        beats = [each for each in reader.values() if each["api"] == "heartbeat" and "members" in each]
    return [{member["member_id"] for member in beat["members"]} for beat in beats]


def test_they_share_the_work_and_beat_together(harness, bootstrap_servers):
    with SharedConnection(
        bootstrap_servers=bootstrap_servers,
        request_topic=harness.settings.topics_requests,
        response_topic=harness.settings.topics_responses,
    ) as connection:
        members = [
            GroupMember(
                group_id="shared",
                client_id=f"c{number}",
                session_timeout_ms=30_000,
                heartbeat_interval_ms=1_000,
                channel=connection.channel(),
            )
            for number in range(MEMBERS)
        ]
        try:
            for member in members:
                member.subscribe(units=UNITS)
            poll_until(
                lambda: all(len(each.assignment) == len(UNITS) // MEMBERS for each in members), *members
            )
            ids = {each.member_id for each in members}
            poll_until(lambda: any(ids == beats for beats in heartbeats_of_several(harness)), *members)
            # Who leaves is missed by the others, who hear of it by the answers to their heartbeats.
            members.pop().close()
            poll_until(lambda: all(len(each.assignment) == len(UNITS) // 2 for each in members), *members)
        finally:
            for member in members:
                member.close()
