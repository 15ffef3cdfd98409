"""The member's side of the group protocol.

`member.py` has the class that programs use. It puts the others together. `membership.py` is the protocol
(sans-IO), with `offsets.py` for commits and fetches. `consumer_membership.py` is the consumer protocol, with
`consumer_requests.py`; `group_protocol.py` chooses. `work.py` and `consumer_work.py` are what a group shares.
`channel.py` is the way to the coordinator and back, and `shared.py` is one for many members. `consumer.py`
adds the records of the partitions that a member owns, and `positions.py` where to go on in them. `admin.py`
looks at groups, and changes them, from outside. `events.py` reads what happens to them. `tokens.py` has the
tokens that a client logs in with by OAUTHBEARER.
"""

from __future__ import annotations

from group_coordinator.client.admin import (
    AdminClient,
    Coordinator,
    GroupDescription,
    GroupListing,
    MemberDescription,
    NoAnswerError,
)
from group_coordinator.client.channel import MissingTopicError
from group_coordinator.client.consumer import GroupConsumer
from group_coordinator.client.errors import (
    CommitFailedError,
    FencedInstanceIdError,
    MembershipError,
    RebalanceInProgressError,
    UnreleasedInstanceIdError,
)
from group_coordinator.client.events import EventReader
from group_coordinator.client.kafka_python import repair
from group_coordinator.client.listeners import RebalanceListener
from group_coordinator.client.member import GroupMember
from group_coordinator.client.shared import SharedConnection
from group_coordinator.client.states import MemberState
from group_coordinator.client.tokens import TokenError, TokenProvider, TokenRefusedError
from group_coordinator.client.work import MalformedMetadataError

repair()

__all__ = [
    "AdminClient",
    "CommitFailedError",
    "Coordinator",
    "EventReader",
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
    "TokenError",
    "TokenProvider",
    "TokenRefusedError",
    "UnreleasedInstanceIdError",
]
