"""One member's side of the group protocol: answers and time in, requests out.

    membership.join("consumer", protocols, now_ms)        # the user's thread; work is given up before
    membership.take_requests()                            # to be sent, in this order
    membership.receive(answer, now_ms)                    # what came back
    membership.next_timer(), membership.handle_timer(now_ms)
    membership.leadership -> membership.assign(...)       # if this member leads: who gets what
    membership.assignment                                 # what this member owns, once Stable
    membership.commit(offsets, token)                     # and, of its `offset_calls`:
    membership.offset_calls.fetch(units, token, ends_at)
    membership.offset_calls.take_outcomes()               # what came of commits and fetches

There is no clock, no thread and no I/O in here. Everything is plain data to look at: a user's thread that
comes by late finds the newest state, not a queue of what happened meanwhile.

Source: AbstractCoordinator.java of Apache Kafka 4, and these proposals:
KIP-62 (heartbeats apart from polls), KIP-345 (static members), KIP-394 (an id before joining), KIP-800
(reasons), KIP-814 (leaders that restart), KIP-1092 (leaving or staying on close).
Where it differs, the place says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from group_coordinator.client.errors import (
    InconsistentGroupProtocolError,
    MembershipError,
    UnexpectedAnswerError,
    cannot_commit,
    fatal_error,
    unanswered,
)
from group_coordinator.client.instants import next_instant
from group_coordinator.client.offsets import OffsetAnswer, OffsetCalls, Offsets
from group_coordinator.client.states import MemberState, transition
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.requests import (
    MAX_REASON,
    AnyRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberAssignment,
    Protocol,
    SyncGroupRequest,
)
from group_coordinator.coordinator_state.responses import (
    AnyResponse,
    HeartbeatResponse,
    InvalidRequestResponse,
    JoinGroupMember,
    JoinGroupResponse,
    OffsetCommitResponse,
    SyncGroupResponse,
)

__all__ = ["AnyAnswer", "Generation", "MemberSettings", "Membership"]

AnyAnswer = AnyResponse | InvalidRequestResponse
_HeartbeatAnswer = HeartbeatResponse | InvalidRequestResponse

# How much longer than the rebalance timeout a join may stay unanswered: the time for the answer to arrive
# (AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE).
_JOIN_LAPSE_MS = 5_000

# A mark in the ids of commits and fetches: a repeated refusal of one must not be taken for a heartbeat's.
_OFFSETS = "offsets-"

# Errors of a commit that are about its generation. They weigh as much as those of a heartbeat.
_OF_GENERATION = frozenset(
    {
        Errors.UNKNOWN_MEMBER_ID,
        Errors.ILLEGAL_GENERATION,
        Errors.GROUP_ID_NOT_FOUND,
        Errors.FENCED_INSTANCE_ID,
        Errors.REBALANCE_IN_PROGRESS,
    }
)


@dataclass(frozen=True, kw_only=True)
class MemberSettings:
    """The names of a member, and how long it waits. Times are in ms and mean what they mean in Kafka.

    `heartbeat_interval_ms`: by default a third of the session timeout. `max_poll_interval_ms` is also the
    rebalance timeout: the time the user has to come back for a rebalance. `group_instance_id`: makes a static
    member of that name. Raises ValueError for settings that cannot work.
    """

    group_id: str
    client_id: str
    client_host: str = ""
    group_instance_id: str | None = None
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int | None = None
    max_poll_interval_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 500

    def __post_init__(self) -> None:
        if not self.group_id or not self.client_id:
            raise ValueError("group_id and client_id must not be empty")
        if self.group_instance_id == "":
            raise ValueError("group_instance_id must not be empty; None is for a member that is not static")
        if not 0 < self.heartbeat_every_ms < self.session_timeout_ms:
            raise ValueError("heartbeat_interval_ms must be positive and less than session_timeout_ms")
        if min(self.max_poll_interval_ms, self.request_timeout_ms, self.retry_backoff_ms) <= 0:
            raise ValueError("timeouts must be positive")

    @property
    def heartbeat_every_ms(self) -> int:
        """The interval in force."""
        if self.heartbeat_interval_ms is not None:
            return self.heartbeat_interval_ms
        return self.session_timeout_ms // 3


@dataclass(frozen=True)
class Generation:
    """A generation that this member is in. `first_request`: number of its first request in it.

    `watched`: all members, if this one leads but has nothing to divide, because it did before it was started
    again. It still watches what they share.
    """

    generation_id: int
    member_id: str
    protocol_name: str
    is_leader: bool
    first_request: int
    watched: Sequence[JoinGroupMember] = ()


class Membership:
    """The protocol of one member; see the module's docstring for how it is driven.

    `instance` has to be unique to this object for as long as answers are kept. Request ids are `<client
    id>-<instance>-<n>` (of commits and fetches `...-offsets-<n>`). So this object takes no answer to an
    earlier one with the same client id. `reply_partition`: partition of the response topic that this member
    reads. `wall_ahead_ms`: by how much the time of day is ahead of the time that it is given; None: it does
    not beat in step with its group.
    """

    def __init__(
        self,
        settings: MemberSettings,
        instance: str,
        reply_partition: int,
        wall_ahead_ms: int | None = None,
    ) -> None:
        self.settings = settings
        self._wall_ahead_ms = wall_ahead_ms
        self.reply_partition = reply_partition
        self.state = MemberState.UNJOINED
        self.member_id = ""
        self.generation: Generation | None = None
        """The generation whose heartbeats go out; None before the first, and when it was lost."""
        self.leadership: Sequence[JoinGroupMember] | None = None
        """If this member leads and has not said who gets what: all members of the generation."""
        self.assignment: bytes | None = None
        """The assignment of this member by the leader; None unless Stable."""
        self.failure: MembershipError | None = None
        """Why the state is Failed."""
        self.offset_calls = OffsetCalls(
            settings.group_id, lambda: self._envelope(_OFFSETS), self._send, settings.retry_backoff_ms
        )
        """The commits and fetches. Closing the membership ends them."""

        self._request_prefix = f"{settings.client_id}-{instance}-"
        self._request_count = 0
        self._requests: list[AnyRequest] = []
        self._protocol_type = ""
        self._protocols: list[Protocol] = []
        self._assignments: list[MemberAssignment] = []
        self._rejoin_reason: str | None = None
        # Whether it has gone without leaving, and comes back for what it had. Until then it keeps its id, so
        # that it can still leave.
        self._is_away = False
        # The join or sync whose answer is awaited. The state says which of the two it is.
        self._awaited: AnyRequest | None = None
        # When the join or sync is sent (again): because no answer came, or after a backoff.
        self._repeat_at: int | None = None
        self._heartbeat_at: int | None = None
        self._polled_at: int | None = None

    # -- the user's thread ---------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        """The user is alive. Has to be called at least every `max_poll_interval_ms`."""
        # First what is due: whether the user came too late must not depend on which thread came first.
        self.handle_timer(now_ms)
        self._polled_at = now_ms

    @property
    def needs_join(self) -> bool:
        """Whether the user's thread has to give up what it owns and call `join`."""
        return self.state is MemberState.UNJOINED or (
            self.state is MemberState.STABLE and self._rejoin_reason is not None
        )

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as the current round is over, e.g. because the subscription has changed."""
        self._is_away = False
        if self._rejoin_reason is None:
            self._rejoin_reason = reason

    def join(self, protocol_type: str, protocols: list[Protocol], now_ms: int) -> None:
        """Join with `protocols`, the most wanted first. Only if `needs_join`."""
        self._move_to(MemberState.PREPARING_REBALANCE)
        self._protocol_type, self._protocols = protocol_type, protocols
        if self._is_away:
            # As if it were started again: a join with the id might begin a rebalance.
            self.member_id, self._is_away = "", False
        self._send_join(now_ms, self._rejoin_reason)
        self._rejoin_reason = None

    def assign(self, generation: Generation, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """Say who gets what, as the leader of `generation`; member id -> assignment.

        Does nothing if `generation` has ended meanwhile: assignors may take long.
        """
        if generation is not self.generation or self.leadership is None:
            return
        self.leadership = None
        self._assignments = [MemberAssignment(*each) for each in assignments.items()]
        self._send_sync(generation, now_ms)

    def commit(self, offsets: Offsets, token: Any) -> None:
        """Commit as a member; refused at once if it owns nothing (Kafka: generationIfStable)."""
        generation, settings = self.generation, self.settings
        if self.failure is not None:
            self.offset_calls.refuse(token, self.failure)
        elif generation is None or self.state is not MemberState.STABLE:
            rebalancing = self.state in (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
            self.offset_calls.refuse(token, cannot_commit(settings.group_id, rebalancing=rebalancing))
        else:
            self.offset_calls.commit(
                offsets,
                token,
                generation_id=generation.generation_id,
                member_id=generation.member_id,
                instance_id=settings.group_instance_id,
            )

    def close(self, reason: str, *, leave: bool | None = None) -> None:
        """End the membership. Nothing happens any more after this.

        `leave`: whether to tell the group, which else waits for the end of the session; by default if this
        member is not static.
        """
        if self.state is not MemberState.CLOSED:
            self._go(MemberState.CLOSED, reason, leave=leave)
            advice = "This member was closed before; a commit that was sent may still be made."
            self.offset_calls.end(unanswered(self.settings.group_id, "a commit or fetch", advice))

    # -- time ----------------------------------------------------------------------------------------

    def next_timer(self) -> int | None:
        """The time to call `handle_timer` at, in ms. It may change with every call of another method."""
        timers = (
            self._heartbeat_at,
            self._repeat_at,
            self._poll_deadline(),
            self.offset_calls.next_timer(),
        )
        return min((timer for timer in timers if timer is not None), default=None)

    def handle_timer(self, now_ms: int) -> None:
        """Do what is due at `now_ms`; nothing if nothing is."""
        self.offset_calls.handle_timer(now_ms)
        deadline = self._poll_deadline()
        if deadline is not None and now_ms >= deadline:
            reason = f"not polled for max_poll_interval_ms = {self.settings.max_poll_interval_ms}"
            self._go(MemberState.UNJOINED, reason)
            if self._rejoin_reason is not None:
                self._is_away = False
            self._rejoin_reason = reason
            return
        if self.generation and self._heartbeat_at is not None and now_ms >= self._heartbeat_at:
            self._send_heartbeat(self.generation)
            self._heartbeat_at = self._next_heartbeat(now_ms)
        if self._repeat_at is not None and now_ms >= self._repeat_at:
            # Kafka starts over with a join when a sync fails. Repeating the sync costs the group no
            # rebalance, and a coordinator that was away still has this member's generation.
            if self.generation and self.state is MemberState.COMPLETING_REBALANCE:
                self._send_sync(self.generation, now_ms)
            else:
                self._send_join(now_ms, "the last join was not answered, or not granted yet")

    def _poll_deadline(self) -> int | None:
        in_group = self.state in (
            MemberState.PREPARING_REBALANCE,
            MemberState.COMPLETING_REBALANCE,
            MemberState.STABLE,
        )
        if not in_group or self._polled_at is None:
            return None
        return self._polled_at + self.settings.max_poll_interval_ms

    # -- requests ------------------------------------------------------------------------------------

    def take_requests(self) -> list[AnyRequest]:
        """The requests to send, in order. Each is returned once."""
        requests, self._requests = self._requests, []
        return requests

    def _send(self, request: AnyRequest) -> None:
        self._requests.append(request)

    def _envelope(self, kind: str = "") -> dict[str, Any]:
        """What all requests carry, with a request id of its own."""
        self._request_count += 1
        return {
            "request_id": f"{self._request_prefix}{kind}{self._request_count}",
            "client_id": self.settings.client_id,
            "client_host": self.settings.client_host,
            "reply_partition": self.reply_partition,
            "group_id": self.settings.group_id,
        }

    def _send_join(self, now_ms: int, reason: str | None) -> None:
        rebalance_timeout_ms = self.settings.max_poll_interval_ms
        request = JoinGroupRequest(
            **self._envelope(),
            session_timeout_ms=self.settings.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=self._protocol_type,
            protocols=self._protocols,
            reason=reason[:MAX_REASON] if reason else None,
        )
        self._send_and_await(request, now_ms + rebalance_timeout_ms + _JOIN_LAPSE_MS)

    def _send_sync(self, generation: Generation, now_ms: int) -> None:
        request = SyncGroupRequest(
            **self._envelope(),
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=self._protocol_type,
            protocol_name=generation.protocol_name,
            assignments=self._assignments,
        )
        self._send_and_await(request, now_ms + self.settings.request_timeout_ms)

    def _send_and_await(self, request: AnyRequest, repeat_at: int) -> None:
        self._send(request)
        self._awaited = request
        self._repeat_at = repeat_at

    def _back_off(self, now_ms: int) -> None:
        self._awaited = None
        self._repeat_at = now_ms + self.settings.retry_backoff_ms

    def _next_heartbeat(self, now_ms: int) -> int:
        settings = self.settings
        return next_instant(settings.group_id, settings.heartbeat_every_ms, now_ms, self._wall_ahead_ms)

    def _send_heartbeat(self, generation: Generation) -> None:
        request = HeartbeatRequest(
            **self._envelope(),
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            quiet=True,
        )
        self._send(request)

    def _send_leave(self, reason: str) -> None:
        leaving = LeavingMember(
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            reason=reason[:MAX_REASON],
        )
        self._send(LeaveGroupRequest(**self._envelope(), members=[leaving]))

    # -- answers -------------------------------------------------------------------------------------

    def receive(self, answer: AnyAnswer, now_ms: int) -> None:
        """Take an answer. One that is repeated, late or meant for somebody else changes nothing."""
        awaited = self._awaited
        if awaited is not None and answer.request_id == awaited.request_id:
            if not fits(awaited, answer):
                return
            if isinstance(answer, InvalidRequestResponse):
                self._fail_with(answer)
            elif isinstance(answer, JoinGroupResponse):
                self._on_join(answer, now_ms)
            elif isinstance(answer, SyncGroupResponse) and self.generation:
                self._on_sync(answer, self.generation, now_ms)
        elif self.offset_calls.awaits(answer.request_id):
            if isinstance(answer, OffsetAnswer):
                self._on_offsets(answer, now_ms)
        elif answer.group_id not in (None, self.settings.group_id):
            return
        elif isinstance(answer, _HeartbeatAnswer) and self._is_of_generation(answer.request_id):
            self._on_heartbeat(answer, now_ms)

    def _is_of_generation(self, request_id: str, kind: str = "") -> bool:
        """Whether a request was sent in the current generation."""
        n = request_id.removeprefix(self._request_prefix + kind)
        is_own = n != request_id and n.isascii() and n.isdecimal() and len(n) <= len(str(self._request_count))
        return is_own and self.generation is not None and int(n) >= self.generation.first_request

    def _on_join(self, answer: JoinGroupResponse, now_ms: int) -> None:
        match answer.error_code:
            case Errors.NONE:
                self._joined(answer, now_ms)
            case Errors.MEMBER_ID_REQUIRED if answer.member_id:
                self._end_session()
                self.member_id = answer.member_id
                self._send_join(now_ms, None)
            case Errors.UNKNOWN_MEMBER_ID if self.member_id:
                self._end_session()
                self.member_id = ""
                self._send_join(now_ms, "the member id was not known any more")
            case Errors.COORDINATOR_NOT_AVAILABLE | Errors.REBALANCE_IN_PROGRESS | Errors.UNKNOWN_MEMBER_ID:
                self._back_off(now_ms)
            case _:
                self._fail_with(answer)

    def _joined(self, answer: JoinGroupResponse, now_ms: int) -> None:
        settings = self.settings
        if answer.protocol_type not in (None, self._protocol_type):
            detail = f"shares {answer.protocol_type!r}, this member {self._protocol_type!r}"
            self._fail(InconsistentGroupProtocolError(settings.group_id, detail))
            return
        if not answer.member_id or answer.generation_id < 0 or answer.protocol_name is None:
            self._fail(UnexpectedAnswerError(settings.group_id, "a join was granted without a generation"))
            return
        self._move_to(MemberState.COMPLETING_REBALANCE)
        self._awaited = self._repeat_at = None
        self.member_id = answer.member_id
        is_leader = answer.leader == answer.member_id
        generation = Generation(
            answer.generation_id,
            answer.member_id,
            answer.protocol_name,
            is_leader=is_leader,
            first_request=self._request_count + 1,
            watched=tuple(answer.members) if is_leader and answer.skip_assignment else (),
        )
        self.generation = generation
        # Not later than the last generation would have had it, because a join does not restart the interval.
        due = self._next_heartbeat(now_ms)
        self._heartbeat_at = due if self._heartbeat_at is None else min(due, self._heartbeat_at)
        self._assignments = []
        if is_leader and not answer.skip_assignment:
            self.leadership = answer.members
        else:
            self._send_sync(generation, now_ms)

    def _on_sync(self, answer: SyncGroupResponse, generation: Generation, now_ms: int) -> None:
        match answer.error_code:
            case Errors.NONE:
                joined = (self._protocol_type, generation.protocol_name)
                synced = (answer.protocol_type or joined[0], answer.protocol_name or joined[1])
                if synced != joined:
                    detail = f"synced as {'/'.join(synced)}, joined as {'/'.join(joined)}"
                    self._fail(InconsistentGroupProtocolError(self.settings.group_id, detail))
                    return
                self._move_to(MemberState.STABLE)
                self._awaited = self._repeat_at = None
                self.assignment = answer.assignment
            case Errors.REBALANCE_IN_PROGRESS:
                # Nothing is owned since the last join, so this needs no user.
                self._move_to(MemberState.PREPARING_REBALANCE)
                self._send_join(now_ms, "the group began another rebalance")
            case Errors.UNKNOWN_MEMBER_ID | Errors.ILLEGAL_GENERATION:
                self._lose_generation(answer, now_ms)
            case Errors.COORDINATOR_NOT_AVAILABLE:
                self._back_off(now_ms)
            case _:
                self._fail_with(answer)

    def _on_heartbeat(self, answer: _HeartbeatAnswer | OffsetCommitResponse, now_ms: int) -> None:
        match answer.error_code:
            case Errors.NONE | Errors.COORDINATOR_NOT_AVAILABLE:
                pass
            case Errors.REBALANCE_IN_PROGRESS:
                # Otherwise a join is on its way already, or the sync is going to be told the same.
                if self.state is MemberState.STABLE:
                    self.request_rejoin("the group is rebalancing")
            case Errors.UNKNOWN_MEMBER_ID | Errors.ILLEGAL_GENERATION | Errors.GROUP_ID_NOT_FOUND:
                self._lose_generation(answer, now_ms)
            case _:
                self._fail_with(answer)

    def _on_offsets(self, answer: OffsetAnswer, now_ms: int) -> None:
        if not self.offset_calls.receive(answer, now_ms):
            return
        if not isinstance(answer, OffsetCommitResponse) or answer.error_code not in _OF_GENERATION:
            return  # what else it was refused for is its own affair
        if self._is_of_generation(answer.request_id, _OFFSETS):
            self._on_heartbeat(answer, now_ms)

    # -- the end of a generation ---------------------------------------------------------------------

    def _go(self, target: MemberState, reason: str, *, leave: bool | None = None) -> None:
        is_static = self.settings.group_instance_id is not None
        # A static member says nothing by default: its place is kept until its session ends.
        self._is_away = is_static if leave is None else not leave
        if not self._is_away:
            # A static member's name will do while the join that asks for an id is out.
            if self.member_id or (is_static and self._awaited is not None):
                self._send_leave(reason)
            self.member_id = ""
        self._end_session()
        self._move_to(target)

    def _lose_generation(self, answer: AnyAnswer, now_ms: int) -> None:
        """The group went on without this member: what it owned may be somebody else's by now."""
        reason = f"{answer.error} was answered in {self.state}"
        if self.state is MemberState.PREPARING_REBALANCE:
            # The join that is out answers for the member id; a second one would only displace it.
            self.generation = self._heartbeat_at = None
            return
        self._end_session()
        if answer.error_code != Errors.ILLEGAL_GENERATION:
            self.member_id = ""
        if self.state is MemberState.STABLE:
            self._move_to(MemberState.UNJOINED)
            self._rejoin_reason = reason
        else:
            self._move_to(MemberState.PREPARING_REBALANCE)
            self._send_join(now_ms, reason)

    def _fail_with(self, answer: AnyAnswer) -> None:
        settings, detail = self.settings, answer.error_message
        if answer.error_code == Errors.FENCED_INSTANCE_ID:
            detail = detail or f"group_instance_id {settings.group_instance_id!r}"
            # The place is another program's now, which must not be taken out of the group on closing.
            self.member_id = ""
        self._fail(fatal_error(answer.error_code, answer.error, detail, settings.group_id))

    def _fail(self, failure: MembershipError) -> None:
        self._move_to(MemberState.FAILED)
        self._end_session()
        self.failure = failure

    def _end_session(self) -> None:
        self.generation = self._heartbeat_at = None
        self._awaited = self._repeat_at = None

    def _move_to(self, state: MemberState) -> None:
        self.state = transition(self.state, state)
        # Both belong to one stay in one state.
        self.assignment = self.leadership = None
