"""Which member id of the core's is which of the broker's.

Each side makes up its own: they are paired as they are told, one to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.compare import Difference, partitions_in_short, renamed, short

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Ids"]


class Ids:
    """Which member id of the core's is which of the broker's."""

    def __init__(self, known: dict[str, str] | None = None) -> None:
        self._brokers: dict[str, str] = {} if known is None else known

    def copy(self) -> Ids:
        """The same pairs, to which others can be added without harm."""
        return Ids(dict(self._brokers))

    def named(self, text: str) -> str:
        """Replace ids by short names."""
        for number, (ours, theirs) in enumerate(self._brokers.items()):
            text = text.replace(ours, f"<{number}>").replace(theirs, f"<{number}>")
        return text

    def to_broker(self, request: dict[str, Any]) -> dict[str, Any]:
        """The request with the broker's ids in place of the core's."""
        told: dict[str, Any] = renamed(request, self._brokers)
        return told

    def pair(self, ours: str, theirs: str) -> bool:
        """Whether the two may be the same; then they are from now on."""
        if ours in self._brokers:
            return self._brokers[ours] == theirs
        if not ours or not theirs or theirs in self._brokers.values():
            return ours == theirs
        if ours == theirs:  # an id that no coordinator has made up
            return True
        self._brokers[ours] = theirs
        return True

    def pair_descriptions(self, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
        """Compare two descriptions.

        Static members are told apart by their instance ids, the others by the request that has made them,
        after which their clients are named.
        """
        for name in ("error_code", "group_state", "protocol_type", "protocol_data", "offsets"):
            if ours.get(name) != theirs.get(name):
                yield Difference(f"description, {name}", repr(theirs[name]), repr(ours[name]))
        members = {member["group_instance_id"] or member["client_id"]: member for member in theirs["members"]}
        own = {member["group_instance_id"] or member["client_id"]: member for member in ours["members"]}
        if members.keys() != own.keys() or len(members) != len(theirs["members"]):
            yield Difference("description, members", sorted(members), sorted(own))
            return
        for who, member in own.items():
            other = members[who]
            for name in ("group_instance_id", "client_id", "member_metadata", "member_assignment"):
                if member[name] != other[name]:
                    yield Difference(f"description, {name}", f"{who}: {other[name]!r}", repr(member[name]))
            if not self.pair(member["member_id"], other["member_id"]):
                yield Difference("description, id", other["member_id"], member["member_id"])

    def pair_answers(self, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[Difference]:
        """Compare two answers to the same request."""
        if ours["api"] == "describe_group":
            yield from self.pair_descriptions(ours, theirs)
            return
        for name, value in theirs.items():
            match name:
                case "member_id" | "leader":
                    is_same = self.pair(ours[name], value)
                case "members" if ours["api"] == "leave_group":
                    is_same = renamed(ours[name], self._brokers) == value
                case "members":
                    is_same = _in_any_order(renamed(ours[name], self._brokers)) == _in_any_order(value)
                case "topics" if ours["api"] == "offset_fetch":
                    is_same = sorted(partitions_in_short(ours[name])) == sorted(partitions_in_short(value))
                case _:
                    is_same = ours[name] == value
            if not is_same:
                kind = f"{ours['api']}, {name}"
                theirs_told = f"{ours['request_id']}: {self.named(short(name, value))}"
                yield Difference(kind, theirs_told, self.named(short(name, ours[name])))


def _in_any_order(members: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(member.items())) for member in members)
