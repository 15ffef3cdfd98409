"""What the two sides say, held side by side.

Each side makes up its own member ids: `Ids` pairs them as they are told, one to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Difference(Exception):  # noqa: N818 - it is what is looked for, and no failure of the harness
    """The broker did something that the core does not do, or the other way round.

    `kind` is the same for differences that look the same.
    """

    def __init__(self, kind: str, theirs: object, ours: object) -> None:
        super().__init__(f"{kind}: the broker: {theirs}; the core: {ours}")
        self.kind, self.theirs, self.ours = kind, str(theirs), str(ours)


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
        request = dict(request)
        if "member_id" in request:
            request["member_id"] = self._brokers.get(request["member_id"], request["member_id"])
        for name in ("members", "assignments"):
            if name in request:
                request[name] = [
                    each | {"member_id": self._brokers.get(each["member_id"], each["member_id"])}
                    for each in request[name]
                ]
        return request

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
                    is_same = self._theirs(ours[name]) == value
                case "members":
                    is_same = _in_any_order(self._theirs(ours[name])) == _in_any_order(value)
                case "topics" if ours["api"] == "offset_fetch":
                    is_same = sorted(_partitions(ours[name])) == sorted(_partitions(value))
                case _:
                    is_same = ours[name] == value
            if not is_same:
                kind = f"{ours['api']}, {name}"
                theirs_told = f"{ours['request_id']}: {self.named(_short(name, value))}"
                yield Difference(kind, theirs_told, self.named(_short(name, ours[name])))

    def _theirs(self, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            each | {"member_id": self._brokers.get(each["member_id"], each["member_id"])} for each in members
        ]


def _in_any_order(members: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(member.items())) for member in members)


def _partitions(topics: list[dict[str, Any]]) -> list[str]:
    """Each partition of a request or an answer, in short: orders-0: 100 'metadata'."""
    found = []
    for topic in topics:
        for each in topic.get("partitions", topic.get("partition_indexes")):
            # A fetch has nothing but numbers.
            partition = {"partition_index": each} if isinstance(each, int) else each
            said = " ".join(str(it) for name, it in partition.items() if name != "partition_index")
            found.append(f"{topic['name']}-{partition['partition_index']}" + (f": {said}" if said else ""))
    return found


def _short(name: str, value: Any) -> str:
    return f"[{', '.join(_partitions(value))}]" if name == "topics" and value is not None else repr(value)


_DULL = {"api_version", "request_id", "client_id", "group_id", "error", "error_message"}


def brief(message: dict[str, Any]) -> str:
    """What matters of a request or an answer, on one line."""
    api = (
        f"{message['api']} v{message['api_version']} ({message['request_id']})"
        if "api_version" in message
        else ""
    )
    fields = ", ".join(
        f"{name}={_short(name, value)}"
        for name, value in message.items()
        if name not in _DULL | {"api"} and value is not None
    )
    return f"{api} {fields}"
