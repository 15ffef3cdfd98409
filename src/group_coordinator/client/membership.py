"""One member's side of the group protocol: answers and time in, requests out.

    membership.join("consumer", protocols, now_ms)        # the user's thread; work is given up before
    membership.leadership -> membership.assign(...)       # if this member leads: who gets what
    membership.assignment                                 # what this member owns, once Stable

See `AnyMembership` for what is the same in all protocols.

Source: AbstractCoordinator.java of Apache Kafka 4, and these proposals:
KIP-62 (heartbeats apart from polls), KIP-345 (static members), KIP-394 (an id before joining), KIP-800
(reasons), KIP-814 (leaders that restart), KIP-1092 (leaving or staying on close).
Where it differs, the place says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from group_coordinator.client.any_membership import AnyAnswer, AnyMembership, is_due
from group_coordinator.client.errors import (
    InconsistentGroupProtocolError,
    MembershipError,
    UnexpectedAnswerError,
    fatal_error,
)
from group_coordinator.client.member_settings import MemberSettings
from group_coordinator.client.offsets import OFFSETS
from group_coordinator.client.outgoing import Outgoing
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
    HeartbeatResponse,
    InvalidRequestResponse,
    JoinGroupMember,
    JoinGroupResponse,
    OffsetCommitResponse,
    SyncGroupResponse,
)

_HeartbeatAnswer = HeartbeatResponse | InvalidRequestResponse

# How much longer than the rebalance timeout a join may stay unanswered: the time for the answer to arrive
# (AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE).
_JOIN_LAPSE_MS = 5_000

_IN_GROUP = (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

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


class Membership(AnyMembership):
    """The classic protocol of one member. See `Outgoing` and `AnyMembership` for the arguments."""

    settings: MemberSettings
    state: MemberState = MemberState.UNJOINED

    def __init__(
        self,
        settings: MemberSettings,
        instance: str,
        reply_partition: int,
        wall_ahead_ms: int | None = None,
    ) -> None:
        super().__init__(settings, Outgoing(settings, instance, reply_partition), wall_ahead_ms)
        self.member_id = ""
        self.generation: Generation | None = None
        """The generation whose heartbeats go out; None before the first, and when it was lost."""
        self.leadership: Sequence[JoinGroupMember] | None = None
        """If this member leads and has not said who gets what: all members of the generation."""
        self.assignment: bytes | None = None
        """The assignment of this member by the leader; None unless Stable."""

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

    # -- the user's thread ---------------------------------------------------------------------------

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

    @property
    def _generation_of_commits(self) -> int | None:
        if self.generation is None or self.state is not MemberState.STABLE:
            return None
        return self.generation.generation_id

    def _close(self, reason: str, *, leave: bool | None) -> None:
        self._go(MemberState.CLOSED, reason, leave=leave)

    # -- time ----------------------------------------------------------------------------------------

    def _timers(self) -> tuple[int | None, ...]:
        return self._heartbeat_at, self._repeat_at

    def _give_up_on_user(self) -> None:
        reason = f"not polled for max_poll_interval_ms = {self.settings.max_poll_interval_ms}"
        self._go(MemberState.UNJOINED, reason)
        if self._rejoin_reason is not None:
            self._is_away = False
        self._rejoin_reason = reason

    def _do_due(self, now_ms: int) -> None:
        if self.generation and is_due(self._heartbeat_at, now_ms):
            self._send_heartbeat(self.generation)
            self._heartbeat_at = self._next_heartbeat(self.settings.heartbeat_every_ms, now_ms)
        if is_due(self._repeat_at, now_ms):
            # Kafka starts over with a join when a sync fails. Repeating the sync costs the group no
            # rebalance, and a coordinator that was away still has this member's generation.
            if self.generation and self.state is MemberState.COMPLETING_REBALANCE:
                self._send_sync(self.generation, now_ms)
            else:
                self._send_join(now_ms, "the last join was not answered, or not granted yet")

    @property
    def _is_in_group(self) -> bool:
        return self.state in _IN_GROUP

    # -- requests ------------------------------------------------------------------------------------

    def _send_join(self, now_ms: int, reason: str | None) -> None:
        rebalance_timeout_ms = self.settings.max_poll_interval_ms
        request = JoinGroupRequest(
            **self._requests.envelope(),
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
            **self._requests.envelope(),
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type=self._protocol_type,
            protocol_name=generation.protocol_name,
            assignments=self._assignments,
        )
        self._send_and_await(request, now_ms + self.settings.request_timeout_ms)

    def _send_and_await(self, request: AnyRequest, repeat_at: int) -> None:
        self._requests.put(request)
        self._awaited = request
        self._repeat_at = repeat_at

    def _back_off(self, now_ms: int) -> None:
        self._awaited = None
        self._repeat_at = now_ms + self.settings.retry_backoff_ms

    def _send_heartbeat(self, generation: Generation) -> None:
        request = HeartbeatRequest(
            **self._requests.envelope(),
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self.settings.group_instance_id,
            quiet=True,
        )
        self._requests.put(request)

    def _send_leave(self, reason: str) -> None:
        leaving = LeavingMember(
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            reason=reason[:MAX_REASON],
        )
        self._requests.put(LeaveGroupRequest(**self._requests.envelope(), members=[leaving]))

    # -- answers -------------------------------------------------------------------------------------

    def _on_answer(self, answer: AnyAnswer, now_ms: int) -> None:
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
        elif answer.group_id not in (None, self.settings.group_id):
            return
        elif isinstance(answer, _HeartbeatAnswer) and self._is_of_generation(answer.request_id):
            self._on_heartbeat(answer, now_ms)

    def _is_of_generation(self, request_id: str, kind: str = "") -> bool:
        """Whether a request was sent in the current generation."""
        number = self._requests.number_of(request_id, kind)
        return number is not None and self.generation is not None and number >= self.generation.first_request

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
            first_request=self._requests.count + 1,
            watched=tuple(answer.members) if is_leader and answer.skip_assignment else (),
        )
        self.generation = generation
        # Not later than the last generation would have had it, because a join does not restart the interval.
        due = self._next_heartbeat(self.settings.heartbeat_every_ms, now_ms)
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

    def _on_commit(self, answer: OffsetCommitResponse, now_ms: int) -> None:
        # Other errors of a commit are its own affair.
        if answer.error_code in _OF_GENERATION and self._is_of_generation(answer.request_id, OFFSETS):
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
