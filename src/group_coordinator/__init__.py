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
    from group_coordinator.client import (
        AdminClient,
        CommitFailedError,
        Coordinator,
        EventReader,
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
        TokenError,
        TokenProvider,
        TokenRefusedError,
        UnreleasedInstanceIdError,
    )

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


def __getattr__(name: str) -> Any:
    """Import the client when it is first asked for: Spark's Python workers do without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("group_coordinator.client"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
