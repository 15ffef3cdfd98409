"""The rights of one client at the brokers, asked for in its own name.

The broker knows who the client is, because the client has logged in on its own connection to the broker. So
the gateway asks there, by requests that change nothing. A broker asks its authorizer before anything else
(KafkaApis). So an error of authorization is a denial. Only an answer that comes from behind the authorizer is
a grant:

    READ of a group           Heartbeat, of no member
    DESCRIBE of groups        DescribeGroups
    DELETE of a group         OffsetDelete, of no topics. Never DeleteGroups: the broker may have such a group
    READ, DESCRIBE of topics  Metadata, which tells the operations
    DESCRIBE of the cluster   DescribeCluster, which tells the operations

A grant is remembered for a minute and a denial for five seconds. Any other answer is a refusal that is not
remembered, because a broker whose authorizer fails answers UNKNOWN_SERVER_ERROR. A right that cannot be asked
for is denied.
Time is an argument, in seconds of a clock that does not go back.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, IntEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, OffsetDeleteRequest
from kafka.protocol.metadata import MetadataRequest

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.wire import LONGEST_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")
_GRANTED_S = 60.0
_DENIED_S = 5.0
_MOST_REMEMBERED = 100
"""Rights that one connection remembers. A consumer needs one or two, and one for each of its topics."""
_MOST_ASKED = 10
"""Requests for one client's rights that are under way at the same time."""
_MOST_NAMES = 200
"""Names in one of them. The answers that come together are read at once."""


class Operation(IntEnum):
    """An operation, with Kafka's code."""

    READ = 3
    DELETE = 6
    DESCRIBE = 8


class Resource(Enum):
    """A kind of thing that rights are about."""

    GROUP = "group"
    TOPIC = "topic"
    CLUSTER = "cluster"


_ON_TOPICS = (Operation.READ, Operation.DESCRIBE)
"""The operations that Metadata is asked about."""


class Right(NamedTuple):
    """An operation on something."""

    operation: Operation
    resource: Resource
    name: str


