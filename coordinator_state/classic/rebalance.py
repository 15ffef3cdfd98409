"""The rebalance: how a join phase begins and ends, and how an assignment reaches the members.

Source: GroupMetadataManager.java of Apache Kafka 4 (prepareRebalance, completeClassicGroupJoin,
tryCompleteInitialRebalanceElseSchedule, propagateAssignment), whose names are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.classic.states import TRANSITIONS, GroupState
from group_coordinator.coordinator_state.classic.subscriptions import subscribed_topics
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import (
    AssignmentPropagated,
    GenerationCompleted,
    GenerationWrapped,
    MemberAssigned,
    MemberRemoved,
    RebalancePostponed,
    StateChanged,
)
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.requests import JoinGroupRequest
from group_coordinator.coordinator_state.responses import JoinGroupResponse, SyncGroupResponse

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.classic.member import Member
    from group_coordinator.coordinator_state.events import RebalanceCause
    from group_coordinator.coordinator_state.responses import ReplyTo
    from group_coordinator.coordinator_state.turn import Turn


def transition(
    turn: Turn[ClassicGroup], target: GroupState, reason: str, cause: RebalanceCause | None = None
) -> None:
    """Move the group along an arrow of the state diagram; `cause` if that begins a join phase."""
    group = turn.group
    group.move_to(target)
    rebalance_ms = None
    if target is GroupState.PREPARING_REBALANCE:
        if group.rebalance_since_ms is None:
            group.rebalance_since_ms, group.rebalance_cause = turn.now_ms, cause
    elif target in (GroupState.STABLE, GroupState.EMPTY) and group.rebalance_since_ms is not None:
        rebalance_ms, cause = turn.now_ms - group.rebalance_since_ms, group.rebalance_cause
        group.rebalance_since_ms = group.rebalance_cause = None
    turn.emit(
        StateChanged(
            from_=str(group.previous_state),
            to=str(target),
            reason=reason,
            cause=cause,
            rebalance_ms=rebalance_ms,
        )
    )
    if target is GroupState.EMPTY or (target is GroupState.STABLE and turn.offsets):
        turn.await_cleanup()
    else:
        turn.deadlines.set(DeadlineKind.CLEANUP, None)


# -- the join phase begins -----------------------------------------------------------------------


def maybe_prepare_rebalance(turn: Turn[ClassicGroup], cause: RebalanceCause, reason: str) -> None:
    """Begin a join phase. If one is running, end it if no member is missing any more."""
    if GroupState.PREPARING_REBALANCE in TRANSITIONS[turn.group.state]:
        prepare_rebalance(turn, cause, reason)
    else:
        maybe_complete_join(turn)


def prepare_rebalance(turn: Turn[ClassicGroup], cause: RebalanceCause, reason: str) -> None:
    """Begin a join phase, so that all members join again, because of `cause`. `reason` is for people."""
    group = turn.group
    if group.state is GroupState.COMPLETING_REBALANCE:
        _refuse_parked_syncs(turn)
    for member in group.members.values():
        group.set_pending_sync(member, pending=False)
    turn.deadlines.set(DeadlineKind.SYNC, None)

    if group.state is GroupState.EMPTY:
        # The first member seldom comes alone: wait a little for the others, so that a fleet that starts
        # is one rebalance and not many (KIP-134). This phase never ends early.
        delay_ms = turn.config.group_initial_rebalance_delay_ms
        _begin_initial_delay(turn, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        transition(turn, GroupState.PREPARING_REBALANCE, reason, cause)
        return
    transition(turn, GroupState.PREPARING_REBALANCE, reason, cause)
    if group.all_members_joined:
        complete_join(turn, "all members joined")
    else:
        turn.deadlines.set(DeadlineKind.JOIN, turn.now_ms + group.rebalance_timeout_ms)


def _refuse_parked_syncs(turn: Turn[ClassicGroup]) -> None:
    for member in turn.group.members.values():
        member.assignment = b""
        if refuse_parked_sync(turn, member, Errors.REBALANCE_IN_PROGRESS):
            turn.restart_session(member.member_id, member.session_timeout_ms)


def _begin_initial_delay(turn: Turn[ClassicGroup], delay_ms: int, remaining_ms: int) -> None:
    turn.group.initial_delay_ms = delay_ms
    turn.group.initial_remaining_ms = remaining_ms
    turn.deadlines.set(DeadlineKind.JOIN, turn.now_ms + delay_ms)


# -- the join phase ends -------------------------------------------------------------------------


def maybe_complete_join(turn: Turn[ClassicGroup]) -> None:
    """End the running join phase if no member is missing. The initial one runs its full time."""
    group = turn.group
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.all_members_joined
    ):
        complete_join(turn, "all members joined")


def extend_initial_delay_or_complete_join(turn: Turn[ClassicGroup]) -> None:
    """End a round of the initial delay. Wait another one if members joined in this one and time is left."""
    group = turn.group
    if group.new_member_added and group.initial_remaining_ms:
        group.new_member_added = False
        delay_ms = min(turn.config.group_initial_rebalance_delay_ms, group.initial_remaining_ms)
        remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        _begin_initial_delay(turn, delay_ms, remaining_ms)
    else:
        complete_join(turn, "the initial rebalance delay is over")


def complete_join(turn: Turn[ClassicGroup], reason: str) -> None:
    """End the join phase: remove the members that did not join; the others are the next generation.

    A static member that did not join stays until its session expires, because it may be restarting.
    """
    group = turn.group
    turn.deadlines.set(DeadlineKind.JOIN, None)
    missing = [member for member in group.members.values() if member.awaiting_join is None]
    for member in missing:
        if member.group_instance_id is None:
            remove_member(turn, member, "not_rejoined")
    if group.members and not group.num_awaiting_join:
        _postpone(turn)
        return
    _elect_joined_leader(group)

    _begin_generation(turn)
    group.protocol_name = group.select_protocol() if group.members else None
    group.subscribed_topics = subscribed_topics(group)
    if group.leader is None or group.protocol_name is None:
        transition(turn, GroupState.EMPTY, "no members are left")
        return
    transition(turn, GroupState.COMPLETING_REBALANCE, reason)
    turn.emit(
        GenerationCompleted(
            protocol_type=group.protocol_type or "",
            protocol_name=group.protocol_name,
            leader=group.leader,
            members=list(group.members),
        )
    )
    for member in group.members.values():
        if (reply_to := group.take_parked_join(member)) is not None:
            answer_join(turn, reply_to, member)
        member.is_new, member.is_behind = False, True
        turn.restart_session(member.member_id, member.session_timeout_ms)
        group.set_pending_sync(member, pending=True)
    turn.deadlines.set(DeadlineKind.SYNC, turn.now_ms + group.rebalance_timeout_ms)


def _postpone(turn: Turn[ClassicGroup]) -> None:
    """Nobody could lead the next generation: all that are left are static members that have not joined.

    They may yet, or their sessions end, of which none is shorter than the least that is allowed: looking
    more often than that is of no use, whatever rebalance timeout they ask for.
    """
    timeout_ms = max(turn.group.rebalance_timeout_ms, turn.config.group_min_session_timeout_ms, 1)
    turn.deadlines.set(DeadlineKind.JOIN, turn.now_ms + timeout_ms)
    turn.emit(RebalancePostponed(until_ms=turn.now_ms + timeout_ms))


def _elect_joined_leader(group: ClassicGroup) -> None:
    """If the leader has not joined, the first member that has leads."""
    if group.members and group.members[group.leader or ""].awaiting_join is None:
        joined = (member for member in group.members.values() if member.awaiting_join is not None)
        group.leader = next(joined).member_id


def _begin_generation(turn: Turn[ClassicGroup]) -> None:
    group = turn.group
    if group.generation_id == INT32_MAX:
        # An int32 on Kafka's wire. Kafka lets it go negative, where it would read as "no generation".
        turn.emit(GenerationWrapped())
        group.generation_id = 0
    group.generation_id += 1


def answer_join(
    turn: Turn[ClassicGroup],
    reply_to: ReplyTo,
    member: Member,
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> None:
    """Send `member` the current generation. The leader gets all members as well.

    `leader`: the member to name as the leader, if not the one that leads.
    """
    group = turn.group
    leader = group.leader if leader is None else leader
    with_instances = reply_to.api_version >= JoinGroupRequest.STATIC_VERSION
    leads = leader == member.member_id
    turn.reply(
        reply_to,
        JoinGroupResponse.to(
            reply_to,
            turn.group_id,
            generation_id=group.generation_id,
            # The field came with version 7.
            protocol_type=group.protocol_type if reply_to.api_version >= 7 else None,  # noqa: PLR2004
            protocol_name=group.protocol_name,
            leader=leader,
            skip_assignment=skip_assignment,
            member_id=member.member_id,
            members=group.members_for_leader(with_instances=with_instances) if leads else [],
        ),
        member.member_id,
    )


# -- the sync phase ------------------------------------------------------------------------------


def synced(turn: Turn[ClassicGroup], member: Member) -> None:
    """Note that `member` has synced. When all have, clear the deadline to sync."""
    turn.group.set_pending_sync(member, pending=False)
    if turn.group.num_pending_sync == 0:
        turn.deadlines.set(DeadlineKind.SYNC, None)


def propagate_assignment(turn: Turn[ClassicGroup], assignments: dict[str, bytes]) -> None:
    """Take the leader's assignment, and answer all members that wait for it.

    Nobody is left out: a member the leader forgot owns nothing, and an id that is not a member's is ignored.
    """
    group = turn.group
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    transition(turn, GroupState.STABLE, "the leader's assignment arrived")
    turn.emit(
        AssignmentPropagated(
            protocol_type=group.protocol_type or "",
            assignments=[
                MemberAssigned(member.member_id, member.assignment) for member in group.members.values()
            ],
        )
    )
    for member in group.members.values():
        if (reply_to := group.take_parked_sync(member)) is not None:
            answer_sync(turn, reply_to, member)
            # A session that ended while the sync was parked was let pass; here it begins again.
            turn.restart_session(member.member_id, member.session_timeout_ms)


def answer_sync(turn: Turn[ClassicGroup], reply_to: ReplyTo, member: Member) -> None:
    """Send `member` its assignment."""
    group = turn.group
    has_protocol = reply_to.api_version >= 5  # noqa: PLR2004 - the fields came with version 5
    turn.reply(
        reply_to,
        SyncGroupResponse.to(
            reply_to,
            turn.group_id,
            protocol_type=group.protocol_type if has_protocol else None,
            protocol_name=group.protocol_name if has_protocol else None,
            assignment=member.assignment,
        ),
        member.member_id,
    )


# -- parked requests are refused -----------------------------------------------------------------


def refuse_parked_join(turn: Turn[ClassicGroup], member: Member, error: Errors, member_id: str = "") -> None:
    """Answer the parked join of `member`, if there is one, with `error` and `member_id`."""
    if (reply_to := turn.group.take_parked_join(member)) is not None:
        response = JoinGroupResponse.to(reply_to, turn.group_id, error, member_id=member_id)
        turn.reply(reply_to, response, member.member_id)


def refuse_parked_sync(turn: Turn[ClassicGroup], member: Member, error: Errors) -> bool:
    """Answer the parked sync of `member` with `error`; False if there is none."""
    if (reply_to := turn.group.take_parked_sync(member)) is None:
        return False
    turn.reply(reply_to, SyncGroupResponse.to(reply_to, turn.group_id, error), member.member_id)
    return True


# -- members go ----------------------------------------------------------------------------------


def remove_member(
    turn: Turn[ClassicGroup], member: Member, reason: str, client_reason: str | None = None
) -> None:
    """Remove `member` for `reason` (as in `MemberRemoved`). The caller decides how the phase goes on.

    A parked join is answered UNKNOWN_MEMBER_ID, so that a client that is still there joins again. A parked
    sync is not answered, because its sender must have left since (Kafka does the same).
    """
    refuse_parked_join(turn, member, Errors.UNKNOWN_MEMBER_ID)
    turn.group.remove_member(member)
    turn.emit(
        MemberRemoved(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            reason=reason,
            client_reason=client_reason,
        )
    )
