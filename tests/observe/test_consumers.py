"""`observe` as a process, of groups of the consumer protocol: names of topics, and kills at any time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.observe.names import TopicNames
from tests.brokers_log.watching import partitions
from tests.commands.job import ObserveJob
from tests.gateway.clients import Librdkafka
from tests.observe.polled import Polled
from tests.observe.test_observe import ALL, admin, events_of, expected, reading, topic, watch

__all__ = ["admin", "topic", "watch"]
"""Fixtures of the neighbour."""

pytestmark = pytest.mark.spark


class Member(Polled):
    """A program with librdkafka's consumer, of the consumer protocol."""

    def __init__(self, servers: str, group: str, topic: str, client_id: str, **given: Any) -> None:
        super().__init__(
            Librdkafka(
                servers,
                [topic],
                group,
                client_id=client_id,
                session_timeout_ms=None,
                heartbeat_interval_ms=None,
                group_protocol="consumer",
                enable_auto_commit=True,
                auto_commit_interval_ms=200,
                **given,
            )
        )


def test_a_group_is_watched_with_the_names_of_its_topics(
    bootstrap_servers: str, watch: Callable[..., ObserveJob], admin: KafkaAdminClient, topic: str
) -> None:
    group = f"consumers-{topic}"
    job = watch(*ALL)
    first = Member(bootstrap_servers, group, topic, "first")
    job.wait_for("watching the groups at ")
    with (
        reading(bootstrap_servers, job.topics["events"]) as events,
        reading(bootstrap_servers, job.topics["groups"]) as groups,
        reading(bootstrap_servers, BROKERS_LOG) as log,
    ):

        def picture() -> Any:
            values = [record.value for record in groups() if record.key == group.encode()]
            return json.loads(values[-1]) if values and values[-1] else None

        def shares() -> list[str]:
            members = (picture() or {"members": ()})["members"]
            return sorted(partitions(each["member_assignment"]) for each in members)

        whole = " ".join(f"{topic}{number}" for number in range(4))
        job.wait_until(lambda: shares() == [whole])
        second = Member(bootstrap_servers, group, topic, "second")
        job.wait_until(lambda: len(shares()) == 2 and " ".join(shares()).count(topic) == 4)
        told = picture()
        assert (told["group_type"], told["protocol_type"]) == ("consumer", "consumer")
        # Killed at any time, it goes on where it was.
        job.kill()
        second.leave()
        job = watch(*ALL)
        job.wait_until(lambda: shares() == [whole])
        first.leave()
        job.wait_until(lambda: picture()["state"] == "Empty")
        admin.delete_groups([group])
        job.wait_until(lambda: picture() is None)
        job.wait_until(lambda: events_of(events(), group)[-1]["event"] == "group_deleted")
        assert events_of(events(), group) == expected(log(), group, TopicNames(bootstrap_servers, {}))


@pytest.mark.verify
def test_kills_lose_no_event_and_double_none(
    bootstrap_servers: str, watch: Callable[..., ObserveJob], topic: str
) -> None:
    """Killed ten times while members come and go: what it has told is what the log tells in one call."""
    group = f"consumers-{topic}"
    lasting = Member(bootstrap_servers, group, topic, "lasting", group_instance_id="lasting")
    coming: list[Member] = []
    job = watch(*ALL)
    job.wait_for("watching the groups at ")
    with (
        reading(bootstrap_servers, BROKERS_LOG) as log,
        reading(bootstrap_servers, job.topics["events"]) as events,
    ):
        for number in itertools.count(1):
            coming.append(Member(bootstrap_servers, group, topic, f"coming-{number}"))
            if len(coming) > 2:
                coming.pop(0).leave()
            before = len(events())
            # In the middle of something, whatever that is.
            job.wait_until(lambda before=before: len(events()) > before)
            if number > 10:
                break
            job.kill()
            job = watch(*ALL)
            job.wait_for("watching the groups at ")
        for member in (*coming, lasting):
            member.leave()
        names = TopicNames(bootstrap_servers, {})
        job.wait_until(lambda: len(events_of(events(), group)) == len(expected(log(), group, names)))
        assert events_of(events(), group) == expected(log(), group, names)
        told = {each["event"] for each in events_of(events(), group)}
        assert {"member_away", "member_reconciled", "target_assigned"} <= told
