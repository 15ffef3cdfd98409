"""Membership in groups that the streaming coordinator looks after.

from group_coordinator import GroupConsumer

with GroupConsumer("orders", group_id="billing", bootstrap_servers="localhost:9092") as consumer:
    for record in consumer:
        print(record.value)

`GroupMember` is the same without the records, for sharing any kind of work; `AdminClient` is for those who
look after groups.
"""

from __future__ import annotations

from group_coordinator.client import (
    AdminClient,
    CommitFailedError,
    Coordinator,
    FencedInstanceIdError,
    GroupConsumer,
    GroupDescription,
    GroupListing,
    GroupMember,
    MalformedMetadataError,
    MemberDescription,
    MembershipError,
    MemberState,
    MissingTopicError,
    NoAnswerError,
    RebalanceInProgressError,
    RebalanceListener,
    SharedConnection,
)

__all__ = [
    "AdminClient",
    "CommitFailedError",
    "Coordinator",
    "FencedInstanceIdError",
    "GroupConsumer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "MalformedMetadataError",
    "MemberDescription",
    "MemberState",
    "MembershipError",
    "MissingTopicError",
    "NoAnswerError",
    "RebalanceInProgressError",
    "RebalanceListener",
    "SharedConnection",
]
