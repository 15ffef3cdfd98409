"""One member's side of the group protocol, as far as it is the same in the classic and the consumer protocol.

    membership.take_requests()                            # to be sent, in this order
    membership.receive(answer, now_ms)                    # what came back
    membership.next_timer(), membership.handle_timer(now_ms)
    membership.commit(offsets, token)                     # and, of its `offset_calls`:
    membership.offset_calls.fetch(units, token, ends_at)
    membership.offset_calls.take_outcomes()               # what came of commits and fetches

There is no clock, no thread, no randomness and no I/O in here. Everything is plain data to look at: a user's
thread that comes by late finds the newest state, not a queue of what happened meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from group_coordinator.client.errors import MembershipError, cannot_commit, unanswered
from group_coordinator.client.instants import next_instant
from group_coordinator.client.member_settings import AnySettings
from group_coordinator.client.offsets import OffsetAnswer, OffsetCalls, Offsets
from group_coordinator.client.outgoing import Outgoing
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.coordinator_state.responses import (
    AnyResponse,
    InvalidRequestResponse,
    OffsetCommitResponse,
)

AnyAnswer = AnyResponse | InvalidRequestResponse

_REBALANCING = (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)


class AnyMembership(ABC):
    """The protocol of one member; see the module's docstring for how it is driven.

    `wall_ahead_ms`: by how much the time of day is ahead of the time that it is given; None: it does not beat
    in step with its group.
    """

    member_id: str

    def __init__(self, settings: AnySettings, requests: Outgoing, wall_ahead_ms: int | None) -> None:
        self.settings = settings
        self.failure: MembershipError | None = None
        """Why the state is Failed."""
        self.offset_calls = OffsetCalls(settings, requests, self._asker)
        """The commits and fetches. Closing the membership ends them."""
        self._requests = requests
        self._wall_ahead_ms = wall_ahead_ms
        self._polled_at: int | None = None

    @property
    @abstractmethod
    def state(self) -> MemberState:
        """The state of the member."""

    def take_requests(self) -> list[AnyRequest]:
        """The requests to send, in order. Each is returned once."""
        return self._requests.take()

    # -- the user's thread ---------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        """The user is alive. Has to be called at least every `max_poll_interval_ms`."""
        # First what is due: whether the user came too late must not depend on which thread came first.
        self.handle_timer(now_ms)
        self._polled_at = now_ms

    def commit(self, offsets: Offsets, token: Any) -> None:
        """Commit as a member; refused at once if it owns nothing (Kafka: generationIfStable)."""
        settings, generation_id = self.settings, self._generation_of_commits
        if self.failure is not None:
            self.offset_calls.refuse(token, self.failure)
        elif generation_id is None:
            rebalancing = self.state in _REBALANCING
            self.offset_calls.refuse(token, cannot_commit(settings.group_id, rebalancing=rebalancing))
        else:
            self.offset_calls.commit(
                offsets,
                token,
                generation_id=generation_id,
                member_id=self.member_id,
                instance_id=settings.group_instance_id,
            )

    @property
    @abstractmethod
    def _generation_of_commits(self) -> int | None:
        """The generation or epoch that may commit now."""

    def _asker(self) -> tuple[str | None, int]:
        """The member id and epoch that a fetch is to name at the moment, in groups that look at them."""
        return None, -1

    def close(self, reason: str = "", *, leave: bool | None = None) -> None:
        """End the membership. Nothing happens any more after this.

        `leave`: whether to tell the group, which else waits for the end of the session; by default if this
        member is not static.
        """
        if self.state is not MemberState.CLOSED:
            self._close(reason, leave=leave)
            advice = "This member was closed before; a commit that was sent may still be made."
            self.offset_calls.end(unanswered(self.settings.group_id, "a commit or fetch", advice))

    @abstractmethod
    def _close(self, reason: str, *, leave: bool | None) -> None:
        """End the session, and become Closed."""

    # -- time ----------------------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """The time to call `handle_timer` at, in ms. It may change with every call of another method."""
        timers = (*self._timers(), self._poll_deadline(), self.offset_calls.next_timer())
        return min((timer for timer in timers if timer is not None), default=None)

    @abstractmethod
    def _timers(self) -> tuple[int | None, ...]:
        """The times at which something is due, besides the end of the user's patience."""

    def handle_timer(self, now_ms: int) -> None:
        """Do what is due at `now_ms`; nothing if nothing is."""
        self.offset_calls.handle_timer(now_ms)
        if is_due(self._poll_deadline(), now_ms):
            self._give_up_on_user()
        else:
            self._do_due(now_ms)

    @abstractmethod
    def _give_up_on_user(self) -> None:
        """Leave the group, as the user has not come back in time."""

    @abstractmethod
    def _do_due(self, now_ms: int) -> None:
        """Do what is due of `_timers`."""

    def _poll_deadline(self) -> int | None:
        if self._polled_at is None or not self._is_in_group:
            return None
        return self._polled_at + self.settings.max_poll_interval_ms

    @property
    @abstractmethod
    def _is_in_group(self) -> bool:
        """Whether it is a member, or is joining."""

    def _next_heartbeat(self, interval_ms: int, now_ms: int) -> int:
        return next_instant(self.settings.group_id, interval_ms, now_ms, self._wall_ahead_ms)

    # -- answers -------------------------------------------------------------------------------------

    def receive(self, answer: AnyAnswer, now_ms: int) -> None:
        """Take an answer. One that is repeated, late or meant for somebody else changes nothing."""
        if not self.offset_calls.awaits(answer.request_id):
            self._on_answer(answer, now_ms)
        elif isinstance(answer, OffsetAnswer):
            is_taken = self.offset_calls.receive(answer, now_ms)
            if is_taken and isinstance(answer, OffsetCommitResponse):
                self._on_commit(answer, now_ms)

    @abstractmethod
    def _on_answer(self, answer: AnyAnswer, now_ms: int) -> None:
        """Take an answer that is about neither a commit nor a fetch."""

    @abstractmethod
    def _on_commit(self, answer: OffsetCommitResponse, now_ms: int) -> None:
        """Learn from the answer to a commit what it says of the member, if it says anything."""


def is_due(at_ms: int | None, now_ms: int) -> bool:
    """Whether the time has come, if there is one."""
    return at_ms is not None and now_ms >= at_ms
