"""The keeper of guards: which groups it guards, what it lets go, and what it says."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Self

import pytest
from kafka.errors import GroupAuthorizationFailedError, KafkaError

from group_coordinator.client.brokers_guard import HasMembersError
from group_coordinator.client.groups_log import GroupListing
from group_coordinator.gateway import keeper as module
from group_coordinator.gateway.keeper import GuardKeeper


class Brokers:
    """Groups at brokers, with the questions of a keeper. `errors`: what keeps a group from being guarded."""

    def __init__(self) -> None:
        self.groups: dict[str, str] = {}
        self.errors: dict[str, KafkaError] = {}
        self.taken: list[list[str]] = []
        self.released: list[str] = []
        self.meanwhile: Any = lambda: None

    def list_groups(self) -> list[GroupListing]:
        return [GroupListing(each, state, "") for each, state in self.groups.items()]

    def take(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        self.taken.append(list(group_ids))
        self.meanwhile()
        return {each: self.errors.get(each) for each in group_ids}

    def release(self, group_ids: Collection[str]) -> dict[str, KafkaError | None]:
        self.released += group_ids
        return dict.fromkeys(group_ids)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(module, "BrokersAdmin", lambda **_: brokers)
    monkeypatch.setattr(module, "BrokersGuard", lambda **_: brokers)
    monkeypatch.setattr(module, "_ROUND_S", 0)
    return brokers


def keeping(here: set[str]) -> tuple[GuardKeeper, list[str]]:
    counted: list[str] = []
    return GuardKeeper(here.__contains__, counted.append, {}), counted


def test_groups_that_are_here_and_that_the_brokers_know_are_guarded(brokers: Brokers) -> None:
    brokers.groups = {f"g{number}": "Stable" for number in range(120)} | {"empty": "Empty", "other": "Stable"}
    keeper, counted = keeping({*brokers.groups, "only-here"} - {"other"})
    keeper.renew_all()
    assert [len(each) for each in brokers.taken] == [50, 50, 20, 1], "a first join takes seconds"
    assert brokers.taken[-1] == ["empty"]
    assert {group for part in brokers.taken for group in part} == brokers.groups.keys() - {"other"}
    assert (set(counted), len(counted), brokers.released) == ({"taken"}, 121, [])


def test_the_guard_of_a_group_that_moves_meanwhile_is_released(brokers: Brokers) -> None:
    brokers.groups = {"a": "Stable", "b": "Stable"}
    here = {"a", "b"}
    keeper, _ = keeping(here)
    brokers.meanwhile = lambda: here.discard("b")
    keeper.renew_all()
    assert brokers.released == ["b"]


def test_members_at_the_brokers_are_told_and_left_alone(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    brokers.groups = {"a": "Stable", "b": "Stable"}
    brokers.errors = {"a": HasMembersError("it has"), "b": GroupAuthorizationFailedError("no right")}
    keeper, counted = keeping({"a", "b"})
    keeper.renew_all()
    assert counted == ["members", "failed"]
    assert caplog.messages[0] == (
        "group a is here and has members at the brokers, so records are read twice: stop them"
    )
    assert caplog.messages[1].startswith("the guard of group b cannot be taken: ")
    keeper.renew_all()
    assert len(caplog.messages) == 2, "seldom"


def test_it_goes_on_after_an_error_and_ends_at_once(brokers: Brokers) -> None:
    brokers.groups = {"a": "Stable"}
    keeper, counted = keeping({"a"})
    first = brokers.list_groups

    def fails() -> list[GroupListing]:
        brokers.list_groups = first  # type: ignore[method-assign]
        raise KafkaError("gone")

    brokers.list_groups = fails  # type: ignore[method-assign]
    keeper.start()
    while len(counted) < 3:
        pass
    keeper.close()
    assert set(counted) == {"taken"}
