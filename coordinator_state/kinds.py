"""The kinds of groups: the one place that lists them.

A group's stored state is tagged with its kind. Everything that differs between kinds is asked of the group
itself (`group.py`), or stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from group_coordinator.coordinator_state.classic import expiry
from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.consumer import leaving
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.coordinator_state.deadlines import Deadline
    from group_coordinator.coordinator_state.turn import Turn

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup


class Kind(NamedTuple):
    """A kind of groups: its form in the state, and its rule for deadlines that pass."""

    group: type[AnyGroup]
    expire: Callable[[Turn[Any], Deadline], None]


KINDS = {
    ClassicGroup.KIND: Kind(ClassicGroup, expiry.expire),
    ConsumerGroup.KIND: Kind(ConsumerGroup, leaving.expire),
}
