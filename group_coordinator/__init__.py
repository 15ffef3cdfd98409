"""Membership in groups that the streaming coordinator looks after.

from group_coordinator import GroupMember

with GroupMember(group_id="orders", bootstrap_servers="localhost:9092") as member:
    member.subscribe(topics=["orders"])
    while True:
        partitions = member.poll(timeout_ms=500)
"""

from __future__ import annotations

from group_coordinator.client import (
    GroupMember,
    MalformedMetadataError,
    MembershipError,
    MemberState,
    MissingTopicError,
    RebalanceListener,
)

__all__ = [
    "GroupMember",
    "MalformedMetadataError",
    "MemberState",
    "MembershipError",
    "MissingTopicError",
    "RebalanceListener",
]
