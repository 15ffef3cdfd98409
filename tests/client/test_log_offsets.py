"""Where logs begin and end, according to a fake of kafka-python's admin client."""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import KafkaAdminClient
from kafka.admin import NewTopic, OffsetSpec, OffsetTimestamp
from kafka.structs import TopicPartition

from group_coordinator.client import log_offsets
from group_coordinator.client.log_offsets import Log, LogOffsets, ResetTarget, reset_target
from group_coordinator.coordinator_state.offsets.still_there import Found
from tests.client.brokers import Brokers

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
GONE, SECRET = TopicPartition("gone", 0), TopicPartition("secret", 0)
WHERE = "for topic partition a-0. Value will be set to"


class Admin:
    """Topic a has three partitions, the last without a leader; timestamps of records are 1000, 1001, ..."""

    DEFAULT_CONFIG: ClassVar = {"bootstrap_servers": None}
    made: ClassVar[list] = []
    closed: ClassVar[list] = []
    config: ClassVar = {}
    logs: ClassVar = {A0: (0, 5), A1: (10, 30), A2: (0, 9), SECRET: (0, 1)}

    def __init__(self, **settings):
        assert {"bootstrap_servers": "k:1"} == settings
        self.brokers = self._manager = Brokers(dict(self.logs))
        self.brokers.leaders = {A2: -1}
        self.brokers.codes = {"secret": 29, "unknown": 7}
        self.made.append(self)

    def close(self):
        self.closed.append(self)


@pytest.fixture
def logs(monkeypatch):
    monkeypatch.setattr(log_offsets, "KafkaAdminClient", Admin)
    monkeypatch.setattr(Admin, "made", [])
    monkeypatch.setattr(Admin, "closed", [])
    logs = LogOffsets(bootstrap_servers="k:1", acks="all")
    assert [] == Admin.made, "nobody has asked yet"
    logs.close()
    assert {} == logs.list_partition_offsets({})
    return logs


def test_only_what_has_a_leader_is_looked_up(logs):
    ends = logs.list_partition_offsets(dict.fromkeys([A0, A1, A2, GONE], OffsetSpec.LATEST))

    assert {A0: 5, A1: 30} == {partition: end.offset for partition, end in ends.items()}


def test_partitions_are_those_of_topics_that_can_be_seen(logs):
    assert {A0, A1} == logs.partitions({"a", "secret", "gone"})
    assert set() == logs.partitions([])


def test_topics_are_found_with_their_ids(logs):
    found = {"a": Found(3, "00000000-0000-0000-0000-000000000001"), "secret": Found(None), "gone": Found(0)}
    (admin,) = Admin.made
    admin.brokers.failing = {2: None}
    assert found == logs.find_topics(["a", "secret", "gone", "unknown"])
    assert [("MetadataRequest", 2), ("MetadataRequest", 1)] == admin.brokers.asked
    assert {} == logs.find_topics([])
    assert 2 == len(admin.brokers.asked)


@pytest.mark.spark
def test_brokers_tell_ids_as_they_tell_kafka_python(bootstrap_servers):
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        admin.create_topics([NewTopic("with-id", 2, 1)])
        (expected,) = admin.describe_topics(["with-id"])
    with closing(LogOffsets(bootstrap_servers=bootstrap_servers)) as logs:
        found = logs.find_topics({"with-id", "without"})
    assert {"with-id": Found(2, str(expected["topic_id"])), "without": Found(0)} == found


def test_topic_that_is_deleted_between_the_questions_is_left_out(logs):
    (admin,) = Admin.made
    admin.brokers.codes = {GONE: 3}
    admin.brokers.logs[GONE] = (0, 1)
    admin.brokers.meanwhile = lambda: admin.brokers.logs.pop(GONE, None)

    assert {A0, A1} == logs.list_partition_offsets(dict.fromkeys([A0, A1, GONE], OffsetSpec.LATEST)).keys()


def test_logs_have_what_is_looked_for(logs):
    specs = {A0: OffsetTimestamp(1003), A1: OffsetTimestamp(9999), GONE: OffsetTimestamp(0)}

    assert {A0: Log(0, 5, 3), A1: Log(10, 30, -1)} == logs.logs(specs)
    assert {A0: Log(0, 5, None), A1: Log(10, 30, 30)} == logs.logs({A0: 7, A1: OffsetSpec.LATEST, A2: 1})


def test_closing_disconnects(logs):
    logs.close()

    assert Admin.made == Admin.closed
    assert 1 == len(Admin.closed)


@pytest.mark.parametrize(
    ("spec", "log", "expected"),
    [
        (12, Log(10, 30), ResetTarget(12)),
        (30, Log(10, 30), ResetTarget(30)),
        (OffsetSpec.EARLIEST, Log(10, 30, 10), ResetTarget(10)),
        (31, Log(10, 30), ResetTarget(30, f"New offset (31) is higher than latest offset {WHERE} 30")),
        (-3, Log(10, 30), ResetTarget(10, f"New offset (-3) is lower than earliest offset {WHERE} 10")),
        (
            OffsetTimestamp(5),
            Log(10, 30, -1),
            ResetTarget(30, "Partition 0 from topic a is empty. Falling back to latest known offset."),
        ),
    ],
)
def test_target_is_within_the_log_or_says_why_it_is_another(spec, log, expected):
    assert expected == reset_target(A0, spec, log)


@given(st.integers(), st.integers(0, 1000), st.integers(0, 1000))
def test_target_is_the_nearest_offset_of_the_log(spec, begin, length):
    target = reset_target(A0, spec, Log(begin, begin + length))

    assert min(range(begin, begin + length + 1), key=lambda offset: abs(offset - spec)) == target.offset
    assert (spec == target.offset) == (target.warning == "")
