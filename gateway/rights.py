"""The rights of one client at the brokers, asked for in its own name.

The broker knows who the client is, because the client has logged in on its own connection to the broker. So
the gateway asks there, by requests that change nothing. A broker asks its authorizer before anything else
(KafkaApis). So an error of authorization is a denial, and any other answer a grant:

    READ of a group           Heartbeat, of no member
    DESCRIBE of groups        DescribeGroups
    DELETE of a group         OffsetDelete, of no topics. Never DeleteGroups: the broker may have such a group
    READ, DESCRIBE of topics  Metadata, which tells the operations
    DESCRIBE of the cluster   DescribeCluster, which tells the operations

A grant is remembered for a minute and a denial for five seconds. A right that cannot be asked for is denied.
Time is an argument, in seconds of a clock that does not go back.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, IntEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import HeartbeatRequest, OffsetDeleteRequest
from kafka.protocol.metadata import MetadataRequest

from group_coordinator.coordinator_state.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["CLUSTER", "Operation", "Resource", "Right", "Rights"]

_GRANTED_S = 60.0
_DENIED_S = 5.0
_MOST_REMEMBERED = 100
"""Rights that one connection remembers. A consumer needs one or two, and one for each of its topics."""
_MOST_ASKED = 100
"""Requests for one client's rights that are under way at the same time."""
_MOST_NAMES = 1_000
"""Names in one of them."""
_LONGEST_NAME = 2**15 - 1
"""Bytes of a name that these requests can take."""


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


class Right(NamedTuple):
    """An operation on something."""

    operation: Operation
    resource: Resource
    name: str


CLUSTER = Right(Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")
"""With it a client may see all groups."""


class _Probe(NamedTuple):
    """A request, and what its response tells of rights."""

    message: Any
    told: Callable[[Any], dict[Right, bool]]


class _Known(NamedTuple):
    is_granted: bool
    until_s: float


class _Asking:
    """Somebody who asks for some rights."""

    def __init__(self, then: Callable[[frozenset[Right]], None]) -> None:
        self.then = then
        self.granted: set[Right] = set()
        self.left: deque[_Probe] = deque()
        self.under_way = 0

    def learn(self, right: Right, *, is_granted: bool) -> None:
        if is_granted:
            self.granted.add(right)


class Rights:
    """The rights of one client.

    `send` asks its broker: it takes a request and who is given the response, and the time then. `count` is
    told of each answer, whether it is a grant.
    """

    def __init__(
        self,
        send: Callable[[Any, Callable[[Any, float], None]], None],
        count: Callable[[bool], Any],
    ) -> None:
        self._send, self._count = send, count
        self._known: dict[Right, _Known] = {}
        """The oldest first."""

    def ask(self, needed: Iterable[Right], now_s: float, then: Callable[[frozenset[Right]], None]) -> None:
        """Find out which of these rights the client has; `then` gets them, now or later."""
        asking = _Asking(then)
        unknown = []
        for right in dict.fromkeys(needed):
            is_granted = self._remembered(right, now_s)
            if is_granted is not None:
                asking.learn(right, is_granted=is_granted)
            elif len(right.name.encode()) <= _LONGEST_NAME:
                unknown.append(right)
        asking.left.extend(_probes(unknown))
        self._proceed(asking)

    def is_granted(self, right: Right, now_s: float) -> bool:
        """Whether the client has the right, as far as is remembered."""
        return self._remembered(right, now_s) is True

    def _remembered(self, right: Right, now_s: float) -> bool | None:
        known = self._known.get(right)
        return None if known is None or now_s >= known.until_s else known.is_granted

    def _proceed(self, asking: _Asking) -> None:
        while asking.left and asking.under_way < _MOST_ASKED:
            probe = asking.left.popleft()
            asking.under_way += 1
            self._send(probe.message, partial(self._read, asking, probe))
        if not asking.under_way:
            asking.then(frozenset(asking.granted))

    def _read(self, asking: _Asking, probe: _Probe, response: Any, now_s: float) -> None:
        asking.under_way -= 1
        for right, is_granted in probe.told(response).items():
            self._count(is_granted)
            self._remember(right, now_s, is_granted=is_granted)
            asking.learn(right, is_granted=is_granted)
        self._proceed(asking)

    def _remember(self, right: Right, now_s: float, *, is_granted: bool) -> None:
        self._known.pop(right, None)
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[right] = _Known(is_granted, now_s + (_GRANTED_S if is_granted else _DENIED_S))


# -- requests that ask ---------------------------------------------------------------------------------


def _probes(rights: Iterable[Right]) -> Iterator[_Probe]:
    """The requests that ask for these rights, as few as there can be."""
    described, topics = [], []
    for right in rights:
        match right:
            case Right(Operation.READ, Resource.GROUP, group_id):
                message = HeartbeatRequest(version=0, group_id=group_id, generation_id=-1, member_id="")
                yield _Probe(message, _one(right))
            case Right(Operation.DELETE, Resource.GROUP, group_id):
                yield _Probe(OffsetDeleteRequest(version=0, group_id=group_id, topics=[]), _one(right))
            case Right(Operation.DESCRIBE, Resource.GROUP, group_id):
                described.append(group_id)
            case Right(Operation.DESCRIBE, Resource.CLUSTER):
                message = DescribeClusterRequest(version=0, include_cluster_authorized_operations=True)
                yield _Probe(message, _of_cluster)
            case Right(_, Resource.TOPIC, topic):
                topics.append(topic)
            case _:
                raise AssertionError(right)
    for names in _batches(described):
        yield _Probe(DescribeGroupsRequest(version=0, groups=names), _of_groups)
    for names in _batches(dict.fromkeys(topics)):
        message = MetadataRequest(
            version=8,
            topics=[MetadataRequest.MetadataRequestTopic(version=8, name=name) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
        yield _Probe(message, _of_topics)


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    left = iter(names)
    while batch := list(islice(left, _MOST_NAMES)):
        yield batch


def _one(right: Right) -> Callable[[Any], dict[Right, bool]]:
    return lambda response: {right: response.error_code != Errors.GROUP_AUTHORIZATION_FAILED}


def _of_groups(response: Any) -> dict[Right, bool]:
    return {
        Right(Operation.DESCRIBE, Resource.GROUP, each.group_id): (
            each.error_code != Errors.GROUP_AUTHORIZATION_FAILED
        )
        for each in response.groups
    }


def _of_topics(response: Any) -> dict[Right, bool]:
    # A topic that is not there has its rights all the same.
    return {
        Right(operation, Resource.TOPIC, each.name): operation in (each.authorized_operations or ())
        for each in response.topics
        for operation in (Operation.READ, Operation.DESCRIBE)
    }


def _of_cluster(response: Any) -> dict[Right, bool]:
    return {CLUSTER: CLUSTER.operation in (response.authorized_operations or ())}
