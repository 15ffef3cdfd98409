"""`observe` as a process beside a live broker: what it tells and leaves alone, and what kills do to it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from group_coordinator.brokers_log.records import topic_ids
from group_coordinator.brokers_log.step import step
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.observe.query import CONSUMER_PREFIX
from tests.brokers_log.kafka import group_of
from tests.commands.job import ObserveJob
from tests.observe.polled import Polled
from tests.patience import wait_for

pytestmark = pytest.mark.spark

ALL = ("--set", "observe.commits.interval.ms=0")
_numbers = itertools.count(1)


@pytest.fixture
def admin(bootstrap_servers: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    yield admin
    admin.close()


@pytest.fixture
def watch(bootstrap_servers: str, tmp_path: Path) -> Iterator[Callable[..., ObserveJob]]:
    """Start jobs that all have the same topics and checkpoint."""
    with ExitStack() as stack:

        def start(*arguments: str) -> ObserveJob:
            job = ObserveJob(bootstrap_servers, tmp_path, f"observed-{tmp_path.name}", *arguments)
            # Shown if the test fails.
            stack.callback(lambda: print(*job.said, sep="\n"))
            stack.callback(job.kill)
            return job

        yield start


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    name = f"watched{next(_numbers)}"
    admin.create_topics({name: {"num_partitions": 4}})
    admin.wait_for_topics([name])
    return name


class Consumer(Polled):
    """A program with kafka-python's consumer."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, client_id: str, **given: Any) -> None:
        super().__init__(
            KafkaConsumer(
                topic,
                bootstrap_servers=bootstrap_servers,
                group_id=group,
                client_id=client_id,
                auto_commit_interval_ms=200,
                session_timeout_ms=6_000,
                heartbeat_interval_ms=500,
                **given,
            )
        )


@contextmanager
def reading(bootstrap_servers: str, topic: str) -> Iterator[Callable[[], list[Any]]]:
    """All records of a topic so far, each time that it is asked."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=None, enable_auto_commit=False)
    numbers = wait_for(lambda: consumer.partitions_for_topic(topic))
    partitions = [TopicPartition(topic, number) for number in sorted(numbers or ())]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    records: list[Any] = []

    def so_far() -> list[Any]:
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for found in consumer.poll(100).values():
                records.extend(found)
        return records

    yield so_far
    consumer.close()


def events_of(records: list[Any], group: str) -> list[dict[str, Any]]:
    """Each event once, in the order of the topic."""
    told = [json.loads(record.value) for record in records if record.key == group.encode()]
    return list({event["event_id"]: event for event in told}.values())


def expected(
    records: list[Any], group: str, names: Callable[[Collection[str]], Mapping[str, str]] = lambda _: {}
) -> list[dict[str, Any]]:
    """The events that the whole log gives in one call. `names`: finds names of topics out, by their ids."""
    log = [
        Record(BROKERS_LOG, it.partition, it.offset, it.timestamp, it.key, it.value)
        for it in records
        if group_of(it.key) == group.encode()
    ]
    result = step(group.encode(), None, log, 0, 0, names(topic_ids(log)))
    return [json.loads(it.value or b"") for it in result.outputs if it.channel is Channel.EVENTS]


def test_a_group_at_the_brokers_is_watched_and_nothing_is_touched(
    bootstrap_servers: str, watch: Callable[..., ObserveJob], admin: KafkaAdminClient, topic: str
) -> None:
    group = f"at-brokers-{topic}"
    job = watch(*ALL)
    first = Consumer(bootstrap_servers, group, topic, "first")
    job.wait_for("watching the groups at ")
    with ExitStack() as stack:
        events = stack.enter_context(reading(bootstrap_servers, job.topics["events"]))
        groups = stack.enter_context(reading(bootstrap_servers, job.topics["groups"]))
        offsets = stack.enter_context(reading(bootstrap_servers, job.topics["offsets"]))
        log = stack.enter_context(reading(bootstrap_servers, BROKERS_LOG))

        def picture() -> Any:
            values = [record.value for record in groups() if record.key == group.encode()]
            return json.loads(values[-1]) if values and values[-1] else None

        def members() -> int:
            return len((picture() or {"members": ()})["members"])

        job.wait_until(lambda: members() == 1)
        second = Consumer(bootstrap_servers, group, topic, "second")
        job.wait_until(lambda: members() == 2)
        (described,) = admin.describe_groups([group]).values()
        told = picture()
        assert {it["member_id"]: it["client_id"] for it in told["members"]} == {
            it["member_id"]: it["client_id"] for it in described["members"]
        }
        assert told["state"] == "Stable"

        # Killed at any time, it goes on where it was.
        job.kill()
        first.leave()
        second.leave()
        job = watch(*ALL)
        job.wait_until(lambda: picture()["state"] == "Empty")
        assert admin.list_group_offsets([group])
        # An error is returned, and not raised.
        wait_for(lambda: admin.delete_groups([group]) == {group: "OK"}, said=admin.list_groups)
        job.wait_until(lambda: picture() is None)
        job.wait_until(lambda: events_of(events(), group)[-1]["event"] == "group_deleted")

        assert events_of(events(), group) == expected(log(), group)
        kept = {record.key: record.value for record in offsets() if group.encode() in (record.key or b"")}
        assert kept
        assert set(kept.values()) == {None}, "the offsets of a group that is gone are gone"
        kinds = {event["event"] for event in events_of(events(), group)}
        assert {"group_created", "member_added", "member_removed", "offsets_committed"} <= kinds
        assert not [name for name in _names(admin) if name.startswith(CONSUMER_PREFIX)], "it joined a group"
    assert job.probe("readyz")[0] == 200
    job.terminate()
    assert job.exit_code() == 0, job.said
    assert job.said[-1] == "stopped"


def _names(admin: KafkaAdminClient) -> list[str]:
    return [each["group_id"] for each in admin.list_groups()]


@pytest.mark.verify
def test_kills_lose_no_event_and_double_none(
    bootstrap_servers: str, watch: Callable[..., ObserveJob], topic: str
) -> None:
    """Killed ten times while members come and go: what it has told is what the log tells in one call."""
    group = f"at-brokers-{topic}"
    lasting = Consumer(bootstrap_servers, group, topic, "lasting", group_instance_id="lasting")
    coming: list[Consumer] = []
    job = watch(*ALL)
    job.wait_for("watching the groups at ")
    with (
        reading(bootstrap_servers, BROKERS_LOG) as log,
        reading(bootstrap_servers, job.topics["events"]) as events,
    ):
        for number in range(10):
            coming.append(Consumer(bootstrap_servers, group, topic, f"coming-{number}"))
            if len(coming) > 2:
                coming.pop(0).leave()
            before = len(events())
            # In the middle of something, whatever that is.
            job.wait_until(lambda before=before: len(events()) > before)
            job.kill()
            job = watch(*ALL)
            job.wait_for("watching the groups at ")
        for consumer in (*coming, lasting):
            consumer.leave()
        job.wait_until(lambda: len(events_of(events(), group)) == len(expected(log(), group)))
        assert events_of(events(), group) == expected(log(), group)


def test_checkpoint_of_somebody_else_is_refused(watch: Callable[..., ObserveJob], tmp_path: Path) -> None:
    (tmp_path / "observed" / "offsets").mkdir(parents=True)
    assert "is the checkpoint of some other query" in watch().error()
