"""Where logs begin and end, according to a fake of kafka-python's admin client."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import OffsetSpec, OffsetTimestamp
from kafka.errors import UnknownTopicOrPartitionError
from kafka.structs import OffsetAndTimestamp, TopicPartition

from group_coordinator.client import log_offsets
from group_coordinator.client.log_offsets import Log, LogOffsets, ResetTarget, reset_target
from group_coordinator.coordinator_state.offsets.still_there import Found

A0, A1, A2 = (TopicPartition("a", number) for number in range(3))
GONE = TopicPartition("gone", 0)
WHERE = "for topic partition a-0. Value will be set to"


class Admin:
    """Topic a has three partitions, the last without a leader; timestamps of records are 1000, 1001, ..."""

    DEFAULT_CONFIG: ClassVar = {"bootstrap_servers": None}
    logs: ClassVar = {A0: (0, 5), A1: (10, 30)}
    calls: ClassVar[list] = []
    leaders: ClassVar = {0: 1, 1: 1, 2: -1}

    def __init__(self, **settings):
        assert {"bootstrap_servers": "k:1"} == settings

    def describe_topics(self, topics):
        self.calls.append(("describe_topics", topics))
        partitions = [{"partition_index": n, "leader_id": leader} for n, leader in self.leaders.items()]
        known = {"a": (0, partitions), "secret": (29, []), "unknown": (7, [])}
        return [
            {"name": topic, "error_code": code, "partitions": found, "topic_id": UUID(int=len(found))}
            for topic in topics
            for code, found in [known.get(topic, (3, []))]
        ]

    def list_partition_offsets(self, specs):
        self.calls.append(("list_partition_offsets", specs))
        if missing := specs.keys() - self.logs.keys():
            raise UnknownTopicOrPartitionError(missing)
        return {partition: self._found(spec, *self.logs[partition]) for partition, spec in specs.items()}

    @staticmethod
    def _found(spec, begin, end):
        if spec == OffsetSpec.EARLIEST:
            return OffsetAndTimestamp(begin, -1, None)
        if spec == OffsetSpec.LATEST:
            return OffsetAndTimestamp(end, -1, None)
        offset = max(begin, spec - 1000)
        return OffsetAndTimestamp(offset if offset < end else -1, spec, None)

    def close(self):
        self.calls.append(("close",))


@pytest.fixture
def logs(monkeypatch):
    monkeypatch.setattr(log_offsets, "KafkaAdminClient", Admin)
    monkeypatch.setattr(Admin, "calls", [])
    return LogOffsets(bootstrap_servers="k:1", acks="all")


def test_only_what_has_a_leader_is_looked_up_and_all_of_it_at_once(logs):
    ends = logs.list_partition_offsets(dict.fromkeys([A0, A1, A2, GONE], OffsetSpec.LATEST))

    assert {A0: 5, A1: 30} == {partition: end.offset for partition, end in ends.items()}
    assert ["describe_topics", "list_partition_offsets"] == [name for name, *_ in Admin.calls]


def test_nothing_is_asked_about_nothing(logs):
    assert {} == logs.list_partition_offsets({})
    assert {} == logs.list_partition_offsets({GONE: OffsetSpec.LATEST})
    assert set() == logs.partitions([])
    assert [("describe_topics", ["gone"])] == Admin.calls


def test_partitions_are_those_of_topics_that_can_be_seen(logs):
    assert {A0, A1} == logs.partitions({"a", "secret", "gone"})


def test_topics_are_found_with_their_ids(logs):
    found = {"a": Found(3, "00000000-0000-0000-0000-000000000003"), "secret": Found(None), "gone": Found(0)}
    assert found == logs.find(["a", "secret", "gone", "unknown"])
    assert {} == logs.find([])
    assert [("describe_topics", ["a", "gone", "secret", "unknown"])] == Admin.calls


def test_topic_that_is_deleted_between_the_questions_is_left_out(logs, monkeypatch):
    found = logs.partitions
    answers = [{A0, A1, GONE}]
    monkeypatch.setattr(logs, "partitions", lambda topics: answers.pop() if answers else found(topics))

    assert {A0, A1} == logs.list_partition_offsets(dict.fromkeys([A0, A1, GONE], OffsetSpec.LATEST)).keys()


def test_logs_have_what_is_looked_for(logs):
    specs = {A0: OffsetTimestamp(1003), A1: OffsetTimestamp(9999), GONE: OffsetTimestamp(0)}

    assert {A0: Log(0, 5, 3), A1: Log(10, 30, -1)} == logs.logs(specs)
    assert {A0: Log(0, 5, None), A1: Log(10, 30, 30)} == logs.logs({A0: 7, A1: OffsetSpec.LATEST, A2: 1})


def test_closing_disconnects(logs):
    logs.close()

    assert [("close",)] == Admin.calls


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
