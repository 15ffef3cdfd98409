"""A difference between the two sides, and messages in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Difference", "brief", "mapped", "partitions_in_short", "renamed", "short"]


class Difference(Exception):  # noqa: N818 - it is what is looked for, and no failure of the harness
    """The broker did something that the core does not do, or the other way round.

    `kind` is the same for differences that look the same.
    """

    def __init__(self, kind: str, theirs: object, ours: object) -> None:
        super().__init__(f"{kind}: the broker: {theirs}; the core: {ours}")
        self.kind, self.theirs, self.ours = kind, str(theirs), str(ours)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with each text, number and so on in it changed."""
    match value:
        case dict():
            return {name: mapped(each, change) for name, each in value.items()}
        case list():
            return [mapped(each, change) for each in value]
    return change(value)


def renamed(message: Any, ids: Mapping[str, str]) -> Any:
    """A request or an answer in which members have other ids."""
    return mapped(message, lambda it: ids.get(it, it) if isinstance(it, str) else it)


def partitions_in_short(topics: list[dict[str, Any]]) -> list[str]:
    """Each partition of a request or an answer: orders-0: 100 'metadata'."""
    found = []
    for topic in topics:
        for each in topic.get("partitions", topic.get("partition_indexes")):
            # A fetch has nothing but numbers.
            partition = {"partition_index": each} if isinstance(each, int) else each
            said = " ".join(str(it) for name, it in partition.items() if name != "partition_index")
            found.append(f"{topic['name']}-{partition['partition_index']}" + (f": {said}" if said else ""))
    return found


def short(name: str, value: Any) -> str:
    """A field's value as people read it."""
    # A hint in a heartbeat tells the number of partitions, and the topic's id.
    is_of_partitions = name == "topics" and value is not None and not any("topic_id" in it for it in value)
    return f"[{', '.join(partitions_in_short(value))}]" if is_of_partitions else repr(value)


_DULL = {"api", "api_version", "request_id", "client_id", "client_host", "group_id", "error", "error_message"}


def brief(message: dict[str, Any]) -> str:
    """What matters of a request or an answer, on one line."""
    api = (
        f"{message['api']} v{message['api_version']} ({message['request_id']})"
        if "api_version" in message
        else ""
    )
    fields = ", ".join(
        f"{name}={short(name, value)}"
        for name, value in message.items()
        if name not in _DULL and value is not None
    )
    return f"{api} {fields}"
