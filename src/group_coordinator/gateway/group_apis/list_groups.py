"""ListGroups: the gateway itself lists a node's groups, from `coordinator.groups`."""

from __future__ import annotations

from kafka.protocol.admin.groups import ListGroupsRequest, ListGroupsResponse

from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.group_apis import guarding
from group_coordinator.gateway.group_apis.group_api import GroupApi
from group_coordinator.gateway.rights import CLUSTER, Operation


def _guard(request: Request) -> guarding.Guard:
    is_all = CLUSTER in (yield [CLUSTER])
    response = yield guarding.Ask(request, is_last=is_all)
    if is_all:
        return response
    names, allowed = response.names, set()
    for start in range(0, len(names), guarding.AT_ONCE):
        some = names[start : start + guarding.AT_ONCE]
        allowed |= yield from guarding.allowed_groups(Operation.DESCRIBE, some)
    return response.only(allowed)


API = GroupApi(ListGroupsRequest, ListGroupsResponse, None, _guard, own_newest=5, throttle_since=1)
