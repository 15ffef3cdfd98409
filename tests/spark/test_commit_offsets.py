"""Commits of queries: what of a batch's progress becomes a commit, and when it is written."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
from kafka.errors import (
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from group_coordinator.spark import CommitOffsets, listener
from group_coordinator.spark.committer import Committer, Counts
from group_coordinator.spark.newest import GroupOffsets
from group_coordinator.spark.progress import end_offsets
from tests.patience import wait_for

QUERY, RUN = UUID(int=1), UUID(int=2)
ORDERS = {"orders": {"0": 5, "1": 7}}


class Kafka:
    """Takes commits, unless `error` is set: for a partition (a class) or for all (an instance)."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[TopicPartition, int]] = {}
        self.metadata: set[str] = set()
        self.error: type[KafkaError] | Exception = NoError
        self.asked = self.connected = self.closed = 0
        self.may_answer = threading.Event()
        self.may_answer.set()

    def connect(self, **_config: Any) -> Kafka:
        self.connected += 1
        if isinstance(self.error, KafkaConnectionError):
            raise self.error
        return self

    def alter_offsets_of_groups(self, offsets: Mapping[str, GroupOffsets]) -> dict[str, Any]:
        self.asked += 1
        assert self.may_answer.wait(60)
        if isinstance(self.error, Exception):
            raise self.error
        for group_id, of_group in offsets.items():
            if self.error is NoError:
                told = {partition: each.offset for partition, each in of_group.items()}
                self.committed.setdefault(group_id, {}).update(told)
                self.metadata |= {each.metadata for each in of_group.values()}
        return {group_id: dict.fromkeys(of_group, self.error) for group_id, of_group in offsets.items()}

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    kafka = Kafka()
    monkeypatch.setattr(listener, "AdminClient", kafka.connect)
    return kafka


@pytest.fixture
def commits(kafka: Kafka) -> Iterator[CommitOffsets]:
    commits = CommitOffsets()
    yield commits
    kafka.may_answer.set()
    commits.close()


def source(offsets: Any, description: str = "KafkaV2[Subscribe[orders]]") -> dict[str, Any]:
    empty = {"startOffset": None, "latestOffset": None, "numInputRows": 0}
    rates = {"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
    return {"description": description, "endOffset": offsets, **empty, **rates}


def progress(*sources: Any, name: str | None = "etl", batch: int = 3) -> QueryProgressEvent:
    return QueryProgressEvent(
        StreamingQueryProgress.fromJson(
            {
                "id": str(QUERY),
                "runId": str(RUN),
                "name": name,
                "timestamp": "2026-01-31T14:05:00.000Z",
                "batchId": batch,
                "batchDuration": 1,
                "stateOperators": [],
                "sources": list(sources),
                "sink": {"description": "", "numOutputRows": 0},
            }
        )
    )


def as_offsets(offsets: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(p)): at for topic, of_topic in offsets.items() for p, at in of_topic.items()
    }


# -- what a batch has reached ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "reached"),
    [
        ([source(ORDERS)], ORDERS),
        ([source(json.dumps(ORDERS))], ORDERS),
        ([source(ORDERS), source({"refunds": {"0": 1}})], {**ORDERS, "refunds": {"0": 1}}),
        # Two sources read one topic: the group is where both have been.
        ([source(ORDERS), source({"orders": {"0": 9, "1": 2}})], {"orders": {"0": 5, "1": 2}}),
        ([source(0, "RateStreamV2[rowsPerSecond=1]"), source(ORDERS)], ORDERS),
        ([source({"sourceVersion": 1}, "DeltaSource[file:/t]")], {}),
        ([source({})], {}),
        ([], {}),
    ],
)
def test_a_batch_has_reached(sources: list[Any], reached: dict[str, dict[str, int]]) -> None:
    assert end_offsets(progress(*sources).progress.sources) == as_offsets(reached)


@pytest.mark.parametrize("offsets", ["", "7", [1], {"orders": 5}, {"orders": {"0": None}}])
def test_offsets_in_another_form_are_named(
    commits: CommitOffsets, kafka: Kafka, offsets: Any, caplog: pytest.LogCaptureFixture
) -> None:
    commits.onQueryProgress(progress(source(offsets)))
    (message,) = caplog.messages
    assert message.startswith(
        "the offsets of query etl are not committed: KafkaV2[Subscribe[orders]] has the"
    )
    commits.close()
    assert kafka.asked == 0


