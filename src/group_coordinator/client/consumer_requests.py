"""The requests of one member of the consumer protocol (KIP-848), numbered.

A heartbeat says either all that a member knows of itself, or only that it is alive. The second kind is in the
form for several members. No lost answer fences its sender: a member that is one epoch behind is told again.
It is answered only if there is news, because members read past the answers to others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from group_coordinator.client.member_settings import ConsumerMemberSettings
from group_coordinator.client.outgoing import Outgoing
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.requests import (
    AliveMember,
    AnyRequest,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    OwnedTopic,
    TopicFacts,
)
from group_coordinator.coordinator_state.requests.consumer import AWAY_EPOCH, JOIN_EPOCH, LEAVE_EPOCH
from group_coordinator.coordinator_state.responses import AnyResponse, InvalidRequestResponse


class MemberPartition(NamedTuple):
    """A partition that a member has. `topic_id` is Kafka's; empty for a unit, which no broker knows."""

    topic: str
    partition: int
    topic_id: str = ""


class Subscription(NamedTuple):
    """The topics that a member shares, and what it knows of them (`hints`)."""

    names: tuple[str, ...]
    hints: tuple[TopicFacts, ...] = ()


class Numbered(NamedTuple):
    """A request, and its number among those of its member."""

    number: int
    request: ConsumerGroupHeartbeatRequest


class ConsumerRequests(Outgoing):
    """Makes the requests of one member. `member_id` is the member's own."""

    _settings: ConsumerMemberSettings

    def __init__(
        self, settings: ConsumerMemberSettings, instance: str, member_id: str, reply_partition: int
    ) -> None:
        super().__init__(settings, instance, reply_partition)
        self._member_id = member_id
        self._alive: ConsumerGroupHeartbeatRequest | None = None

    def is_for_alive(self, answer: AnyResponse | InvalidRequestResponse) -> bool:
        """Whether this can be the answer to a heartbeat that says no more than that the member is alive."""
        return self._alive is not None and fits(self._alive, answer)

    def put_join(self, subscription: Subscription) -> Numbered:
        """Join: say all, and that nothing is owned."""
        return self.put_all(JOIN_EPOCH, subscription, (), with_hints=True)

    def put_all(
        self,
        epoch: int,
        subscription: Subscription,
        owned: Collection[MemberPartition],
        *,
        with_hints: bool,
    ) -> Numbered:
        """Say all that the member knows of itself, which acknowledges what it has given up."""
        request = ConsumerGroupHeartbeatRequest(
            **self._own(epoch),
            rebalance_timeout_ms=self._settings.revocation_ms,
            subscribed_topic_names=list(subscription.names),
            server_assignor=self._settings.server_assignor,
            topic_partitions=_by_topic(owned),
            topics=list(subscription.hints) if with_hints else [],
        )
        return self._put(request)

    def put_alive(self, epoch: int, *, quiet: bool) -> None:
        """Say that the member is alive. `quiet`: an answer is wanted only if there is news."""
        alive = AliveMember(
            member_id=self._member_id,
            member_epoch=epoch,
            group_instance_id=self._settings.group_instance_id,
        )
        self._alive = ConsumerGroupHeartbeatRequest(
            **self.envelope(), members=[alive], quiet=True if quiet else msgspec.UNSET
        )
        self.put(self._alive)

    def put_leave(self, *, for_good: bool) -> None:
        """Leave, for good or for a while."""
        epoch = LEAVE_EPOCH if for_good else AWAY_EPOCH
        self._put(ConsumerGroupHeartbeatRequest(**self._own(epoch)))

    def _own(self, epoch: int) -> dict[str, Any]:
        """What requests of this one member carry."""
        return {
            **self.envelope(),
            "member_id": self._member_id,
            "member_epoch": epoch,
            "group_instance_id": self._settings.group_instance_id,
        }

    def _put(self, request: ConsumerGroupHeartbeatRequest) -> Numbered:
        self.put(request)
        return Numbered(self.count, request)


def _by_topic(partitions: Collection[MemberPartition]) -> list[OwnedTopic]:
    numbers = defaultdict(list)
    for topic, partition, topic_id in sorted(partitions):
        numbers[topic_id, topic].append(partition)
    return [
        OwnedTopic(each, topic_id or None, None if topic_id else topic)
        for (topic_id, topic), each in sorted(numbers.items())
    ]


def says_only_alive(request: AnyRequest) -> bool:
    """Whether a request says no more than that its member is alive, of the classic protocol as well."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return request.members is not msgspec.UNSET
    return isinstance(request, HeartbeatRequest)
