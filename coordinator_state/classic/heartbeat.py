"""Heartbeat: a member says that it is alive, and learns whether it has to join again.

Source: GroupMetadataManager.java of Apache Kafka 4, classicGroupHeartbeatToClassicGroup.

One rule differs, though not in the answer. A broker answers a join in the millisecond in which the
generation begins. Here the answer may take a batch or an outage. Until it arrives, the member can only send
heartbeats of an older generation. Such a heartbeat extends the session until the member shows that it knows
of the new generation. A member that never does is removed at the end of the time to sync or to join again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.near_expiry import tell_if_nearly_expired
from group_coordinator.coordinator_state.requests.classic import results
from group_coordinator.coordinator_state.turn import GroupT_co, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.requests import BeatingMember, HeartbeatRequest


def handle_heartbeat(
    turn: Turn[GroupT_co],
    request: HeartbeatRequest,
    rule: Callable[[Turn[GroupT_co], BeatingMember], Errors],
) -> None:
    """Handle one Heartbeat. One of several members does what a heartbeat of each would; its answer is one.

    A quiet one is not answered if no member has an error. A topic's partition has many readers, and most
    of what each of them reads would be such answers to others. `rule`: the group's for one member.
    """
    errors = [rule(turn, each) for each in request.beats]
    if request.quiet is True and all(error is Errors.NONE for error in errors):
        return
    if request.members is msgspec.UNSET:
        turn.answer(request, errors[0])
    else:
        turn.answer(request, members=results(request.members, errors))


def beat(turn: Turn[ClassicGroup], beating: BeatingMember) -> Errors:
    """Let one member beat; the error for it. The sync phase is as good as Stable (KAFKA-10134)."""
    if not turn.exists:
        return Errors.UNKNOWN_MEMBER_ID
    group = turn.group
    error = group.validate_member(beating.member_id, beating.group_instance_id, beating.generation_id)
    if error is Errors.NONE:
        member = group.members[beating.member_id]
        member.is_behind = False
        tell_if_nearly_expired(turn, member, member.session_timeout_ms)
        turn.restart_session(member.member_id, member.session_timeout_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            error = Errors.REBALANCE_IN_PROGRESS
    elif error is Errors.ILLEGAL_GENERATION and group.members[beating.member_id].is_behind:
        member = group.members[beating.member_id]
        tell_if_nearly_expired(turn, member, member.session_timeout_ms)
        turn.restart_session(member.member_id, member.session_timeout_ms)
    return error
