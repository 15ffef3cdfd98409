"""A member of the consumer protocol with a script: what it sends, and what is answered by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.client.consumer_requests import MemberPartition, Subscription
from group_coordinator.client.member_settings import ConsumerMemberSettings
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    TopicFacts,
)
from group_coordinator.coordinator_state.responses import (
    AssignedTopic,
    ConsumerGroupHeartbeatResponse,
    ConsumerMemberResult,
    OffsetCommitResponse,
)

SETTINGS = ConsumerMemberSettings(
    group_id="orders",
    client_id="c1",
    client_host="host",
    max_poll_interval_ms=600_000,
    rebalance_timeout_ms=60_000,
    request_timeout_ms=30_000,
    retry_backoff_ms=500,
    say_all_every_ms=300_000,
)
STATIC = dataclasses.replace(SETTINGS, group_instance_id="w1")
HINT = TopicFacts("a", 4, "id-a")
SUBSCRIPTION = Subscription(("a",), (HINT,))
INTERVAL = 5_000


def of_a(*partitions: int) -> frozenset[MemberPartition]:
    return frozenset(MemberPartition("a", each, "id-a") for each in partitions)


def told(partitions: Iterable[int] | None) -> list[AssignedTopic] | None:
    """An assignment of a's partitions as an answer has it."""
    numbers = None if partitions is None else sorted(partitions)
    return None if numbers is None else [AssignedTopic("id-a", "a", numbers)] if numbers else []


class ConsumerScript:
    """A member, a clock and what it sent."""

    def __init__(self, settings: ConsumerMemberSettings = SETTINGS, wall_ahead_ms: int | None = None) -> None:
        self.now = 1_000_000
        self.member = ConsumerMembership(settings, "i1", "m1", 3, wall_ahead_ms)
        self.settings = settings

    def sent(self) -> list[AnyRequest]:
        """What has been sent since the last time."""
        return self.member.take_requests()

    def one(self) -> ConsumerGroupHeartbeatRequest:
        (request,) = self.sent()
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return request

    def wait(self, ms: int) -> list[AnyRequest]:
        """Let time pass, timer by timer; what was sent meanwhile."""
        end, sent = self.now + ms, []
        while (timer := self.member.next_timer()) is not None and timer <= end:
            self.now = max(self.now, timer)
            self.member.handle_timer(self.now)
            after = self.member.next_timer()
            assert after is None or after > self.now, "a timer that was handled is not due again at once"
            sent += self.sent()
        self.now = end
        return sent

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        """Wait for the next heartbeat."""
        (request,) = self.wait(INTERVAL)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return request

    def refuse(self, request: AnyRequest, error: Errors, message: str | None = None) -> list[AnyRequest]:
        """Answer a whole request with an error."""
        kind = OffsetCommitResponse if isinstance(request, OffsetCommitRequest) else None
        response = (kind or ConsumerGroupHeartbeatResponse).to(
            request.reply_to, request.group_id, error, message
        )
        self.member.receive(response, self.now)
        return self.sent()

    def answer(
        self,
        request: ConsumerGroupHeartbeatRequest,
        epoch: int,
        partitions: Iterable[int] | None = None,
        interval_ms: int = INTERVAL,
    ) -> list[AnyRequest]:
        """Answer a join, or a heartbeat that says all."""
        response = ConsumerGroupHeartbeatResponse.to(
            request.reply_to,
            request.group_id,
            member_id=request.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=told(partitions),
        )
        self.member.receive(response, self.now)
        return self.sent()

    def tell(
        self,
        request: ConsumerGroupHeartbeatRequest,
        epoch: int = 0,
        partitions: Iterable[int] | None = None,
        error: Errors = Errors.NONE,
        *,
        news: bool = True,
    ) -> list[AnyRequest]:
        """Answer a heartbeat that says that the member is alive."""
        result = ConsumerMemberResult(
            member_id="m1", error_code=error, member_epoch=epoch, assignment=told(partitions)
        )
        response = ConsumerGroupHeartbeatResponse.to(
            request.reply_to,
            request.group_id,
            heartbeat_interval_ms=INTERVAL,
            members=[result] if news else [],
        )
        self.member.receive(response, self.now)
        return self.sent()

    def join(self) -> ConsumerGroupHeartbeatRequest:
        self.member.poll(self.now)
        self.member.join(SUBSCRIPTION, self.now)
        return self.one()

    def joined(self, *partitions: int, epoch: int = 1) -> None:
        """Join, and have these partitions."""
        assert self.answer(self.join(), epoch, partitions) == []
        assert self.member.take() == of_a(*partitions)
