"""Coordinators that move, load, hang or refuse, and what is told of each group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import (
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from group_coordinator.client import ask_offsets
from group_coordinator.client.ask_coordinators import ask_coordinators, failure
from tests.client.brokers import Brokers

_NOT_AVAILABLE, _NOT_COORDINATOR, _DENIED = 15, 16, 30


class Coordinators(Brokers):
    """`where`: the node and the error code that FindCoordinator tells. `codes`: what coordinators answer."""

    def __init__(self, where: dict[str, tuple[int, int]]) -> None:
        super().__init__({})
        self.where = where
        self.codes: dict[Any, int] = {}
        self.sent: list[tuple[int, tuple[str, ...]]] = []

    async def send(self, request: Any, node_id: int) -> Any:
        if node_id in self.failing:
            return await super().send(request, node_id)
        if isinstance(request, FindCoordinatorRequest):
            found = [(key, *self.where[key]) for key in request.coordinator_keys]
            return SimpleNamespace(
                coordinators=[
                    SimpleNamespace(key=key, node_id=node, error_code=code, error_message=None)
                    for key, node, code in found
                ]
            )
        self.sent.append((node_id, request))
        return {each: _NOT_COORDINATOR if self.where[each][0] != node_id else 0 for each in request}


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Coordinators:
    brokers = Coordinators({"a": (1, 0), "b": (2, 0), "c": (1, 0)})
    monkeypatch.setattr(ask_offsets, "time", SimpleNamespace(monotonic=lambda: brokers.now_s))
    return brokers


def asked(brokers: Coordinators, timeout_ms: float = 5_000, at_once: int = 10) -> dict[str, Any]:
    return ask_coordinators(
        SimpleNamespace(_manager=brokers),  # type: ignore[arg-type]
        brokers.where,
        tuple,
        lambda response, _: {each: failure([code]) or f"{each} is fine" for each, code in response.items()},
        timeout_ms,
        at_once,
    )


def test_each_coordinator_is_asked_about_its_groups_at_once(brokers: Coordinators) -> None:
    assert asked(brokers) == {"a": "a is fine", "b": "b is fine", "c": "c is fine"}
    assert brokers.sent == [(1, ("a", "c")), (2, ("b",))]
    brokers.sent.clear()
    asked(brokers, at_once=1)
    assert brokers.sent == [(1, ("a",)), (1, ("c",)), (2, ("b",))]


def test_a_group_whose_coordinator_moves_is_asked_about_again(brokers: Coordinators) -> None:
    first = brokers.send

    async def send(request: Any, node_id: int) -> Any:
        answer = await first(request, node_id)
        if isinstance(request, FindCoordinatorRequest) and brokers.where["a"] == (1, 0):
            brokers.where["a"] = (2, 0)
        return answer

    brokers.send = send  # type: ignore[method-assign]
    assert asked(brokers)["a"] == "a is fine"
    assert [each for each in brokers.sent if "a" in each[1]] == [(1, ("a", "c")), (2, ("a",))]
    assert sum("b" in ids for _, ids in brokers.sent) == 1


def test_a_coordinator_that_is_not_there_yet_is_waited_for(brokers: Coordinators) -> None:
    brokers.where["a"] = (-1, _NOT_AVAILABLE)
    brokers.meanwhile = lambda: brokers.now_s > 1 and brokers.where.update(a=(1, 0))
    assert asked(brokers)["a"] == "a is fine"
    brokers.where["a"], brokers.meanwhile = (-1, _NOT_AVAILABLE), lambda: None
    found = asked(brokers)
    assert isinstance(found["a"], CoordinatorNotAvailableError)
    assert found["b"] == "b is fine"


def test_a_refusal_concerns_its_group_alone(brokers: Coordinators) -> None:
    brokers.where["a"] = (-1, _DENIED)
    found = asked(brokers)
    assert isinstance(found["a"], GroupAuthorizationFailedError)
    assert found["b"] == "b is fine"
    assert brokers.now_s == 0


def test_a_coordinator_that_hangs_costs_the_time_that_there_is(brokers: Coordinators) -> None:
    brokers.failing[1] = None
    found = asked(brokers)
    assert str(found["a"]) == "KafkaTimeoutError: no coordinator of group 'a' has answered within 5 s"
    assert isinstance(found["c"], KafkaTimeoutError)
    assert found["b"] == "b is fine"
    brokers.failing[2] = KafkaConnectionError("gone")
    assert isinstance(asked(brokers)["b"], KafkaTimeoutError)


def test_a_login_that_is_refused_is_an_error_for_all(brokers: Coordinators) -> None:
    brokers.failing[2] = SaslAuthenticationFailedError("no")
    with pytest.raises(SaslAuthenticationFailedError):
        asked(brokers)
