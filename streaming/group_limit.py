"""The limit of groups (`max.groups`): with more of them no new ones are created, until there is some room."""

from __future__ import annotations

_ROOM = 0.1
"""The part that has to be free before groups are created again, or it would change all the time."""


class GroupLimit:
    """The limit, and whether groups are created.

    A decision must depend on time alone. So a change holds from the next outage on, which says so.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.is_closed: bool | None = None
        """Whether no groups are created; None: as the newest outage says."""

    def look(self, groups: int) -> str | None:
        """Take in how many groups there are. Returns what changes for new ones; None if nothing does."""
        is_closed = groups > (self._most * (1 - _ROOM) if self.is_closed else self._most)
        if is_closed is self.is_closed:
            return None
        self.is_closed = is_closed
        what = "no new ones are created" if is_closed else "new ones are created again"
        return f"there are {groups} groups, so {what}"
