"""The descriptions of groups that `AdminClient` returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from kafka.errors import GroupIdNotFoundError, KafkaError
from kafka.structs import TopicPartition

from group_coordinator.client.ask_coordinators import failure
from group_coordinator.client.work import assigned_partitions
from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER, assignment_of, subscription_of
from group_coordinator.coordinator_state.responses import (
    AssignedTopic,
    ConsumerGroupDescribeResponse,
    DescribedConsumer,
    DescribedMember,
    DescribeGroupResponse,
    GroupPicture,
    PicturedMember,
)


@dataclass(frozen=True)
class Coordinator:
    """The coordinator of a group: the partition of the request topic, and the task that has its state."""

    topic: str
    partition: int
    state_partition: int


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group. `member_metadata` (its subscription) is there in Stable only.

    `topic_partitions` is what it owns, or owned last while the group rebalances: of a unit of work, partition
    0 under its name. None if that cannot be read: the leader sent nonsense, or the members of this group use
    a protocol of their own.

    A member of the consumer protocol owns all that it may still have. It has an epoch, and a target: what it
    is to own. Members of the classic protocol have neither.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes
    topic_partitions: tuple[TopicPartition, ...] | None
    member_epoch: int | None = None
    """Of a static member that is away, -2."""
    target_partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group as its coordinator has it. `protocol_data`: the assignor, in Stable only.

    A broker does not tell the generation, which is -1 then, and the leader, which is "".
    `error` says why there is nothing to see. A group that is not there has state "Dead".

    Of a group of the consumer protocol (`group_type` "consumer") the generation is the group epoch. The
    targets of its members are of the `assignment_epoch`; None in a classic group, which has none.
    """

    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    generation_id: int
    leader: str
    members: tuple[MemberDescription, ...]
    error: KafkaError | None = None
    group_type: str = "classic"
    assignment_epoch: int | None = None


def described(answer: DescribeGroupResponse) -> GroupDescription:
    """The description that an answer gives."""
    error = failure([answer.error_code], answer.error_message)
    return _described(answer, answer.generation_id, answer.leader, error)


def consumers_described(answer: ConsumerGroupDescribeResponse) -> GroupDescription:
    """The description that an answer gives of a group of the consumer protocol."""
    error = failure([answer.error_code], answer.error_message)
    is_there = error is None
    return GroupDescription(
        group_id=answer.group_id,
        group_state=answer.group_state if is_there else GroupState.DEAD,
        protocol_type=CONSUMER if is_there else "",
        protocol_data=answer.assignor_name,
        generation_id=answer.group_epoch if is_there else -1,
        leader="",
        members=tuple(map(_consumer, answer.members)),
        error=error,
        group_type="consumer" if is_there else "classic",
        assignment_epoch=answer.assignment_epoch if is_there else None,
    )


def pictured(group: GroupPicture) -> GroupDescription:
    """The description that a picture gives."""
    protocol_type = group.protocol_type or ""
    return GroupDescription(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=protocol_type,
        protocol_data=group.protocol_name or "",
        generation_id=group.generation_id,
        leader=group.leader or "",
        members=tuple(_pictured_member(protocol_type, member) for member in group.members),
        group_type=group.group_type,
        assignment_epoch=None if group.assignment_epoch is msgspec.UNSET else group.assignment_epoch,
    )


def told_by_broker(group: Any) -> GroupDescription:
    """The description that a broker's DescribeGroups response gives of one of its groups."""
    error = failure([group.error_code], group.error_message)
    if error is None and group.group_state == GroupState.DEAD:
        # Up to version 5 it tells a group that is not there by this state alone.
        error = GroupIdNotFoundError(group.error_message or GroupIdNotFoundError.description)
    return _described(group, -1, "", error)


def _described(answer: Any, generation_id: int, leader: str, error: KafkaError | None) -> GroupDescription:
    return GroupDescription(
        group_id=answer.group_id,
        group_state=answer.group_state,
        protocol_type=answer.protocol_type,
        protocol_data=answer.protocol_data,
        generation_id=generation_id,
        leader=leader,
        members=tuple(_member(answer.protocol_type, member) for member in answer.members),
        error=error,
    )


def _member(protocol_type: str, member: DescribedMember) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.member_metadata,
        member_assignment=member.member_assignment,
        topic_partitions=assigned_partitions(protocol_type, member.member_assignment),
    )


def _pictured_member(protocol_type: str, member: PicturedMember) -> MemberDescription:
    described = _member(protocol_type, member)
    if member.member_epoch is msgspec.UNSET or member.target_assignment is msgspec.UNSET:
        return described
    return replace(
        described,
        member_epoch=member.member_epoch,
        target_partitions=assigned_partitions(protocol_type, member.target_assignment),
    )


def _consumer(member: DescribedConsumer) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=subscription_of(member.subscribed_topic_names),
        member_assignment=assignment_of((topic.name, topic.partitions) for topic in member.assignment),
        topic_partitions=_partitions(member.assignment),
        member_epoch=member.member_epoch,
        target_partitions=_partitions(member.target_assignment),
    )


def _partitions(topics: Iterable[AssignedTopic]) -> tuple[TopicPartition, ...]:
    # Of a topic that was made again, there may be two of one name.
    return tuple(
        sorted({TopicPartition(topic.name, number) for topic in topics for number in topic.partitions})
    )
