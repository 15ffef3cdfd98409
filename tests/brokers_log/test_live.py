"""The records of live brokers: what is told of a group is what its coordinator itself says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from group_coordinator.brokers_log.records import Unreadable, read_record
from group_coordinator.brokers_log.step import step
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.deploy.broker import EmbeddedBroker
from tests.brokers_log.kafka import TOPIC, group_of
from tests.patience import wait_for

pytestmark = pytest.mark.spark

GROUP = "g"
SESSION_MS = 20_000
"""On a busy machine no member must expire that is only slow."""
OTHERS = pytest.mark.verify


@pytest.fixture(
    params=[
        pytest.param("broker-3.9", marks=OTHERS),
        "broker",
        pytest.param("broker-4.4", marks=OTHERS),
    ]
)
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with EmbeddedBroker(tmp_path / "kafka", jars=request.param) as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.create_topics({"t": {"num_partitions": 4}})
            admin.wait_for_topics(["t"])
        yield broker.bootstrap_servers


class Log:
    """All records of the group so far, and what is told of them in one call."""

    def __init__(self, servers: str) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None, enable_auto_commit=False)
        numbers = wait_for(lambda: self._consumer.partitions_for_topic(TOPIC))
        self._partitions = [TopicPartition(TOPIC, number) for number in sorted(numbers or ())]
        self._consumer.assign(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)
        self._records: list[Record] = []

    def close(self) -> None:
        self._consumer.close()

    def records(self) -> list[Record]:
        ends = self._consumer.end_offsets(self._partitions)
        while any(self._consumer.position(each) < ends[each] for each in self._partitions):
            for found in self._consumer.poll(100).values():
                self._records += [
                    Record(TOPIC, it.partition, it.offset, it.timestamp, it.key, it.value)
                    for it in found
                    if group_of(it.key) == GROUP.encode()
                ]
        return self._records

    def told(self, channel: Channel) -> list[Any]:
        outputs = step(GROUP.encode(), None, self.records(), 0, 0, {}).outputs
        return [it.value and json.loads(it.value) for it in outputs if it.channel is channel]

    def picture(self) -> Any:
        """The newest picture of the group; None if it is gone."""
        pictures = self.told(Channel.GROUPS)
        return pictures[-1] if pictures else None

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.told(Channel.EVENTS)]


@contextmanager
def member(
    servers: str, client_id: str, meanwhile: Callable[[], object] = lambda: None, **given: Any
) -> Iterator[Callable[[], object]]:
    """A member for as long as the context is open, once it has joined. Calling it lets it move."""
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=servers,
        group_id=GROUP,
        client_id=client_id,
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=300,
        **given,
    )
    with closing(consumer):
        wait_for(consumer.assignment, meanwhile=lambda: (consumer.poll(50), meanwhile()))
        yield lambda: consumer.poll(50)


def test_what_is_told_is_what_the_coordinator_says(servers: str) -> None:
    with ExitStack() as stack:
        admin = stack.enter_context(closing(KafkaAdminClient(bootstrap_servers=servers)))
        first = stack.enter_context(member(servers, "first"))
        log = stack.enter_context(closing(Log(servers)))

        def agrees(members: int) -> bool:
            """Whether both have so many members, in the same state, with the same assignments."""
            ours, theirs = log.picture(), admin.describe_groups([GROUP])[GROUP]
            if ours is None or len(ours["members"]) != members or len(theirs["members"]) != members:
                return False
            return ours["state"] == theirs["group_state"] and {
                it["member_id"]: (it["client_id"], it["client_host"]) for it in ours["members"]
            } == {it["member_id"]: (it["client_id"], it["client_host"]) for it in theirs["members"]}

        wait_for(lambda: agrees(1), meanwhile=first)
        with member(servers, "second", first, group_instance_id="second") as second:
            wait_for(lambda: agrees(2), meanwhile=lambda: (first(), second()))
        # A static member does not leave: it restarts.
        with member(servers, "second", first, group_instance_id="second") as second:
            wait_for(lambda: "member_fenced" in log.kinds(), meanwhile=lambda: (first(), second()))
            wait_for(lambda: agrees(2), meanwhile=lambda: (first(), second()))
            # Then it is silent, until its session ends.
        wait_for(lambda: agrees(1), meanwhile=first)
        last = log.told(Channel.EVENTS)[-1]
        assert last["event"] == "assignment_propagated"

    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin, closing(Log(servers)) as log:
        wait_for(lambda: log.picture()["state"] == "Empty")
        by_hand = {TopicPartition("t", number): OffsetAndMetadata(number, "by hand", -1) for number in (0, 3)}
        admin.alter_group_offsets(GROUP, by_hand)
        wait_for(lambda: log.kinds()[-1] == "offsets_committed")
        told = log.told(Channel.EVENTS)[-1]
        assert told["member_id"] == "", "nobody is a member of an Empty group"
        wait_for(lambda: len([it for it in log.told(Channel.OFFSETS) if it]) == 2)
        # An error is returned, and not raised.
        wait_for(lambda: admin.delete_groups([GROUP]) == {GROUP: "OK"})
        wait_for(lambda: log.picture() is None)
        assert log.kinds()[-1] == "group_deleted"
        removed = [it for it in log.told(Channel.EVENTS) if it["event"] == "member_removed"]
        assert {it["reason"] for it in removed} == {"unknown"}
        assert all(it["session_timeout_ms"] == SESSION_MS for it in removed)
        unread = [read_record(it.key, it.value) for it in log.records()]
        assert not [it for it in unread if isinstance(it, Unreadable)]
