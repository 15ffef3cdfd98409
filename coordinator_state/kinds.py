"""The kinds of groups: the one place that lists them.

A group's stored state is tagged with its kind. Everything that differs between kinds is asked of the group
itself (`group.py`), or stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from group_coordinator.coordinator_state.classic.expiry import expire
from group_coordinator.coordinator_state.classic.group import ClassicGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.coordinator_state.deadlines import Deadline
    from group_coordinator.coordinator_state.turn import Turn

__all__ = ["KINDS", "AnyGroup", "Kind"]

# A union as soon as there is a second kind: then mypy names every place that has to tell them apart.
AnyGroup: TypeAlias = ClassicGroup


class Kind(NamedTuple):
    """A kind of groups: its form in the state, and its rule for deadlines that pass."""

    group: type[AnyGroup]
    expire: Callable[[Turn[ClassicGroup], Deadline], None]


KINDS = {ClassicGroup.KIND: Kind(ClassicGroup, expire)}
