"""The words in which a guard speaks (`guards.py` says how), and what several guards have in common."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from copy import copy
from typing import Any, NamedTuple, TypeAlias

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import TopicFacts
from group_coordinator.gateway.frames import Request
from group_coordinator.gateway.rights import Operation, Resource, Right

AT_ONCE = 200
"""Groups of one request that are asked about at a time."""
GROUP_DENIED = Errors.GROUP_AUTHORIZATION_FAILED.value
TOPIC_DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.value
_ALL_OPERATIONS = frozenset({3, 6, 8, 10, 11})
"""The operations on a group where everybody may do everything: READ, DELETE, DESCRIBE and its configs."""
_TOPIC_BYTES = 80
"""As much as the record of a heartbeat has for a topic beside its name."""


class Ask(NamedTuple):
    """A request that may be answered. `is_last`: no rights are needed for its response."""

    request: Request
    is_last: bool = True


class AskBroker(NamedTuple):
    """A request that the client's broker is to answer, about groups that are there."""

    message: Any


class Match(NamedTuple):
    """A pattern of topics that is to be matched with all topics (`gateway/patterns.py`)."""

    pattern: str


class Resolution(NamedTuple):
    """The topics that the pattern of a request matches, as Kafka has them.

    `is_judged`: whether they are only those that the client may see.
    """

    topics: Sequence[TopicFacts]
    is_judged: bool

    @property
    def size(self) -> int:
        """About the bytes that they take in a record: each name twice, and an id."""
        return sum(_TOPIC_BYTES + 2 * len(each.name) for each in self.topics)


Guard: TypeAlias = Generator[Iterable[Right] | Ask | AskBroker | Match, Any, Any]


def allowed_groups(operation: Operation, group_ids: Iterable[str]) -> Guard:
    """Ask for a right on groups; returns the ids of those on which the client has it."""
    return _allowed(operation, Resource.GROUP, group_ids)


def allowed_topics(operation: Operation, topics: Iterable[str]) -> Guard:
    """Ask for a right on topics; returns the names of those on which the client has it."""
    return _allowed(operation, Resource.TOPIC, topics)


def _allowed(operation: Operation, resource: Resource, names: Iterable[str]) -> Guard:
    granted = yield [Right(operation, resource, each) for each in names]
    return {each.name for each in granted}


def denied(kind: Any, request: Request, group_ids: Iterable[str], allowed: set[str]) -> list[Any]:
    """The results, of this kind, for the groups on which the client has no right."""
    version = request.head.api_version
    return [
        kind(version=version, group_id=each, error_code=GROUP_DENIED)
        for each in group_ids
        if each not in allowed
    ]


def operations(message: Any, group_ids: Sequence[str]) -> Guard:
    """Ask for all rights on groups that may be described; returns the operations by group, if `message` does.

    Configs of a group cannot be asked for: who may do everything else may see and change them.
    """
    if not message.include_authorized_operations:
        return {}
    others = [each for each in Operation if each is not Operation.DESCRIBE]
    granted = yield [Right(operation, Resource.GROUP, each) for each in group_ids for operation in others]
    of_group = {each: {Operation.DESCRIBE.value} for each in group_ids}
    for each in granted:
        of_group[each.name].add(each.operation.value)
    return {
        group_id: _ALL_OPERATIONS if len(its) == len(Operation) else its for group_id, its in of_group.items()
    }


def operations_if_unguarded(message: Any, group: Any) -> frozenset[int] | None:
    """The operations on a group that is described where no rights are asked.

    None is Kafka's smallest int32, which says that nobody has asked. With an error it is the same.
    """
    return _ALL_OPERATIONS if message.include_authorized_operations and not group.error_code else None


def right_of_member(group_id: str, prefix: str = "") -> Right:
    """The right that a member of the group needs for what it asks."""
    return Right(Operation.READ, Resource.GROUP, prefix + group_id)


def member(request: Request) -> Guard:
    """Guard a request of a member."""
    needed = right_of_member(request.message.group_id)
    if needed not in (yield [needed]):
        return Errors.GROUP_AUTHORIZATION_FAILED
    return (yield Ask(request))


def with_fields(request: Request, **changed: Any) -> Request:
    """The request with other values of these fields of its message."""
    message = copy(request.message)
    for name, value in changed.items():
        setattr(message, name, value)
    return request._replace(message=message)
