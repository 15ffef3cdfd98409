"""The records of `coordinator.sides`, which say the side that each group is on, and the name of the guard."""

from __future__ import annotations

from typing import Literal

import msgspec

from group_coordinator.coordinator_state.foreign import Ms

GUARD_TYPE = "group-coordinator-guard"
"""The guard's protocol type, protocol and `group.instance.id`. It is a member of the brokers' group, and
keeps all others out while the group is at the coordinator (`client/brokers_guard.py`)."""

Side = Literal["coordinator", "brokers"]


class SideRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The newest word on the side of a group, by group id. A group without one is where the settings say.

    `side`: where the group is. While it moves (`moving_to`) this is where it comes from, and neither side
    serves it. `move_id` is random, and the same in all records of one move.
    """

    group_id: str
    side: Side
    at_ms: Ms
    client_id: str
    move_id: str
    moving_to: Side | None = None
    version: Literal[1] = 1


def other(side: Side) -> Side:
    """The side that this one is not."""
    return "brokers" if side == "coordinator" else "coordinator"
