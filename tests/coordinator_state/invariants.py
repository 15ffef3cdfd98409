"""What must be true of a stored group between any two calls, whatever has happened to it."""

from __future__ import annotations

from collections import Counter

from coordinator_state.group import Group
from coordinator_state.states import GroupState
from coordinator_state.step import StepResult, decode_group, encode_group


def check(result: StepResult, watermark_ms: int) -> Group | None:
    """Check what a call leaves behind; the group is handed back for further questions."""
    if result.state is None:
        assert result.deadline_ms is None
        return None
    group = decode_group(result.state)
    assert encode_group(group) == result.state, "stored state does not round-trip"
    _counters_are_what_the_members_say(group)
    _the_leader_is_a_member(group)
    _time_is_limited(group)
    _members_fit_the_state(group)
    # Spark refuses a time-out that is not later than the watermark, and ends the query.
    assert result.deadline_ms is not None
    assert result.deadline_ms > max(watermark_ms, group.now_ms)
    return group


def _counters_are_what_the_members_say(group: Group) -> None:
    members = group.members.values()
    assert group.num_awaiting_join == sum(member.awaiting_join is not None for member in members)
    assert group.num_pending_sync == sum(member.pending_sync for member in members)
    assert group.protocol_counts == Counter(
        name for member in members for name in {protocol.name for protocol in member.protocols}
    )
    assert group.bytes_held == sum(member.size for member in members)
    static = [member for member in members if member.group_instance_id is not None]
    assert group.static_members == {member.group_instance_id: member.member_id for member in static}
    assert len(group.static_members) == len(static), "one member per instance id"


def _the_leader_is_a_member(group: Group) -> None:
    if group.members:
        assert group.leader in group.members
    else:
        assert group.leader is None
    assert not group.members.keys() & group.pending_members.keys()
    for member_id, member in group.members.items():
        assert member.member_id == member_id


def _time_is_limited(group: Group) -> None:
    for member in group.members.values():
        is_parked = member.awaiting_join is not None or member.awaiting_sync is not None
        # Else it would be a member for ever without a sign of life.
        assert is_parked or member.session_deadline_ms is not None
    in_join_phase = group.state is GroupState.PREPARING_REBALANCE
    assert in_join_phase == (group.join_deadline_ms is not None)
    # Somebody who has not synced is waited for, but not for ever.
    assert (group.num_pending_sync > 0) == (group.sync_deadline_ms is not None)
    assert (group.state is GroupState.EMPTY) == (group.cleanup_deadline_ms is not None)


def _members_fit_the_state(group: Group) -> None:
    members = group.members.values()
    assert group.state is not GroupState.DEAD, "a dead group is not stored"
    if group.state is GroupState.EMPTY:
        assert not group.members
    if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert group.members
        assert all(member.awaiting_join is None and not member.is_new for member in members)
        assert all(any(p.name == group.protocol_name for p in member.protocols) for member in members)
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert all(member.awaiting_sync is None for member in members)
    if group.state is GroupState.PREPARING_REBALANCE:
        assert group.num_pending_sync == 0
