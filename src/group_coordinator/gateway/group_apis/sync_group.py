"""SyncGroup: the leader gives the assignments, and each member gets its own."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import SyncGroupRequest, SyncGroupResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, alike, like

_LEAST_S = 8.0
"""A sync waits this long at least: the stream needs a batch for its answer."""


def _requests(message: Any, _version: int, about: About) -> list[contract.AnyRequest]:
    assignments = [like(each, contract.MemberAssignment) for each in message.assignments]
    about_it = about(message.group_id)
    return [like(message, contract.SyncGroupRequest, assignments=assignments, **about_it)]


def _guard(request: Request) -> guarding.Guard:
    message = request.message
    named = (message.protocol_type, message.protocol_name)
    if request.head.api_version >= contract.SyncGroupRequest.PROTOCOL_VERSION and None in named:
        # Whichever rights the client has.
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    return (yield from guarding.member(request))


def _wait_s(_sync: contract.SyncGroupRequest, rebalance_timeout_s: float | None) -> float:
    return 60 if rebalance_timeout_s is None else max(rebalance_timeout_s, _LEAST_S)


API = GroupApi(
    SyncGroupRequest,
    SyncGroupResponse,
    contract.SyncGroupRequest,
    _guard,
    Pair(_requests, alike(SyncGroupResponse)),
    unread_list="assignments",
    # As Kafka does when a record is too large.
    too_large=Errors.UNKNOWN_SERVER_ERROR,
    wait_s=_wait_s,
    # Never 14: Java's client throws it into the user's poll.
    late=Errors.REBALANCE_IN_PROGRESS,
)
