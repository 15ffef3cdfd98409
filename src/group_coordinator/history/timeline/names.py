"""The names of a group's members, as people know them."""

from __future__ import annotations

from collections.abc import Iterable

from group_coordinator.history.story import Story
from group_coordinator.history.timeline.text import clean, short_id


class Names:
    """The names of the members in a story."""

    def __init__(self, story: Story) -> None:
        self._names: dict[str, tuple[str, str | None]] = {
            each.member_id: (each.client_id, each.group_instance_id) for each in story.joins
        }
        for each in story.memberships:
            # A membership that is older than the history has its names from elsewhere.
            client_id, instance_id = self._names.get(each.member_id, ("", None))
            self._names[each.member_id] = (each.client_id or client_id, each.group_instance_id or instance_id)

    @property
    def ids(self) -> Iterable[str]:
        """The ids of all members."""
        return self._names.keys()

    def client_id(self, member_id: str) -> str:
        """It is "" if that is not known."""
        return self._names.get(member_id, ("", None))[0]

    def instance_id(self, member_id: str) -> str | None:
        """The instance id of a static member."""
        return self._names.get(member_id, ("", None))[1]

    def name(self, member_id: str) -> str:
        """Return the name that people know it by."""
        return clean(self.client_id(member_id) or self.instance_id(member_id) or short_id(member_id))
