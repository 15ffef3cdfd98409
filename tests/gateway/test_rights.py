"""Rights of a client: what asks for them, what an answer says, and how long it is believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin.cluster import DescribeClusterResponse
from kafka.protocol.admin.groups import DescribeGroupsResponse
from kafka.protocol.consumer.group import HeartbeatResponse, OffsetDeleteResponse
from kafka.protocol.metadata import MetadataResponse

from group_coordinator.gateway import codec
from group_coordinator.gateway.rights import CLUSTER, Operation, Resource, Right, Rights

READ, DELETE, DESCRIBE = Operation
GROUP, TOPIC, _ = Resource
DENIED, UNKNOWN = 30, 25


class Broker:
    """A broker that grants some rights, and answers when it is told to."""

    def __init__(self, *granted: Right) -> None:
        self.granted = set(granted)
        self.waiting: list[tuple[Any, Callable[[Any, float], None]]] = []
        self.counted: list[bool] = []
        self.code: int | None = None
        """The error of each answer; None: the one that shows whether the right is there."""
        self.renamed = False
        """Whether answers are about others than were asked for."""
        self.rights = Rights(lambda *asked: self.waiting.append(asked), self.counted.append)

    def ask(self, *needed: Right, at_s: float = 0) -> list[frozenset[Right]]:
        """The list into which the answer will be put."""
        told: list[frozenset[Right]] = []
        self.rights.ask(needed, at_s, told.append)
        return told

    def answer(self, at_s: float = 0) -> int:
        """Answer until nothing more is asked; returns the most that was asked at once."""
        most = 0
        while self.waiting:
            most = max(most, len(self.waiting))
            waiting, self.waiting = self.waiting, []
            for request, read in waiting:
                # What is not on the wire cannot be seen by either side.
                frame = codec.encode_request(request, 1, "c")
                asked = codec.decode_request(frame).message
                response = codec.encode_response(self.response(asked), 1)
                read(codec.decode_response(asked.API_KEY, asked.version, response), at_s)
        return most

    def response(self, asked: Any) -> Any:
        def error(right: Right) -> int:
            if self.code is not None:
                return self.code
            known = 0 if asked.API_KEY == DescribeGroupsResponse.API_KEY else UNKNOWN
            known = 69 if asked.API_KEY == OffsetDeleteResponse.API_KEY else known
            return known if right in self.granted else DENIED

        named = "other {}".format if self.renamed else str

        match asked.API_KEY:
            case HeartbeatResponse.API_KEY:
                assert (asked.generation_id, asked.member_id) == (-1, ""), "a beat of nobody"
                return HeartbeatResponse(version=0, error_code=error(Right(READ, GROUP, asked.group_id)))
            case OffsetDeleteResponse.API_KEY:
                assert asked.topics == []
                code = error(Right(DELETE, GROUP, asked.group_id))
                return OffsetDeleteResponse(version=0, throttle_time_ms=0, error_code=code, topics=[])
            case DescribeGroupsResponse.API_KEY:
                entry = DescribeGroupsResponse.DescribedGroup
                groups = [
                    entry(version=0, group_id=named(it), error_code=error(Right(DESCRIBE, GROUP, it)))
                    for it in asked.groups
                ]
                return DescribeGroupsResponse(version=0, groups=groups)
            case MetadataResponse.API_KEY:
                assert not asked.allow_auto_topic_creation
                topic = MetadataResponse.MetadataResponseTopic
                topics = [
                    topic(
                        version=8,
                        error_code=3 if self.code is None else self.code,
                        name=named(each.name),
                        partitions=[],
                        authorized_operations={
                            it for it in (READ, DESCRIBE) if Right(it, TOPIC, each.name) in self.granted
                        },
                    )
                    for each in asked.topics
                ]
                return MetadataResponse(version=8, brokers=[], cluster_id="c", controller_id=1, topics=topics)
            case DescribeClusterResponse.API_KEY:
                operations = {DESCRIBE.value} if CLUSTER in self.granted else set()
                return DescribeClusterResponse(
                    version=0,
                    error_code=self.code or 0,
                    cluster_id="c",
                    controller_id=1,
                    brokers=[],
                    authorized_operations=operations,
                )
        raise AssertionError(asked)


ALL = [
    *(Right(operation, GROUP, "g") for operation in Operation),
    *(Right(operation, TOPIC, "t") for operation in (READ, DESCRIBE)),
    CLUSTER,
]


@pytest.mark.parametrize("right", ALL)
def test_each_right_is_asked_for_by_itself(right: Right) -> None:
    for granted in ([right], [it for it in ALL if it != right]):
        broker = Broker(*granted)
        told = broker.ask(*ALL)
        assert told == []
        broker.answer()
        assert told == [frozenset(granted)]


def test_nothing_is_told_that_was_not_asked_for() -> None:
    """The answer about a topic names all that may be done to it."""
    broker = Broker(Right(DESCRIBE, TOPIC, "t"))
    told = broker.ask(Right(READ, TOPIC, "t"))
    broker.answer()
    assert told == [frozenset()]
    # It is remembered all the same.
    assert broker.rights.is_granted(Right(DESCRIBE, TOPIC, "t"), 0)


@pytest.mark.parametrize(("is_granted", "remembered_s"), [(True, 60), (False, 5)])
def test_an_answer_is_believed_for_a_while(is_granted: bool, remembered_s: int) -> None:
    (right, *_) = ALL
    broker = Broker(*[right] * is_granted)
    broker.ask(right)
    broker.answer(at_s=1)
    assert broker.ask(right, at_s=remembered_s + 0.9) == [frozenset(broker.granted)]
    assert broker.rights.is_granted(right, remembered_s + 0.9) is is_granted
    assert not broker.rights.is_granted(right, remembered_s + 1)
    assert not broker.rights.is_granted(CLUSTER, 1)
    broker.granted ^= {right}
    told = broker.ask(right, at_s=remembered_s + 1)
    broker.answer()
    assert told == [frozenset(broker.granted)]
    assert broker.counted == [is_granted, not is_granted]


# 7: request timed out; 31: cluster authorization failed; 41: not controller; 58: the login failed.
@pytest.mark.parametrize("code", [-1, 7, 31, 35, 41, 42, 58, 999])
@pytest.mark.parametrize("right", ALL)
def test_an_answer_that_shows_no_authorizer_was_passed_is_a_refusal_and_forgotten(
    right: Right, code: int
) -> None:
    broker = Broker(*ALL)
    broker.code = code
    told = broker.ask(right)
    broker.answer()
    assert told == [frozenset()]
    assert not any(broker.counted)
    assert not broker.rights.is_granted(right, 0)
    broker.code = None
    told = broker.ask(right)
    broker.answer()
    assert right in told[0]


PASSED = {
    Right(READ, GROUP, "g"): {0, 14, 15, 16, 22, 24, 25, 27, 69},
    Right(DELETE, GROUP, "g"): {0, 14, 15, 16, 24, 68, 69},
    Right(DESCRIBE, GROUP, "g"): {0, 14, 15, 16, 24, 69},
    Right(READ, TOPIC, "t"): {0, 3, 5, 17, 72},
    CLUSTER: {0},
}


@pytest.mark.parametrize("right", PASSED)
def test_the_errors_behind_the_authorizer_are_grants(right: Right) -> None:
    for code in range(-1, 140):
        broker = Broker(*ALL)
        broker.code = code
        broker.ask(right)
        broker.answer()
        assert broker.rights.is_granted(right, 0) is (code in PASSED[right]), code


@pytest.mark.parametrize("right", [Right(DESCRIBE, GROUP, "g"), Right(READ, TOPIC, "t")])
def test_an_answer_about_another_name_grants_nothing(right: Right) -> None:
    other = right._replace(name=f"other {right.name}")
    broker = Broker(right, other)
    broker.renamed = True
    told = broker.ask(right)
    broker.answer()
    assert told == [frozenset()]
    assert not broker.rights.is_granted(other, 0)


def test_operations_that_are_not_told_are_not_denied() -> None:
    right = Right(READ, TOPIC, "t")
    broker = Broker(right)
    broker.ask(right)
    ((request, read),) = broker.waiting
    response = broker.response(request)
    response.topics[0].authorized_operations = None
    read(response, 0)
    assert right not in broker.rights._known


def test_much_is_asked_a_little_at_a_time_and_little_of_it_remembered() -> None:
    many = [Right(operation, GROUP, f"{number}") for number in range(2_500) for operation in Operation]
    broker = Broker(*many)
    told = broker.ask(*many)
    assert broker.answer() == 10
    assert told == [frozenset(many)]
    assert len(broker.rights._known) == 100


def test_a_name_that_cannot_be_asked_about_is_denied() -> None:
    right = Right(READ, GROUP, "ü" * 2**14)
    assert Broker(right).ask(right) == [frozenset()]
