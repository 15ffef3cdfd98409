"""Membership in groups that the streaming coordinator looks after.

from group_coordinator import GroupConsumer

with GroupConsumer("orders", group_id="billing", bootstrap_servers="localhost:9092") as consumer:
    for record in consumer:
        print(record.value)

`GroupMember` is the same without the records, for sharing any kind of work; `AdminClient` is for those who
look after groups. `HistoryReader` in `group_coordinator.history` asks what happened to them, and
`CommitOffsets` in `group_coordinator.spark` makes groups of streaming queries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from group_coordinator.client.admin import AdminClient, NoAnswerError
    from group_coordinator.client.channel import MissingTopicError
    from group_coordinator.client.consumer import GroupConsumer
    from group_coordinator.client.descriptions import Coordinator, GroupDescription, MemberDescription
    from group_coordinator.client.errors import (
        CommitFailedError,
        FencedInstanceIdError,
        MembershipError,
        RebalanceInProgressError,
        UnreleasedInstanceIdError,
    )
    from group_coordinator.client.events import EventReader
    from group_coordinator.client.groups_log import GroupListing
    from group_coordinator.client.listeners import RebalanceListener
    from group_coordinator.client.member import GroupMember
    from group_coordinator.client.shared import SharedConnection
    from group_coordinator.client.states import MemberState
    from group_coordinator.client.tokens import TokenError, TokenProvider, TokenRefusedError
    from group_coordinator.client.work import MalformedMetadataError

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

_HOMES = {
    "AdminClient": "admin",
    "CommitFailedError": "errors",
    "Coordinator": "descriptions",
    "EventReader": "events",
    "FencedInstanceIdError": "errors",
    "GroupConsumer": "consumer",
    "GroupDescription": "descriptions",
    "GroupListing": "groups_log",
    "GroupMember": "member",
    "MalformedMetadataError": "work",
    "MemberDescription": "descriptions",
    "MemberState": "states",
    "MembershipError": "errors",
    "MissingTopicError": "channel",
    "NoAnswerError": "admin",
    "RebalanceInProgressError": "errors",
    "RebalanceListener": "listeners",
    "SharedConnection": "shared",
    "TokenError": "tokens",
    "TokenProvider": "tokens",
    "TokenRefusedError": "tokens",
    "UnreleasedInstanceIdError": "errors",
}
"""The file of `client/` that has each name."""


def __getattr__(name: str) -> Any:
    """Import it when it is first asked for: Spark's Python workers do without the client."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.client.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
