"""Whether a heartbeat is that of a member, or of a program that may become one.

The checks stand in Kafka's order, because the first that fails is the answer.
Source: GroupMetadataManager.java of Apache Kafka 4.4 (getOrMaybeCreateConsumerGroup,
getOrMaybeSubscribeStaticConsumerMember, throwIfConsumerGroupMemberEpochIsInvalid).

Rules that differ. A static member that joins again under its own member id is let in. It has only not heard
the answer to its first try; Kafka takes it for another program (111). An unknown member of a full group is
told that it is unknown (25), after which it joins. Kafka tells it that the group is full (81), which ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.errors import Errors, not_found
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.member import ConsumerMember
    from group_coordinator.coordinator_state.requests.consumer import ConsumerGroupHeartbeatRequest
    from group_coordinator.coordinator_state.responses import AssignedTopic
    from group_coordinator.coordinator_state.turn import Turn


class Verdict(NamedTuple):
    """The answer to one heartbeat. `assignment` None: it is as the member knows it."""

    error: Errors = Errors.NONE
    message: str | None = None
    member_id: str | None = None
    epoch: int = 0
    assignment: list[AssignedTopic] | None = None

    def is_news_to(self, epoch: int) -> bool:
        """Whether it tells something to a member that takes itself for one of this epoch."""
        return self.error is not Errors.NONE or self.assignment is not None or self.epoch != epoch


def refusal(
    turn: Turn[ConsumerGroup], member_id: str, epoch: int, group_instance_id: str | None
) -> Verdict | None:
    """The error if this is no member, and cannot become one."""
    joins = epoch == JOIN_EPOCH
    if not turn.has(ConsumerGroup.KIND):
        return _refusal_without_group(turn, joins=joins)
    group, takes_over = turn.group, False
    if group_instance_id is not None:
        owner_id = group.static_members.get(group_instance_id)
        if not joins and owner_id != member_id:
            return not_the_owner(group_instance_id, owner_id)
        takes_over = owner_id is not None and owner_id != member_id
        if takes_over and not group.members[owner_id or ""].is_away:
            message = f"instance id {group_instance_id} is in use, and its member has not left"
            return Verdict(Errors.UNRELEASED_INSTANCE_ID, message)
    if takes_over or member_id in group.members:
        return None
    return _refusal_of_a_new_one(turn) if joins else unknown(f"member {member_id}")


def _refusal_of_a_new_one(turn: Turn[ConsumerGroup]) -> Verdict | None:
    if len(turn.group.members) >= turn.config.group_consumer_max_size:
        message = f"group.consumer.max.size is {turn.config.group_consumer_max_size}"
        return Verdict(Errors.GROUP_MAX_SIZE_REACHED, message)
    return None


def _refusal_without_group(turn: Turn[ConsumerGroup], *, joins: bool) -> Verdict | None:
    if not joins:
        return Verdict(*not_found(turn.group_id))
    if turn.is_closed and not turn.exists:
        message = "there are as many groups as there may be: ask again later"
        return Verdict(Errors.COORDINATOR_NOT_AVAILABLE, message)
    return None


def not_the_owner(group_instance_id: str, owner_id: str | None) -> Verdict:
    """The answer to one that is not the owner of its instance id; `owner_id` None: nobody is."""
    if owner_id is None:
        return unknown(f"instance id {group_instance_id}")
    message = f"instance id {group_instance_id} is that of another member now"
    return Verdict(Errors.FENCED_INSTANCE_ID, message)


def unknown(what: str) -> Verdict:
    """The answer to what the group does not know."""
    return Verdict(Errors.UNKNOWN_MEMBER_ID, f"{what} is not in this group")


def fenced(member: ConsumerMember) -> Verdict:
    """The answer to an epoch that is not the member's."""
    message = f"the member's epoch is {member.epoch}: join again with epoch 0"
    return Verdict(Errors.FENCED_MEMBER_EPOCH, message)


def knows_its_epoch(
    group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest
) -> bool:
    """Whether the epoch is the member's; or the one before, from one that did not hear the answer.

    That one has nothing that the member does not have now, and says so.
    """
    if request.epoch in (JOIN_EPOCH, member.epoch):
        return True
    if member.is_away or request.epoch != member.previous_epoch or request.topic_partitions is None:
        # One that left for a while has not come back by what it sent before.
        return False
    assigned, owned = member.held, group.topics.owned(request.topic_partitions)
    return all(owned[number] <= assigned.get(number, {}).keys() for number in owned)
