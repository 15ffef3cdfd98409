"""LeaveGroup: members leave, one in each request up to version 2."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer.group import LeaveGroupRequest, LeaveGroupResponse

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state import responses as answers
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import About, GroupApi, Pair, alike, like

_BATCH_VERSION = 3


def _requests(message: Any, version: int, about: About) -> list[contract.AnyRequest]:
    if version < _BATCH_VERSION:
        members = [contract.LeavingMember(member_id=message.member_id)]
    else:
        members = [like(each, contract.LeavingMember) for each in message.members]
    return [contract.LeaveGroupRequest(members=members, **about(message.group_id))]


def _refused(asked: contract.LeaveGroupRequest, error: Errors) -> Any:
    response: Any = asked.refused(error, None)
    if error is Errors.NONE:
        response.members = [like(each, answers.MemberResult) for each in asked.members]
    return response


API = GroupApi(
    LeaveGroupRequest,
    LeaveGroupResponse,
    contract.LeaveGroupRequest,
    guarding.member,
    Pair(_requests, alike(LeaveGroupResponse)),
    results=("members",),
    refused=_refused,
    wait_s=lambda *_: 5,
    # It stands in the log, and will be done.
    late=Errors.NONE,
)
