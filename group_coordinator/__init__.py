"""Membership in groups that the streaming coordinator looks after.

from group_coordinator import GroupConsumer

with GroupConsumer("orders", group_id="billing", bootstrap_servers="localhost:9092") as consumer:
    for record in consumer:
        print(record.value)

`GroupMember` is the same without the records, for sharing any kind of work.
"""

from __future__ import annotations

from group_coordinator.client import (
    CommitFailedError,
    FencedInstanceIdError,
    GroupConsumer,
    GroupMember,
    MalformedMetadataError,
    MembershipError,
    MemberState,
    MissingTopicError,
    RebalanceInProgressError,
    RebalanceListener,
)

__all__ = [
    "CommitFailedError",
    "FencedInstanceIdError",
    "GroupConsumer",
    "GroupMember",
    "MalformedMetadataError",
    "MemberState",
    "MembershipError",
    "MissingTopicError",
    "RebalanceInProgressError",
    "RebalanceListener",
]
