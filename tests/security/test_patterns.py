"""Patterns before a secured broker: a member is told of no topic that its own user may not see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACLOperation, ACLResourcePatternType, NewTopic, ResourcePattern, ResourceType

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from tests.commands.job import Job
from tests.patience import wait_for
from tests.security.conftest import gateway_before, gateway_rights
from tests.security.rights import Right
from tests.security.test_gateway import Wire, on_group, on_topic

if TYPE_CHECKING:
    from tests.security.secured_broker import SecuredBroker

pytestmark = [pytest.mark.spark, pytest.mark.verify]

GROUP = "by-pattern"
BOTH, ONE, LATER = "pattern-both", "pattern-one", "pattern-later"
HEARTBEAT, DESCRIBE = ConsumerGroupHeartbeatRequest.API_KEY, ConsumerGroupDescribeRequest.API_KEY


@pytest.fixture(scope="module")
def gateway(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("patterns")
    secured.operator.create_topics(
        [NewTopic(it, num_partitions=2, replication_factor=1) for it in (BOTH, ONE)]
    )
    with ExitStack() as stack:
        job = Job(
            secured.open_servers, directory, "by-pattern", "--set", "group.consumer.assignment.interval.ms=0"
        )
        stack.callback(job.kill)
        job.wait_for("the coordinator is running")
        topics = ResourcePattern(ResourceType.TOPIC, "pattern-", ACLResourcePatternType.PREFIXED)
        rights = [*gateway_rights(job.topics), Right(topics, (ACLOperation.DESCRIBE,))]
        process = stack.enter_context(gateway_before(secured, directory, job.topics, rights))
        yield process.wait_for("clients find the gateway at ")


class Member:
    """A member of the group, which leaves its pattern to the coordinator."""

    def __init__(self, gateway: str, user: str) -> None:
        self.wire, self.member_id = Wire(gateway, user, None), f"member-of-{user}"
        self.epoch = 0
        self.ids: dict[str, list[int]] = {}
        """The partitions that it has, by the ids of topics."""
        self.seen: set[str] = set()
        """The ids of all topics that it was ever told of."""

    def beat(self) -> None:
        """Join, or say everything again; and take what it is told."""
        kind = ConsumerGroupHeartbeatRequest.TopicPartitions
        owned = [kind(version=1, topic_id=it, partitions=each) for it, each in self.ids.items()]
        message = ConsumerGroupHeartbeatRequest(
            version=1,
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[],
            subscribed_topic_regex="pattern-.*",
            topic_partitions=owned,
        )
        told = codec.decode_response(HEARTBEAT, 1, self.wire.ask(message))
        if told.error_code == Errors.COORDINATOR_NOT_AVAILABLE:
            return
        assert told.error_code == 0, told.error_message
        self.epoch = told.member_epoch
        if told.assignment is not None:
            self.ids = {str(it.topic_id): list(it.partitions) for it in told.assignment.topic_partitions}
            self.seen |= set(self.ids)


def ids_of(admin: KafkaAdminClient, *topics: str) -> set[str]:
    return {str(each["topic_id"]) for each in admin.describe_topics(list(topics))}


def test_a_member_is_told_of_no_topic_that_its_user_may_not_see(secured: SecuredBroker, gateway: str) -> None:
    read, describe = on_group("READ", group=GROUP), on_group("DESCRIBE", group=GROUP)
    secured.grant("tenant-a", [read, on_topic(BOTH, "READ"), on_topic(LATER, "READ"), on_topic(ONE, "READ")])
    secured.grant("tenant-b", [read, describe, on_topic(BOTH, "READ")])
    both, one = (ids_of(secured.operator, it) for it in (BOTH, ONE))
    with ExitStack() as stack:
        reader = stack.enter_context(closing(Wire(gateway, "tenant-b", None)))
        sees_more, sees_less = Member(gateway, "tenant-a"), Member(gateway, "tenant-b")
        for each in (sees_more, sees_less):
            stack.enter_context(closing(each.wire))

        def have(more: set[str]) -> bool:
            """Whether the one member has topics that it alone may see, and all topics are somebody's."""
            for each in (sees_more, sees_less):
                each.beat()
            return sees_more.ids.keys() | sees_less.ids.keys() == more | both and sees_more.ids.keys() >= more

        wait_for(lambda: have(one))
        # A topic that is made later is found for the one user alone, and the other one is never told of it.
        secured.operator.create_topics([NewTopic(LATER, num_partitions=2, replication_factor=1)])
        wait_for(lambda: have(one | ids_of(secured.operator, LATER)))
        assert sees_less.seen == both
        message = ConsumerGroupDescribeRequest(
            version=1, group_ids=[GROUP], include_authorized_operations=False
        )
        (described,) = codec.decode_response(DESCRIBE, 1, reader.ask(message)).groups
        assert described.error_code == Errors.TOPIC_AUTHORIZATION_FAILED, "nor by a description of the group"