CLUSTER = Right(Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")
"""With it a client may see all groups."""


# Codes of Kafka's errors that the coordinator itself never answers with.
_LEADER_NOT_AVAILABLE, _NOT_COORDINATOR, _INVALID_TOPIC, _LISTENER_NOT_FOUND = 5, 16, 17, 72

_OF_COORDINATOR = frozenset(
    {
        Errors.NONE,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.COORDINATOR_NOT_AVAILABLE,
        _NOT_COORDINATOR,
        Errors.INVALID_GROUP_ID,
        Errors.GROUP_ID_NOT_FOUND,
    }
)
"""Errors of a broker's own coordinator, which KafkaApis asks after the authorizer."""
_OF_MEMBERS = _OF_COORDINATOR | {
    Errors.ILLEGAL_GENERATION,
    Errors.UNKNOWN_MEMBER_ID,
    Errors.REBALANCE_IN_PROGRESS,
}
"""Those of Heartbeat."""
_OF_OFFSETS = _OF_COORDINATOR | {Errors.NON_EMPTY_GROUP}
"""Those of OffsetDelete."""
_OF_TOPICS = frozenset(
    {
        Errors.NONE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        _LEADER_NOT_AVAILABLE,
        _INVALID_TOPIC,
        _LISTENER_NOT_FOUND,
    }
)
"""Errors of a topic beside which Metadata tells the operations all the same."""


class _Probe(NamedTuple):
    """A request, the rights that it asks for, and what its response tells of rights; None: nothing."""

    message: Any
    asked: list[Right]
    told: Callable[[Any], dict[Right, bool | None]]


class _Remembered(NamedTuple):
    is_granted: bool
    until_s: float


class Rights:
    """The rights of one client.

    `send` asks its broker: it takes a request and who is given the response, and the time then. `count` is
    told of each answer, whether it is a grant.
    """

    __slots__ = ("_count", "_known", "_send")

    def __init__(
        self,
        send: Callable[[Any, Callable[[Any, float], None]], None],
        count: Callable[[bool], Any],
    ) -> None:
        self._send, self._count = send, count
        self._known: dict[Right, _Remembered] = {}
        """The oldest first."""

    def ask(self, needed: Iterable[Right], now_s: float, then: Callable[[frozenset[Right]], None]) -> None:
        """Find out which of these rights the client has; `then` gets them, now or later."""
        verdicts = {each: self._remembered(each, now_s) for each in needed}
        granted = {each for each, is_granted in verdicts.items() if is_granted}
        unknown = [
            each
            for each, is_granted in verdicts.items()
            if is_granted is None and len(each.name.encode()) <= LONGEST_TEXT
        ]
        left, under_way = deque(_probes(unknown)), 0

        def proceed() -> None:
            nonlocal under_way
            while left and under_way < _MOST_ASKED:
                probe = left.popleft()
                under_way += 1
                self._send(probe.message, partial(read, probe))
            if not under_way:
                then(frozenset(granted))

        def read(probe: _Probe, response: Any, now_s: float) -> None:
            nonlocal under_way
            under_way -= 1
            # Metadata of a topic tells of all that may be done to it, and not only of what was asked.
            granted.update(each for each in self._learn(probe, response, now_s) if each in verdicts)
            proceed()

        proceed()

    def is_granted(self, right: Right, now_s: float) -> bool:
        """Whether the client has the right, as far as is remembered."""
        return self._remembered(right, now_s) is True

    def _remembered(self, right: Right, now_s: float) -> bool | None:
        known = self._known.get(right)
        return None if known is None or now_s >= known.until_s else known.is_granted

    def _learn(self, probe: _Probe, response: Any, now_s: float) -> Iterator[Right]:
        """Remember what a response tells; the rights that it grants."""
        told = probe.told(response)
        for right in probe.asked:
            is_granted = told.get(right)
            self._count(is_granted is True)
            if is_granted is not None:
                self._remember(right, now_s, is_granted=is_granted)
            if is_granted:
                yield right

    def _remember(self, right: Right, now_s: float, *, is_granted: bool) -> None:
        self._known.pop(right, None)
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[right] = _Remembered(is_granted, now_s + (_GRANTED_S if is_granted else _DENIED_S))


# -- requests that ask ---------------------------------------------------------------------------------


def _probes(rights: Iterable[Right]) -> Iterator[_Probe]:
    """The requests that ask for these rights, as few as there can be."""
    described, topics = [], []
    for right in rights:
        match right:
            case Right(Operation.READ, Resource.GROUP, group_id):
                message = HeartbeatRequest(version=0, group_id=group_id, generation_id=-1, member_id="")
                yield _Probe(message, [right], _one(right, _OF_MEMBERS))
            case Right(Operation.DELETE, Resource.GROUP, group_id):
                message = OffsetDeleteRequest(version=0, group_id=group_id, topics=[])
                yield _Probe(message, [right], _one(right, _OF_OFFSETS))
            case Right(Operation.DESCRIBE, Resource.GROUP):
                described.append(right)
            case Right(Operation.DESCRIBE, Resource.CLUSTER):
                message = DescribeClusterRequest(version=0, include_cluster_authorized_operations=True)
                yield _Probe(message, [CLUSTER], _of_cluster)
            case Right(_, Resource.TOPIC, topic):
                topics.append(topic)
            case _:
                raise AssertionError(right)
    for groups in _batches(described):
        message = DescribeGroupsRequest(version=0, groups=[each.name for each in groups])
        yield _Probe(message, groups, _of_groups)
    for names in _batches(dict.fromkeys(topics)):
        message = MetadataRequest(
            version=8,
            topics=[MetadataRequest.MetadataRequestTopic(version=8, name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
        asked = [Right(operation, Resource.TOPIC, name) for name in names for operation in _ON_TOPICS]
        yield _Probe(message, asked, _of_topics)


def _batches(named: Iterable[_T]) -> Iterator[list[_T]]:
    left = iter(named)
    while batch := list(islice(left, _MOST_NAMES)):
        yield batch


# -- what their responses tell -------------------------------------------------------------------------


def _verdict(error_code: int, passed: frozenset[int]) -> bool | None:
    """Whether a right is granted. `passed`: the errors that only who has the right is told."""
    if error_code == Errors.GROUP_AUTHORIZATION_FAILED:
        return False
    return True if error_code in passed else None


def _one(right: Right, passed: frozenset[int]) -> Callable[[Any], dict[Right, bool | None]]:
    return lambda response: {right: _verdict(response.error_code, passed)}


def _of_groups(response: Any) -> dict[Right, bool | None]:
    return {
        Right(Operation.DESCRIBE, Resource.GROUP, each.group_id): _verdict(each.error_code, _OF_COORDINATOR)
        for each in response.groups
    }


def _of_topics(response: Any) -> dict[Right, bool | None]:
    return {
        Right(operation, Resource.TOPIC, each.name): _among(operation, each)
        for each in response.topics
        for operation in _ON_TOPICS
    }


def _among(operation: Operation, topic: Any) -> bool | None:
    """Whether the operation is among those that a topic's metadata tells."""
    if topic.error_code == Errors.TOPIC_AUTHORIZATION_FAILED:
        return False
    # A topic that is not there has its rights all the same.
    if topic.error_code not in _OF_TOPICS or topic.authorized_operations is None:
        return None
    return operation in topic.authorized_operations


def _of_cluster(response: Any) -> dict[Right, bool | None]:
    operations = response.authorized_operations
    if response.error_code != Errors.NONE or operations is None:
        return {}
    return {CLUSTER: CLUSTER.operation in operations}
