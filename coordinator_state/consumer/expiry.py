"""The rules for a deadline that passes.

Source: GroupMetadataManager.java of Apache Kafka 4.4 (scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.consumer.advance import remove_members
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.coordinator_state.group import DeadlineKind

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.deadlines import Deadline
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["expire"]


def expire(turn: Turn[ConsumerGroup], deadline: Deadline) -> None:
    """Apply the rule for `deadline`, which `turn.deadlines` has just given out."""
    member = turn.group.members[deadline.member_id]
    if deadline.kind is DeadlineKind.SESSION:
        remove_members(turn, [(member, None)], "session_expired", RebalanceCause.SESSION_EXPIRED)
    elif member.epoch == member.revocation_epoch:
        # Otherwise it left for a while, and what it was to give up is free.
        remove_members(turn, [(member, None)], "not_revoked", RebalanceCause.NOT_REVOKED)
