from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError

from group_coordinator.page import live as live_module
from group_coordinator.page.live import Live
from tests.page.filled import HOSTILE_GROUP, Filled, moved
from tests.patience import PATIENCE_S, wait_for


@pytest.mark.spark
def test_pictures_are_read_from_the_beginning_events_of_the_last_hours_and_then_what_comes(
    bootstrap_servers: str,
) -> None:
    now_ms = round(time.time() * 1000)
    filled = Filled(now_ms)
    topics = filled.write_topics(bootstrap_servers, "live")
    config = {"bootstrap_servers": bootstrap_servers}
    names = topics["topics.groups"], topics["topics.events"], topics["topics.clock"]
    with Live(*names, config) as live:
        wait_for(lambda: live.problem is None)
        assert [each.group_id for each in live.memory.groups()] == [HOSTILE_GROUP, "billing"]
        story = live.memory.story("billing")
        assert story is not None
        assert len(story.memberships) == 7

        (picture,) = moved(filled.pictures["billing"], "new", 0)
        producer = KafkaProducer(**config)
        producer.send(topics["topics.groups"], key=b"new", value=picture).get(PATIENCE_S)
        producer.send(topics["topics.groups"], key=b"billing", value=None).get(PATIENCE_S)
        producer.close()
        wait_for(lambda: [each.group_id for each in live.memory.groups()] == [HOSTILE_GROUP, "new"])

    # What is older than that is left where it is. The records are a few seconds old by now.
    with Live(*names, config, back=timedelta()) as live:
        wait_for(lambda: live.problem is None)
        assert live.memory.story("billing") is None
        assert live.memory.picture(HOSTILE_GROUP) is not None


@pytest.mark.spark
def test_a_coordinator_that_ticks_is_heard_and_brokers_that_go_are_noticed(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Filled(round(time.time() * 1000)).write_topics(bootstrap_servers, "ticking")
    names = topics["topics.groups"], topics["topics.events"], topics["topics.clock"]
    config = {"bootstrap_servers": bootstrap_servers}

    def tick(**fields: object) -> None:
        value = msgspec.json.encode({"tick": 1, "coordinator": "c", **fields})
        producer.send(topics["topics.clock"], value, partition=0).get(PATIENCE_S)

    with closing(KafkaProducer(**config)) as producer, Live(*names, config) as live:
        # There has been no coordinator so far.
        wait_for(lambda: live.pulse.has_looked)
        assert live.pulse.is_silent(datetime.now(UTC))
        tick()
        wait_for(lambda: not live.pulse.is_silent(datetime.now(UTC)))
        tick(last=True)
        wait_for(lambda: live.pulse.is_silent(datetime.now(UTC)))

        def away(*_: object, **__: object) -> None:
            raise KafkaTimeoutError

        monkeypatch.setattr(live_module, "ends_of", away)
        wait_for(lambda: live.problem is not None and live.problem.startswith("Kafka cannot be read: "))
        # What was known is known still.
        assert len(live.memory.groups()) == 2


@pytest.mark.spark
def test_brokers_that_go_are_noticed_where_nobody_ticks(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with groups at the brokers."""
    topics = Filled(round(time.time() * 1000)).write_topics(bootstrap_servers, "tickless")
    names = topics["topics.groups"], topics["topics.events"], None
    with Live(*names, {"bootstrap_servers": bootstrap_servers}) as live:
        wait_for(lambda: live.problem is None and len(live.memory.groups()) == 2)
        assert not live.pulse.is_silent(datetime.now(UTC))

        def away(*_: object, **__: object) -> None:
            raise KafkaTimeoutError

        monkeypatch.setattr(live_module, "ends_of", away)
        wait_for(lambda: live.problem is not None and live.problem.startswith("Kafka cannot be read: "))
        assert len(live.memory.groups()) == 2


@pytest.mark.spark
def test_topics_that_are_not_there_yet_are_waited_for(bootstrap_servers: str) -> None:
    with Live("later.groups", "later.events", "no.clock", {"bootstrap_servers": bootstrap_servers}) as live:
        wait_for(lambda: live.problem and "there is no topic later.groups" in live.problem)
        Filled(round(time.time() * 1000)).write_topics(bootstrap_servers, "later")
        wait_for(lambda: live.problem is None and len(live.memory.groups()) == 2)
        # The clock is not there, or not for this reader. Nothing is said of coordinators then.
        assert not live.pulse.is_silent(datetime.now(UTC))


@pytest.mark.spark
def test_whoever_may_describe_the_clock_but_not_read_it_hears_nothing_of_coordinators(
    bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Filled(round(time.time() * 1000)).write_topics(bootstrap_servers, "refused")
    clock = topics["topics.clock"]
    poll = KafkaConsumer.poll

    def refusing(consumer: KafkaConsumer, **arguments: int) -> object:
        if TopicPartition(clock, 0) in consumer.assignment():
            raise TopicAuthorizationFailedError({clock})
        return poll(consumer, **arguments)

    monkeypatch.setattr(KafkaConsumer, "poll", refusing)
    names = topics["topics.groups"], topics["topics.events"], clock
    with Live(*names, {"bootstrap_servers": bootstrap_servers}) as live:
        wait_for(lambda: live.problem is None)
        assert len(live.memory.groups()) == 2
        assert not live.pulse.is_silent(datetime.now(UTC))


def test_brokers_that_are_away_are_waited_for() -> None:
    config = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 300}
    with Live("g", "e", "c", config) as live:
        wait_for(lambda: live.problem is not None and live.problem.startswith("Kafka cannot be read: "))
