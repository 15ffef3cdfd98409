"""The table of the APIs of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.gateway.group_apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.gateway.group_apis.group_api import GroupApi

GROUP_APIS: dict[int, GroupApi] = {
    api.key: api
    for api in (
        consumer_group_describe.API,
        consumer_group_heartbeat.API,
        delete_groups.API,
        describe_groups.API,
        find_coordinator.API,
        heartbeat.API,
        join_group.API,
        leave_group.API,
        list_groups.API,
        offset_commit.API,
        offset_delete.API,
        offset_fetch.API,
        sync_group.API,
    )
}
"""By Kafka's number."""

_BY_CONTRACT = {api.contract: api for api in GROUP_APIS.values()}


def api_of(asked: AnyRequest) -> GroupApi:
    """The API of a request of the contract's."""
    return _BY_CONTRACT[type(asked)]
