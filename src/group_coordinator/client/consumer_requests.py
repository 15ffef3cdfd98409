"""The requests of one member of the consumer protocol (KIP-848), numbered.

A heartbeat says either all that a member knows of itself, or only that it is alive. The second kind is in the
form for several members. No lost answer fences its sender: a member that is one epoch behind is told again.
It is answered only if there is news, because members read past the answers to others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from group_coordinator.coordinator_state.config import INT32_MAX
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

__all__ = [
    "ConsumerMemberSettings",
    "ConsumerRequests",
    "MemberPartition",
    "Numbered",
    "Subscription",
    "says_only_alive",
]


@dataclass(frozen=True, kw_only=True)
class ConsumerMemberSettings:
    """The names of a member of the consumer protocol, and how long it waits. Times are in ms.

    `group_instance_id`: makes a static member of that name. `server_assignor`: the coordinator's assignor
    that this member votes for; None: no vote. `max_poll_interval_ms`: the time in which the user has to come
    back. `rebalance_timeout_ms`: the time that it has to give up partitions; None: the same.
    `say_all_every_ms`: how often a heartbeat says all, although nothing has changed. So a lost answer costs
    no more than that. The coordinator says how often to send heartbeats. Raises ValueError for settings that
    cannot work.
    """

    group_id: str
    client_id: str
    client_host: str = ""
    group_instance_id: str | None = None
    server_assignor: str | None = None
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 500
    say_all_every_ms: int = 300_000

    def __post_init__(self) -> None:
        if not self.group_id.strip() or not self.client_id:
            raise ValueError("group_id and client_id must not be empty")
        if self.group_instance_id is not None and not self.group_instance_id.strip():
            raise ValueError("group_instance_id must not be empty; None is for a member that is not static")
        times = (
            *(self.max_poll_interval_ms, self.request_timeout_ms, self.retry_backoff_ms),
            *(self.say_all_every_ms, self.revocation_ms),
        )
        if not all(0 < each <= INT32_MAX for each in times):
            raise ValueError(f"timeouts must be positive, and at most {INT32_MAX} ms")

    @property
    def revocation_ms(self) -> int:
        """The rebalance timeout in force."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms


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


class ConsumerRequests:
    """Makes the requests of one member, and keeps them until they are taken.

    Request ids are `<client id>-<instance>-<n>`; see `Membership` for `instance` and `reply_partition`.
    """

    def __init__(
        self, settings: ConsumerMemberSettings, instance: str, member_id: str, reply_partition: int
    ) -> None:
        self._settings = settings
        self._member_id = member_id
        self._reply_partition = reply_partition
        self._prefix = f"{settings.client_id}-{instance}-"
        self._count = 0
        self._requests: list[AnyRequest] = []
        self._alive: ConsumerGroupHeartbeatRequest | None = None

    def take(self) -> list[AnyRequest]:
        """The requests to send, in order. Each is returned once."""
        requests, self._requests = self._requests, []
        return requests

    def put(self, request: AnyRequest) -> None:
        """Have a request sent."""
        self._requests.append(request)

    def envelope(self, kind: str = "") -> dict[str, Any]:
        """Make what all requests carry, with a request id of its own. `kind`: a mark in the id."""
        self._count += 1
        return {
            "request_id": f"{self._prefix}{kind}{self._count}",
            "client_id": self._settings.client_id,
            "client_host": self._settings.client_host,
            "reply_partition": self._reply_partition,
            "group_id": self._settings.group_id,
        }

    def number_of(self, request_id: str) -> int | None:
        """The number of a heartbeat; None if it is not of this member."""
        number = request_id.removeprefix(self._prefix)
        is_own = number != request_id and number.isascii() and number.isdecimal()
        return int(number) if is_own and len(number) <= len(str(self._count)) else None

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
        return Numbered(self._count, request)


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
