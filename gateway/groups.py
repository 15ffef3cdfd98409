"""An index of `coordinator.groups`, for ListGroups.

Kafka's tools ask every broker and put the answers together; some add them up. So each node lists its share:
the groups whose coordinator it is said to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.admin.groups import ListGroupsResponse

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.unseen import Unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Groups", "ListedGroup"]

_KIND = "classic"


class ListedGroup(NamedTuple):
    """A group, as far as a list tells of it."""

    state: str
    protocol_type: str


class Groups:
    """The groups by id. It is ready once it has read what there was when the gateway started.

    `prefix`: groups without it are other people's, and it is not shown.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._groups: dict[str, ListedGroup] = {}
        self.unseen = Unseen()
        """Pictures that clients were told of and that are not in here yet."""
        self.is_ready = False

    def put(self, group_id: str, group: ListedGroup | None) -> None:
        """Take a newer picture of a group; None: it has been deleted."""
        if not group_id.startswith(self._prefix):
            return
        if group is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = group

    def listed(self, message: Any, is_ours: Callable[[str], bool]) -> Any:
        """The response to a ListGroups, with the groups that `is_ours` says yes to."""
        entry = ListGroupsResponse.ListedGroup
        version = message.version
        if not self.is_ready:
            error = Errors.COORDINATOR_LOAD_IN_PROGRESS
            return ListGroupsResponse(version=version, throttle_time_ms=0, error_code=error.value, groups=[])
        groups = [
            entry(
                version=version,
                group_id=group_id.removeprefix(self._prefix),
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=_KIND,
            )
            for group_id, group in self._matching(message)
            if is_ours(group_id)
        ]
        return ListGroupsResponse(version=version, throttle_time_ms=0, error_code=0, groups=groups)

    def _matching(self, message: Any) -> Iterator[tuple[str, ListedGroup]]:
        states = {state.lower() for state in message.states_filter or ()}
        kinds = {kind.lower() for kind in message.types_filter or ()}
        if kinds and _KIND not in kinds:
            return
        for group_id, group in self._groups.items():
            if not states or group.state.lower() in states:
                yield group_id, group
