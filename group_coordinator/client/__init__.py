"""The member's side of the group protocol.

`membership.py` is the protocol (sans-IO), `work.py` what is shared, `channel.py` the way to the
coordinator and back, and `member.py` the three together: the class that programs use.
"""

from __future__ import annotations

from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.errors import MembershipError
from group_coordinator.client.member import GroupMember, RebalanceListener
from group_coordinator.client.states import MemberState
from group_coordinator.client.work import MalformedMetadataError

__all__ = [
    "GroupMember",
    "MalformedMetadataError",
    "MemberState",
    "MembershipError",
    "MissingTopicError",
    "RebalanceListener",
]
