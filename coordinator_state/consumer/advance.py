"""The moves of a consumer group: its epoch, its topics, its targets, and its state as it is told.

Each change of members, subscriptions or topics makes a new group epoch. The next assignment divides the work
for the newest one. Members come to their targets one by one, each in its own heartbeats (`reconcile.py`).

Source: GroupMetadataManager.java of Apache Kafka 4.4 (consumerGroupHeartbeat, updateTargetAssignment).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.assignors import ASSIGNORS, GroupSpec
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.reconcile import both, reconcile
from group_coordinator.coordinator_state.consumer.states import GroupState, MemberState
from group_coordinator.coordinator_state.events import (
    MemberAssigned,
    MemberReconciled,
    RebalanceCause,
    StateChanged,
    TargetAssigned,
)
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.offsets.retention import look_soon

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.consumer.partitions import Held, Partitions
    from group_coordinator.coordinator_state.turn import Turn

_AT_REST = (GroupState.STABLE, GroupState.EMPTY)


def tell_state(turn: Turn[ConsumerGroup], reason: str, cause: RebalanceCause | None = None) -> None:
    """Tell the state, if it is another one than was told last; `cause` if something makes a new epoch."""
    group = turn.group
    before, state, rebalance_ms = group.told_state, group.state, None
    if state is before:
        return
    group.told_state, group.state_timestamp_ms = state, turn.now_ms
    if state in _AT_REST:
        if group.rebalance_since_ms is not None:
            rebalance_ms, cause = turn.now_ms - group.rebalance_since_ms, group.rebalance_cause
        group.rebalance_since_ms = group.rebalance_cause = None
    elif group.rebalance_since_ms is None:
        group.rebalance_since_ms, group.rebalance_cause = turn.now_ms, cause
    turn.emit(
        StateChanged(from_=str(before), to=str(state), reason=reason, cause=cause, rebalance_ms=rebalance_ms)
    )


def advance_epoch(turn: Turn[ConsumerGroup], cause: RebalanceCause, reason: str) -> None:
    """Begin a new group epoch, because of `cause`. `reason` is for people."""
    turn.group.generation_id += 1
    # It is also for what is known of topics by now.
    turn.group.metadata_changed = False
    tell_state(turn, reason, cause)
    # The state may be told already: the group is Assigning for the epoch before.
    turn.change_picture()
    if turn.offsets:
        # Those of topics that nobody names any more expire, and some of them may be due before all others. A
        # group that is Empty again and again, or has ever new epochs, must not put them off for ever.
        look_soon(turn)


def assign(turn: Turn[ConsumerGroup]) -> None:
    """Divide the work again if it is due: there is a newer epoch, and the last time is long enough ago."""
    group, interval_ms = turn.group, turn.config.group_consumer_assignment_interval_ms
    if group.generation_id <= group.assignment_epoch:
        return
    if group.assigned_at_ms is not None and turn.now_ms - group.assigned_at_ms < interval_ms:
        return
    name = group.index.preferred_assignor(turn.config.consumer_assignors)
    targets = ASSIGNORS[name](_spec(group))
    changed = group.index.change_targets(targets)
    group.assignor = name
    group.advance_assignment()
    if changed:
        assignments = [MemberAssigned(it, group.assignment_bytes(targets[it])) for it in changed]
        turn.emit(
            TargetAssigned(
                assignment_epoch=group.assignment_epoch, protocol_name=name, assignments=assignments
            )
        )
    if group.topics.has_others_than(names := group.subscriptions.all_names()):
        group.topics.prune(names, group.index.topics_held())
    tell_state(turn, "the work was divided again")


def _spec(group: ConsumerGroup) -> GroupSpec:
    members, subscriptions = group.members, group.subscriptions
    # Most members have the same.
    existing = cache(lambda number: frozenset(existing_topics(group, number)))
    return GroupSpec(
        group.index.targets,
        {topic.number: topic for topic in group.topics.existing(subscriptions.all_names())},
        lambda member_id: existing(members[member_id].subscription),
        subscriptions.is_homogeneous,
        lambda member_id: members[member_id].group_instance_id,
    )


def existing_topics(group: ConsumerGroup, subscription: int) -> set[int]:
    """The numbers of the topics of a subscription that there are."""
    return {topic.number for topic in group.topics.existing(group.subscriptions.names(subscription))}


def reconcile_member(
    turn: Turn[ConsumerGroup],
    member: ConsumerMember,
    owned: Partitions | None,
    *,
    subscription_changed: bool = False,
) -> bool:
    """Let a member go on its way to its target; return whether other partitions are assigned to it then.

    `owned`: what it says it has; None if it says nothing.
    """
    group = turn.group
    if group.is_settled(member) and not subscription_changed:
        return False
    before = member.share
    after = reconcile(
        before,
        group.assignment_epoch,
        unpack(member.target),
        group.index.is_free,
        owned,
        existing_topics(group, member.subscription),
        subscription_changed=subscription_changed,
    )
    if after is before:
        return False
    group.change_member(member, after)
    _await_revocation(turn, member)
    is_changed = _are_others(before.assigned, after.assigned)
    if is_changed or _are_others(before.pending, after.pending):
        turn.emit(
            MemberReconciled(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                member_epoch=member.epoch,
                assignment=group.assignment_bytes(both(after)),
                revoking=group.assignment_bytes(after.pending),
            )
        )
    return is_changed


def _await_revocation(turn: Turn[ConsumerGroup], member: ConsumerMember) -> None:
    """A member that is to give up something has its rebalance timeout for it, from now on."""
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        at_ms = turn.now_ms + max(member.rebalance_timeout_ms, 0)
        turn.deadlines.set(DeadlineKind.REVOCATION, at_ms, member.member_id)
        member.revocation_epoch = member.epoch
    elif member.revocation_deadline_ms is not None:
        turn.deadlines.set(DeadlineKind.REVOCATION, None, member.member_id)


def _are_others(before: Held, after: Held) -> bool:
    """Whether these are other partitions, whatever their epochs."""
    return before != after and _partitions(before) != _partitions(after)


def _partitions(held: Held) -> dict[int, set[int]]:
    return {number: set(partitions) for number, partitions in held.items()}
