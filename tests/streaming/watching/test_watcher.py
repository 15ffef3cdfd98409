"""The watcher beside a broker. A group is a table of topics of the core, and its pictures are the test's."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError
from prometheus_client import CollectorRegistry

from group_coordinator.client.topic_ids import topic_id_of
from group_coordinator.coordinator_state.consumer.topic_table import TopicTable
from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.requests.consumer import TopicMetadataRequest
from group_coordinator.coordinator_state.responses import GroupPicture, KnownPattern
from group_coordinator.jobs import topic_questions
from group_coordinator.jobs.topic_questions import Asking
from group_coordinator.streaming.settings import CoordinatorSettings
from group_coordinator.streaming.watching import session, watcher
from group_coordinator.streaming.watching.report import Report
from group_coordinator.streaming.watching.watcher import TopicWatcher
from tests.patience import PATIENCE_S, wait_for
from tests.streaming.registry import create_topic, samples
from tests.streaming.turn import Turn, yes
from tests.topics import Reader

pytestmark = pytest.mark.spark

PREFIX = "group_coordinator_topic"
WATCHED, UNSEEN, LAST, WRITTEN = (
    (f"{PREFIX}{rest}",)
    for rest in ("s_watched", "s_unseen", "s_last_watched_timestamp_seconds", "_metadata_written_total")
)

_groups = itertools.count(1)


class Group:
    """A group of the consumer protocol, of which only the topics are there, and its coordinator."""

    def __init__(self, settings: CoordinatorSettings, producer: KafkaProducer, reader: Reader) -> None:
        self.group_id = f"g{next(_groups)}"
        self._settings, self._producer, self._reader = settings, producer, reader
        self._table = TopicTable()
        self._names: list[str] = []
        self._place = 0

    def name(self, *names: str) -> None:
        """Its members name these topics from now on."""
        self._names = list(names)
        self.show()

    def show(self, group_type: str = "consumer", **fields: Any) -> None:
        """Write a picture."""
        known: dict[str, Any] = {
            "group_id": self.group_id,
            "metadata_version": self._table.version,
            "topics": self._table.known(self._names),
        }
        picture = GroupPicture(
            state="Stable",
            generation_id=1,
            protocol_type="consumer",
            protocol_name="uniform",
            leader=None,
            members=[],
            state_timestamp_ms=0,
            group_type=group_type,
            **known | fields,
        )
        self.write(msgspec.json.encode(picture))

    def write(self, value: bytes | None) -> None:
        self._place += 1
        topic, headers = self._settings.topics_groups, [header(self._place)]
        key = self.group_id.encode()
        self._producer.send(topic, key=key, value=value, headers=headers).get(PATIENCE_S)

    def knows(self, name: str) -> tuple[str | None, int]:
        """Its knowledge of a topic, with all that has come so far. Each record is followed by a picture."""
        for record in self._reader.poll():
            request = msgspec.json.decode(record.value, type=TopicMetadataRequest)
            if record.key.decode() != self.group_id:
                continue
            assert request.group_id == self.group_id
            assert request.based_on == self._table.version
            changed = self._table.changed_by(request.topics, self._names)
            self._table.remove(request.gone)
            if changed:
                self._table.put(changed)
            self.show()
        (known,) = self._table.known([name])
        return known.topic_id, known.partitions


@pytest.fixture
def settings(bootstrap_servers: str) -> CoordinatorSettings:
    return CoordinatorSettings(
        bootstrap_servers=bootstrap_servers,
        topics_requests=create_topic(bootstrap_servers, 2),
        topics_groups=create_topic(bootstrap_servers, 2),
        topics_watch_interval_ms=200,
    )


@pytest.fixture
def group(settings: CoordinatorSettings, config: dict[str, Any]) -> Iterator[Group]:
    producer = KafkaProducer(**config)
    with Reader(config, settings.topics_requests) as reader:
        yield Group(settings, producer, reader)
    producer.close()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def watching(
    settings: CoordinatorSettings, config: dict[str, Any], registry: CollectorRegistry
) -> Iterator[Turn]:
    """The turn of a coordinator whose watcher watches."""
    turn = Turn()
    with TopicWatcher(settings, config, Report(registry), turn.is_active):
        yield turn


def topic_id(admin: KafkaAdminClient, name: str) -> str:
    (described,) = admin.describe_topics([name])
    return topic_id_of(described)


def test_a_group_follows_a_topic_that_is_made_grows_is_deleted_and_made_again(
    watching: Turn, group: Group, admin: KafkaAdminClient, bootstrap_servers: str, registry: Any
) -> None:
    other = create_topic(bootstrap_servers, 1)
    with watching.during():
        name = f"{other}.followed"
        group.name(name, other)
        wait_for(lambda: group.knows(other) == (topic_id(admin, other), 1))
        assert group.knows(name) == (None, 0)
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
        wait_for(lambda: group.knows(name)[1] == 2)
        first = topic_id(admin, name)
        assert group.knows(name) == (first, 2)
        admin.create_partitions({name: 5})
        wait_for(lambda: group.knows(name) == (first, 5))
        admin.delete_topics([name])
        wait_for(lambda: group.knows(name)[1] == 0)
        wait_for(lambda: name not in admin.list_topics())
        admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1}})
        wait_for(lambda: group.knows(name)[1] == 3)
        assert group.knows(name) == (topic_id(admin, name), 3)
        assert group.knows(name)[0] != first
        assert group.knows(other) == (topic_id(admin, other), 1)
        wait_for(lambda: samples(registry)[WRITTEN] >= 5)
        assert samples(registry)[WATCHED] == 2
        assert samples(registry)[UNSEEN] == 0
        assert samples(registry)[LAST] == pytest.approx(time.time(), abs=PATIENCE_S)
    wait_for(lambda: samples(registry)[WATCHED] == samples(registry)[LAST] == 0)


def test_a_pattern_that_is_left_to_the_watcher_matches_topics_as_they_come(
    watching: Turn, group: Group, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = f"by-pattern-{group.group_id}"
    first, second = f"{prefix}.first", f"{prefix}.second"
    admin.create_topics({first: {"num_partitions": 2, "replication_factor": 1}})

    def told(pattern: str) -> list[TopicMetadataRequest]:
        """The records that tell what the pattern matches, in order."""
        return [each for each in records() if [it.pattern for it in each.patterns] == [pattern]]

    read: list[Any] = []

    def records() -> list[TopicMetadataRequest]:
        read.extend(group._reader.poll())
        return [msgspec.json.decode(each.value, type=TopicMetadataRequest) for each in read]

    pattern = f"{prefix}[.].*"
    with watching.during():
        known = [KnownPattern(pattern=pattern), KnownPattern(pattern=pattern, user="alice")]
        group.show(patterns=[*known, KnownPattern(pattern="(")])
        wait_for(lambda: told(pattern))
        (record, *_) = told(pattern)
        assert (record.based_on, record.patterns[0].topics, record.patterns[0].user) == (0, [first], None)
        assert [(it.name, it.partitions, it.topic_id) for it in record.topics] == [
            (first, 2, topic_id(admin, first))
        ]
        wait_for(lambda: "are not resolved" in caplog.text)
        group.show(patterns=[KnownPattern(pattern=pattern, topics=[first])])
        admin.create_topics({second: {"num_partitions": 1, "replication_factor": 1}})
        wait_for(lambda: told(pattern)[-1].patterns[0].topics == [first, second])
        assert [it.name for it in told(pattern)[-1].topics] == [second]


def test_one_whose_turn_it_is_not_writes_nothing(
    watching: Turn,
    group: Group,
    admin: KafkaAdminClient,
    settings: CoordinatorSettings,
    registry: Any,
) -> None:
    name = settings.topics_groups
    asked = []
    group.name(name)
    with watching.during(lambda: bool(asked.append(None))):
        wait_for(lambda: len(asked) > 5)
        assert group.knows(name) == (None, 0)
        assert samples(registry)[WATCHED] == samples(registry)[LAST] == 0
    with watching.during():
        wait_for(lambda: group.knows(name) == (topic_id(admin, name), 2))


def test_groups_that_are_of_the_classic_protocol_or_gone_are_left_alone(
    watching: Turn, group: Group, registry: Any, settings: CoordinatorSettings
) -> None:
    with watching.during():
        group.name(settings.topics_groups)
        wait_for(lambda: samples(registry)[WATCHED] == 1)
        # No picture, and one of another group: they change nothing.
        group.write(b"{")
        group.show(group_type="classic", group_id="other")
        group.show(group_type="classic")
        wait_for(lambda: samples(registry)[WATCHED] == 0)
        group.show()
        wait_for(lambda: samples(registry)[WATCHED] == 1)
        group.write(None)
        wait_for(lambda: samples(registry)[WATCHED] == 0)


@pytest.mark.parametrize("error", [KafkaTimeoutError("nobody"), TopicAuthorizationFailedError()])
def test_brokers_that_do_not_answer_are_asked_again_and_a_metric_says_since_when(
    watching: Turn,
    group: Group,
    admin: KafkaAdminClient,
    settings: CoordinatorSettings,
    registry: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    name = settings.topics_groups
    asked = []

    def refuse(self: Asking, names: Any) -> bytes:
        asked.append(names)
        raise error

    caplog.set_level(logging.INFO)
    with monkeypatch.context() as patch, watching.during():
        patch.setattr(Asking, "ask", refuse)
        group.name(name)
        wait_for(lambda: len(asked) > 1)
        last = samples(registry)[LAST]
        count = len(asked)
        wait_for(lambda: len(asked) > count + 1)
        assert samples(registry)[LAST] == last
        assert samples(registry)[WATCHED] == 1
        assert group.knows(name) == (None, 0)
        patch.undo()
        wait_for(lambda: group.knows(name) == (topic_id(admin, name), 2))
        wait_for(lambda: samples(registry)[LAST] > last)
    said = [record.getMessage() for record in caplog.records if "of consumer groups" in record.getMessage()]
    assert said[0].startswith("topics of consumer groups are not watched: ")
    assert said[1:] == ["topics of consumer groups are watched again"]


def test_a_failure_of_all_is_followed_by_another_attempt_and_the_time_stands(
    watching: Turn,
    group: Group,
    settings: CoordinatorSettings,
    registry: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    class Refused:
        def __init__(self, *_: object) -> None:
            made.append(None)
            raise OSError("no such file")

    monkeypatch.setattr(watcher, "_AGAIN_S", 0.01)
    with watching.during():
        wait_for(lambda: samples(registry)[LAST])
        with monkeypatch.context() as patch:
            patch.setattr(session, "Asking", Refused)
            group.name(settings.topics_groups)
            wait_for(lambda: len(made) > 2)
            last = samples(registry)[LAST]
            wait_for(lambda: len(made) > 4)
            assert samples(registry)[LAST] == last
            assert samples(registry)[WATCHED] == 1
        wait_for(lambda: samples(registry)[LAST] > last)


def test_records_that_cannot_be_written_are_a_problem_and_are_written_again(
    watching: Turn,
    group: Group,
    admin: KafkaAdminClient,
    settings: CoordinatorSettings,
    registry: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from group_coordinator.streaming.watching import watch

    monkeypatch.setattr(watch, "_PATIENCE_S", 0.5)
    name = settings.topics_groups
    refused = []

    def refuse(self: Any, *_: object, **__: object) -> None:
        refused.append(None)
        raise TopicAuthorizationFailedError

    with monkeypatch.context() as patch, watching.during():
        patch.setattr(KafkaProducer, "send", refuse)
        # The test writes its own with the same class.
        patch.setattr(group._producer, "send", lambda *a, **k: sent(group._producer, *a, **k))
        group.name(name)
        wait_for(lambda: len(refused) > 1)
        last = samples(registry)[LAST]
        count = len(refused)
        wait_for(lambda: len(refused) > count)
        assert samples(registry)[LAST] == last
        patch.undo()
        wait_for(lambda: group.knows(name) == (topic_id(admin, name), 2))
        wait_for(lambda: samples(registry)[LAST] > last)


sent: Callable[..., Any] = KafkaProducer.send


def test_with_an_interval_of_0_nothing_is_watched(
    settings: CoordinatorSettings, config: dict[str, Any], registry: Any
) -> None:
    never = msgspec.structs.replace(settings, topics_watch_interval_ms=0)
    with TopicWatcher(never, config, Report(registry), yes):
        assert "topic-watcher" not in [thread.name for thread in threading.enumerate()]
    assert samples(registry)[LAST] == 0


def test_a_fault_that_nobody_expected_ends_the_thread_which_is_told(
    settings: CoordinatorSettings, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    monkeypatch.setattr(session.Session, "run", lambda _: {}["nothing"])
    with TopicWatcher(settings, config, Report(CollectorRegistry()), yes):
        wait_for(lambda: failed)
    assert failed[0].exc_type is KeyError
    assert failed[0].thread.name == "topic-watcher"


class Brokers:
    """A client's brokers, of which some do not answer."""

    def __init__(self, asked: list[int], silent: set[int]) -> None:
        self.asked, self.silent = asked, silent

    async def send(self, manager: Any, node: int, request: Any) -> Any:
        self.asked.append(node)
        if node in self.silent:
            raise KafkaTimeoutError
        return topic_questions._RawResponse(bytes(4) + b"\x01\0" + bytes(4) + bytes([node]))


def test_each_round_asks_another_broker_and_one_that_does_not_answer_last(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers([], set())
    monkeypatch.setattr(topic_questions, "send_to", brokers.send)
    with ExitStack() as stack:
        under_test = Asking(config)
        stack.callback(under_test.close)
        under_test._manager.cluster.brokers = lambda: [type("Node", (), {"node_id": it}) for it in (3, 1, 2)]
        answers = []
        for _ in range(4):
            answers.append(under_test.ask(["t"])[-1])
            under_test.next_round()
        assert answers == brokers.asked == [1, 2, 3, 1]
        brokers.asked.clear()
        brokers.silent = {2}
        assert under_test.ask(["t"])[-1] == 3
        assert under_test.ask(["t"])[-1] == 3
        assert brokers.asked == [2, 3, 3]
        brokers.silent = {1, 2, 3}
        with pytest.raises(KafkaTimeoutError):
            under_test.ask(["t"])
        under_test._manager.cluster.brokers = list
        with pytest.raises(KafkaTimeoutError, match="no broker is known"):
            under_test.ask(["t"])