# -- what is committed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "name", "group_id"),
    [
        ("{name}", "etl", "etl"),
        ("{name}", None, str(QUERY)),
        ("spark-{id}-{name}", "a{b}", f"spark-{QUERY}-a{{b}}"),
    ],
)
def test_a_group_is_named_after_its_query(
    kafka: Kafka, template: str, name: str | None, group_id: str
) -> None:
    commits = CommitOffsets(group_id=template)
    commits.onQueryProgress(progress(source(ORDERS), name=name))
    commits.close()
    assert kafka.committed == {group_id: as_offsets(ORDERS)}
    assert kafka.metadata == {"batch 3"}
    assert commits.counts == Counts(2, 0, 0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group_id": "{query}"}, "group_id '{query}': only {name} and {id} can be in it"),
        ({"group_id": "{"}, "group_id '{': only {name} and {id} can be in it"),
        ({"to": "zookeeper"}, 'to \'zookeeper\': it is "coordinator" or "brokers"'),
        ({"bootstrap": "kafka:9092"}, "'bootstrap' is a setting neither of a member nor of kafka-python"),
    ],
)
def test_what_cannot_be_is_refused_at_once(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^.*$") as refused:
        CommitOffsets(**settings)
    assert str(refused.value) == said


def test_to_the_brokers_own_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Admin:
        def __init__(self, **config: Any) -> None:
            asked.append(config)

        def alter_offsets_of_groups(self, offsets: Mapping[str, GroupOffsets]) -> Any:
            ((group_id, of_group),) = offsets.items()
            asked.append((group_id, {each: it.offset for each, it in of_group.items()}))
            return {group_id: dict.fromkeys(of_group, NoError)}

        def close(self) -> None:
            asked.append("closed")

    monkeypatch.setattr(listener, "BrokersAdmin", Admin)
    commits = CommitOffsets(bootstrap_servers="kafka:9092", to="brokers")
    commits.onQueryProgress(progress(source(ORDERS)))
    commits.close()
    assert asked == [{"bootstrap_servers": "kafka:9092"}, ("etl", as_offsets(ORDERS)), "closed"]


# -- when nothing takes it -------------------------------------------------------------------------------


def test_the_query_goes_on_and_the_newest_offsets_are_committed_later(
    commits: CommitOffsets, kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    kafka.error = KafkaConnectionError("no broker")
    for batch in range(1_000):
        commits.onQueryProgress(progress(source({"orders": {"0": batch}}), batch=batch))
    wait_for(lambda: kafka.connected >= 2)
    assert commits.problem == "KafkaConnectionError: no broker"
    kafka.error = NoError
    wait_for(lambda: commits.problem is None)
    assert kafka.committed == {"etl": {TopicPartition("orders", 0): 999}}
    assert commits.counts == Counts(1, 999, 0)
    assert caplog.messages == [
        "offsets of queries are not committed, the queries go on: KafkaConnectionError: no broker",
        "offsets of queries are committed again",
    ]


def test_offsets_that_were_not_taken_do_not_replace_newer_ones(commits: CommitOffsets, kafka: Kafka) -> None:
    kafka.error = KafkaTimeoutError("no answer")
    kafka.may_answer.clear()
    commits.onQueryProgress(progress(source(ORDERS)))
    wait_for(lambda: kafka.asked == 1)
    commits.onQueryProgress(progress(source({"orders": {"0": 6}}), batch=4))
    kafka.may_answer.set()
    wait_for(lambda: kafka.asked == 2)
    kafka.error = NoError
    wait_for(lambda: kafka.committed)
    assert kafka.committed == {"etl": as_offsets({"orders": {"0": 6, "1": 7}})}
    assert kafka.closed == kafka.connected - 1, "a connection that failed is not used again"


@pytest.mark.parametrize(
    ("error", "is_tried_again"), [(CoordinatorNotAvailableError, True), (UnknownMemberIdError, False)]
)
def test_an_error_of_a_partition(
    commits: CommitOffsets, kafka: Kafka, error: type[KafkaError], is_tried_again: bool
) -> None:
    kafka.error = error
    commits.onQueryProgress(progress(source(ORDERS)))
    wait_for(lambda: commits.problem == f"{error.__name__} for group etl")
    if is_tried_again:
        wait_for(lambda: kafka.asked >= 2)
    kafka.error = NoError
    if not is_tried_again:
        commits.onQueryProgress(progress(source({"orders": {"0": 6}})))
    wait_for(lambda: commits.problem is None)
    assert commits.counts.refused == (0 if is_tried_again else 2)


def test_the_last_offsets_are_tried_once_when_it_is_closed(
    commits: CommitOffsets, kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.error = KafkaConnectionError("no broker")
    commits.onQueryProgress(progress(source(ORDERS)))
    commits.close()
    assert (
        caplog.messages[-1]
        == "the last offsets of 1 groups are not committed: KafkaConnectionError: no broker"
    )
    assert not [each for each in threading.enumerate() if each.name == "commits of queries"]


# -- queries that have nothing to do, or have ended --------------------------------------------------------


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    now_s = [1_000.0]
    monkeypatch.setattr(listener.time, "monotonic", lambda: now_s[0])
    return lambda seconds: now_s.__setitem__(0, now_s[0] + seconds)


def test_offsets_of_an_idle_query_do_not_expire(kafka: Kafka, pass_time: Callable[[float], None]) -> None:
    idle = QueryIdleEvent(QUERY, RUN, "2026-01-31T14:05:00.000Z")
    commits = CommitOffsets()
    commits.onQueryProgress(progress(source(ORDERS)))
    wait_for(lambda: commits.counts.committed == 2)
    pass_time(3_599)
    commits.onQueryIdle(idle)
    pass_time(1)
    commits.onQueryIdle(idle)
    wait_for(lambda: commits.counts.committed == 4)
    commits.onQueryIdle(idle)
    commits.onQueryTerminated(QueryTerminatedEvent(QUERY, RUN, None, None))
    pass_time(3_600)
    commits.onQueryIdle(idle)
    commits.close()
    assert kafka.asked == 2


def test_it_ends_while_it_waits_to_try_again() -> None:
    kafka = Kafka()
    kafka.error = KafkaConnectionError("no broker")
    commits = Committer(kafka.connect)
    commits.put("etl", {TopicPartition("orders", 0): OffsetAndMetadata(1, "", -1)})
    wait_for(lambda: kafka.connected >= 3)
    commits.close(timeout_s=60)
    assert not commits._thread.is_alive()
