"""The states of a consumer group, and of a member on its way to its target."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class GroupState(StrEnum):
    """The states of a group; the values are spelled as Kafka's tools spell them.

    No table of moves is needed: the state follows from the members and the epochs (`ConsumerGroup.state`).
    Source: ConsumerGroup.ConsumerGroupState of Apache Kafka 4.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """There is a newer epoch than the one that the work was divided for."""
    RECONCILING = "Reconciling"
    """Some members have not come to their targets."""
    STABLE = "Stable"
    DEAD = "Dead"


class MemberState(IntEnum):
    """The state of a member; the numbers are those of Kafka's `MemberState` in its records.

    Kafka has a fourth, UNKNOWN, for what a newer broker has written. Nothing here can write such a state.
    """

    STABLE = 0
    """The member has all that its epoch grants, and nothing else."""
    UNREVOKED_PARTITIONS = 1
    """The member stays at its epoch until it reports that it has given up the partitions that it loses."""
    UNRELEASED_PARTITIONS = 2
    """The member is at the epoch of the target, and waits for partitions that others still have."""
