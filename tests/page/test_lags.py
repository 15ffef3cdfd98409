from __future__ import annotations

import threading
from typing import Any, Self

import pytest
from kafka.errors import KafkaConnectionError
from kafka.structs import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

from group_coordinator.client.descriptions import GroupDescription
from group_coordinator.client.groups_log import GroupListing
from group_coordinator.page import asking as module
from group_coordinator.page.lags import Lags
from tests.patience import PATIENCE_S, wait_for


class Admin:
    """Two groups: `orders` is behind in one partition, `units` shares what has no log."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.questions = 0
        self.closed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1

    def list_groups(self) -> list[GroupListing]:
        return [GroupListing("orders", "Empty", "consumer"), GroupListing("units", "Empty", "units")]

    def describe_groups_and_offsets(self, group_ids: list[str]) -> dict[str, Any]:
        self.questions += 1
        assert self.may_answer.wait(PATIENCE_S)
        types = {"orders": "consumer", "units": "units"}
        return {
            each: (
                GroupDescription(each, "Empty", types.get(each, "consumer"), "", 3, "", ()),
                {TopicPartition("t", number): OffsetAndMetadata(5, "", -1) for number in range(2)},
            )
            for each in group_ids
        }

    def list_partition_offsets(self, specs: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {each: OffsetAndTimestamp(5 + 1_000 * each.partition, -1, -1) for each in specs}


def test_nobody_waits_and_the_next_look_finds_the_answer() -> None:
    admin = Admin()
    lags = Lags(lambda: admin)

    assert lags.newest() is None
    assert lags.newest() is None
    admin.may_answer.set()
    measured = wait_for(lags.newest)

    assert measured.problem is None
    assert measured.total("orders") == 1_000
    # Units have no log to be behind in.
    assert measured.total("units") is None
    assert measured.total("gone") is None
    assert [(row.partition.partition, row.lag) for row in measured.rows["orders"]] == [(0, 0), (1, 1_000)]
    assert admin.questions == admin.closed == 1


def test_one_group() -> None:
    admin = Admin()
    admin.may_answer.set()
    lags = Lags(lambda: admin)

    assert list(wait_for(lambda: lags.newest("orders")).rows) == ["orders"]


def test_fresh_figures_are_not_asked_for_again_old_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin()
    admin.may_answer.set()
    lags = Lags(lambda: admin)
    first = wait_for(lags.newest)
    assert lags.newest() is first
    assert admin.questions == 1

    monkeypatch.setattr(lags._asking, "_fresh_s", 0)
    # The old figures are shown until the new ones are there.
    assert lags.newest() is not None
    wait_for(lambda: None if lags.newest() is first else lags.newest())
    assert admin.questions > 1


def test_why_it_is_not_known() -> None:
    def connect() -> Any:
        raise KafkaConnectionError

    measured = wait_for(Lags(connect).newest)

    assert measured.problem
    assert measured.total("orders") is None


def test_only_so_many_wait_for_their_turn() -> None:
    admin = Admin()
    lags = Lags(lambda: admin)
    for number in range(20):
        lags.newest(f"g{number}")

    assert len(lags._asking._asked) == 8
    admin.may_answer.set()


def test_only_so_many_are_kept() -> None:
    admin = Admin()
    admin.may_answer.set()
    lags = Lags(lambda: admin)
    admin.describe_groups_and_offsets = lambda _: {}
    for number in range(70):
        wait_for(lambda number=number: lags.newest(f"g{number}"))

    assert len(lags._asking._found) == 64
    assert "g69" in lags._asking._found


def test_a_caller_may_wait_for_the_figures_of_a_group() -> None:
    admin = Admin()
    lags = Lags(lambda: admin)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(lags.ask("orders"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: admin.questions == 1)
    admin.may_answer.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    # All have the same answer, and so has the next one, as long as it is fresh.
    assert [each.total("orders") for each in (*found, lags.ask("orders"))] == [1_000] * 4
    assert admin.questions == 1


def test_nobody_waits_behind_too_many_others() -> None:
    admin = Admin()
    lags = Lags(lambda: admin)
    for number in range(module._MOST_ASKED):
        lags.newest(f"g{number}")
    assert lags.ask("orders") is None
    admin.may_answer.set()
    wait_for(lambda: lags.newest("g0"))


def test_a_caller_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    admin = Admin()
    lags = Lags(lambda: admin)
    assert lags.ask("orders") is None
    admin.may_answer.set()
    wait_for(lambda: lags.newest("orders"))
