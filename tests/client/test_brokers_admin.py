"""Groups at a live broker, looked at and changed as those of the coordinator are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import OffsetSpec
from kafka.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NoError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnstableOffsetCommitError,
)
from kafka.producer import KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.brokers_admin import BrokersAdmin
from group_coordinator.client.offset_lists import NOTHING
from tests.patience import wait_for

pytestmark = pytest.mark.spark

T0, T1 = TopicPartition("brokers-admin", 0), TopicPartition("brokers-admin", 1)
GONE = TopicPartition("brokers-admin-gone", 0)


@pytest.fixture(scope="module")
def admin(bootstrap_servers: str) -> Iterator[BrokersAdmin]:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as kafka:
        kafka.create_topics({T0.topic: {"num_partitions": 2}})
        kafka.wait_for_topics([T0.topic])
    with BrokersAdmin(bootstrap_servers=bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def member(bootstrap_servers: str) -> Iterator[Callable[..., KafkaConsumer]]:
    members: list[KafkaConsumer] = []

    def start(group_id: str, **settings: Any) -> KafkaConsumer:
        consumer = KafkaConsumer(T0.topic, bootstrap_servers=bootstrap_servers, group_id=group_id, **settings)
        members.append(consumer)
        # It throws away a join that is answered between two polls, so these are long.
        wait_for(lambda: consumer.poll(5_000) or consumer.assignment())
        return consumer

    yield start
    for each in members:
        each.close()


def test_offsets_are_committed_read_and_deleted(admin: BrokersAdmin) -> None:
    given = {T0: OffsetAndMetadata(5, "so far", 3), T1: OffsetAndMetadata(7, "", -1)}
    assert admin.alter_offsets_of_groups({"a": given, "b": {T0: given[T0]}}) == {
        "a": {T0: NoError, T1: NoError},
        "b": {T0: NoError},
    }
    assert admin.list_group_offsets(["a", "b", "none"]) == {"a": given, "b": {T0: given[T0]}, "none": {}}
    assert admin.list_group_offsets({"b": [T0, T1]})["b"] == {T0: given[T0], T1: NOTHING}
    assert admin.alter_group_offsets("a", {GONE: given[T0]}) == {GONE: UnknownTopicOrPartitionError}
    assert admin.delete_group_offsets("a", [T1]) == {T1: NoError}
    assert admin.list_group_offsets("a") == {"a": {T0: given[T0]}}
    with pytest.raises(GroupIdNotFoundError, match=r"group 'none': "):
        admin.delete_group_offsets("none", [T1])


def test_a_commit_of_many_partitions_becomes_several(admin: BrokersAdmin) -> None:
    given = {
        **{
            TopicPartition("brokers-admin-none", each): OffsetAndMetadata(each, "x" * 90)
            for each in range(900)
        },
        T0: OffsetAndMetadata(1, "", -1),
    }
    errors = admin.alter_group_offsets("many", given)
    assert errors.pop(T0) is NoError
    assert len(errors) == 900
    assert set(errors.values()) == {UnknownTopicOrPartitionError}


def test_groups_are_described_and_listed(admin: BrokersAdmin, member: Callable[..., KafkaConsumer]) -> None:
    member("described", client_id="billing-1")
    admin.alter_group_offsets("described-empty", {T0: OffsetAndMetadata(1, "", -1)})
    wait_for(lambda: admin.describe_groups(["described"])["described"].group_state == "Stable")
    found = admin.describe_groups(["described", "described-empty", "described-never"])
    (only,) = found["described"].members
    assert (only.client_id, only.client_host, only.topic_partitions) == ("billing-1", "/127.0.0.1", (T0, T1))
    assert found["described"].protocol_type == "consumer"
    assert (found["described-empty"].group_state, found["described-empty"].error) == ("Empty", None)
    assert found["described-never"].group_state == "Dead"
    assert isinstance(found["described-never"].error, GroupIdNotFoundError)
    listed = {each.group_id: each for each in admin.list_groups() if each.group_id.startswith("described")}
    assert sorted(listed) == ["described", "described-empty"]
    assert (listed["described"].group_state, listed["described"].protocol_type) == ("Stable", "consumer")
    assert listed["described"].group_type == "classic"
    assert "described" not in {each.group_id for each in admin.list_groups(["empty"])}


def test_a_group_with_members_keeps_its_offsets(
    admin: BrokersAdmin, member: Callable[..., KafkaConsumer]
) -> None:
    given = {T0: OffsetAndMetadata(0, "", -1)}
    assert admin.alter_group_offsets("busy", given) == {T0: NoError}
    member("busy")
    assert admin.alter_group_offsets("busy", given) == {T0: UnknownMemberIdError}
    assert admin.delete_group_offsets("busy", [T0]) == {T0: GroupSubscribedToTopicError}


def test_offsets_of_an_open_transaction_are_waited_for(bootstrap_servers: str, admin: BrokersAdmin) -> None:
    admin.alter_group_offsets("in-transaction", {T0: OffsetAndMetadata(5, "", -1)})
    with (
        closing(KafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="open")) as producer,
        BrokersAdmin(bootstrap_servers=bootstrap_servers, request_timeout_ms=500) as impatient,
    ):

        def is_open(partitions: set[TopicPartition] | None) -> bool:
            try:
                impatient.list_group_offsets({"in-transaction": partitions}, require_stable=True)
            except UnstableOffsetCommitError:
                return True
            return False

        producer.init_transactions()
        producer.begin_transaction()
        offsets = dict.fromkeys([T0, T1], OffsetAndMetadata(9, "", -1))
        producer.send_offsets_to_transaction(offsets, "in-transaction")
        # The producer sends them when it can.
        wait_for(lambda: is_open({T1}))
        assert is_open({T0})
        assert is_open(None)
        found = impatient.list_group_offsets(["in-transaction"])["in-transaction"]
        assert {each: it.offset for each, it in found.items()} == {T0: 5}
        producer.commit_transaction()
    found = admin.list_group_offsets({"in-transaction": [T0, T1]}, require_stable=True)["in-transaction"]
    assert {each: it.offset for each, it in found.items()} == {T0: 9, T1: 9}


def test_logs_are_those_of_the_brokers(admin: BrokersAdmin) -> None:
    assert admin.partitions([T0.topic, GONE.topic]) == {T0, T1}
    assert {
        each: it.offset for each, it in admin.list_partition_offsets({T0: OffsetSpec.LATEST}).items()
    } == {T0: 0}
    assert admin.logs({T0: 3})[T0].end == 0
