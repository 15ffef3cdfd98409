"""Members that share a connection, against the real thing: Kafka, and the coordinator on Spark."""

from __future__ import annotations

import json

import pytest
from kafka import KafkaConsumer, TopicPartition

from group_coordinator import GroupMember, SharedConnection
from tests.client.memory import poll_until

pytestmark = pytest.mark.spark

UNITS = [f"u{number}" for number in range(6)]
MEMBERS = 3


def heartbeats_of_several(harness):
    """The members of each heartbeat that was of several, as they are in the log."""
    topic = harness.settings.topics_requests
    consumer = KafkaConsumer(bootstrap_servers=harness.settings.bootstrap_servers, group_id=None)
    try:
        partitions = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(timeout_ms=100).values():
                values = [json.loads(record.value) for record in records]
                found += [
                    value["members"] for value in values if value["api"] == "heartbeat" and "members" in value
                ]
        return [{each["member_id"] for each in members} for members in found]
    finally:
        consumer.close()


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
