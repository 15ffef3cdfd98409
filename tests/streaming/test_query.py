"""The query's plan: where there is one state partition, nothing is shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

_SHUFFLE = "Exchange hashpartitioning"


def plan_of_last_batch(harness: Harness, capsys: pytest.CaptureFixture[str]) -> str:
    assert harness.query is not None
    capsys.readouterr()
    harness.query.explain()
    text = capsys.readouterr().out
    assert "FlatMapGroupsInPandasWithState" in text
    return text


@pytest.mark.parametrize("harness", [{"state_partitions": 2}], indirect=True)
def test_several_state_partitions_need_a_shuffle(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    harness.start_and_warm_up()

    assert _SHUFFLE in plan_of_last_batch(harness, capsys)


@pytest.mark.parametrize("harness", [{"state_partitions": 1}], indirect=True)
def test_one_state_partition_needs_none(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    """And the one task reads all partitions of the topic."""
    harness.start_and_warm_up()

    found = {harness.call("find_coordinator", f"group-{number}")["partition"] for number in range(8)}
    assert {0, 1} == found
    assert _SHUFFLE not in plan_of_last_batch(harness, capsys)


@pytest.mark.parametrize("harness", [{"state_partitions": 1}], indirect=True)
def test_groups_that_were_shuffled_to_the_one_partition_are_found(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkpoint of before there was a plan without a shuffle."""
    with monkeypatch.context() as patch:
        patch.setattr("pyspark.sql.DataFrame.coalesce", lambda log, _: log)
        harness.start_and_warm_up()
    joined = harness.answer(harness.join("orders", "c1", group_instance_id="i1"))
    assert harness.stop()

    harness.start()

    again = harness.answer(harness.join("orders", "c1", group_instance_id="i1"))
    assert joined["generation_id"] + 1 == again["generation_id"]
