from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.inspection import inspect_checkpoint
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.stored import SCHEMA_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark


@pytest.fixture
def copy(written: Harness, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    copy = tmp_path / "checkpoint"
    shutil.copytree(written.settings.checkpoint, copy)
    return copy


def test_what_is_shown(spark: SparkSession, copy: Path) -> None:
    (copy / "ledger.json").write_text('{"outages": [[3, 5]]}')
    found = inspect_checkpoint(spark, str(copy))
    groups = found.groups

    assert (SCHEMA_VERSION, 2, "") == (
        found.identity.schema_version,
        found.identity.state_partitions,
        found.identity.secret,
    )
    assert found.batch is not None
    assert found.batch.is_committed
    assert (0, found.batch.batch_id) == found.planned == found.committed
    assert 4 == sum(found.offsets[found.identity.request_topic].values())
    assert [Outage(3, 5)] == found.outages
    assert sum(file.stat().st_size for file in copy.rglob("*") if file.suffix != ".crc") >= found.bytes > 1000
    assert groups is not None
    assert (4, {"CompletingRebalance": 1, "Empty": 3}) == (groups.total, groups.by_state)
    assert (1, 1 + 2 + 3) == (groups.members, groups.offsets)
    assert 4 == sum(groups.partitions.values())
    assert {0, 1} >= groups.partitions.keys()
    sizes = [each.bytes for each in groups.largest]
    assert (groups.bytes, sizes) == (sum(sizes), sorted(sizes, reverse=True))
    assert {("a", 0, 1), ("b", 0, 2), ("c", 0, 3), ("d", 1, 0)} == {
        (each.group_id, each.members, each.offsets) for each in groups.largest
    }


def test_only_the_largest_groups_are_named(
    spark: SparkSession, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("group_coordinator.checkpoints.inspection._LARGEST", 2)
    groups = inspect_checkpoint(spark, str(copy)).groups

    assert groups is not None
    assert (4, ["d", "c"]) == (groups.total, [each.group_id for each in groups.largest])


def test_a_batch_that_is_running(spark: SparkSession, copy: Path) -> None:
    """It can be named, and has no state yet; what is shown otherwise is the one before."""
    newest = inspect_checkpoint(spark, str(copy)).batch
    assert newest is not None
    (copy / f"commits/{newest.batch_id}").unlink()
    running = inspect_checkpoint(spark, str(copy), newest.batch_id)
    found = inspect_checkpoint(spark, str(copy))

    assert running.groups is None
    assert running.batch is not None
    assert (newest.batch_id, False) == (running.batch.batch_id, running.batch.is_committed)
    assert found.batch is not None
    assert newest.batch_id - 1 == found.batch.batch_id
    assert (0, newest.batch_id) == found.planned
    assert found.groups is not None


def test_a_state_that_has_been_cleaned_up(spark: SparkSession, copy: Path) -> None:
    for file in copy.glob("state/0/*/2.changelog"):
        file.unlink()

    with pytest.raises(
        CheckpointError, match=r"^cannot read the state of batch \d+ in .*2\.changelog.*batch$"
    ):
        inspect_checkpoint(spark, str(copy))


def test_a_checkpoint_before_its_first_batch(spark: SparkSession, copy: Path) -> None:
    shutil.rmtree(copy / "offsets")
    shutil.rmtree(copy / "commits")
    found = inspect_checkpoint(spark, str(copy))

    assert (None, None, None, None, {}) == (
        found.planned,
        found.committed,
        found.batch,
        found.groups,
        found.offsets,
    )


def test_what_is_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not the checkpoint of a coordinator: name one that is"):
        inspect_checkpoint(spark, str(tmp_path))


@pytest.mark.parametrize("name", ["my checkpoint", "a#b", "a%20b", "{a,b}*"])
def test_a_folder_may_have_any_name(spark: SparkSession, copy: Path, name: str) -> None:
    folder = copy.rename(copy.with_name(name))

    for place in (str(folder), f"file://{folder}"):
        found = inspect_checkpoint(spark, place)
        assert found.groups is not None
        assert (found.checkpoint, found.groups.total) == (place, 4)
