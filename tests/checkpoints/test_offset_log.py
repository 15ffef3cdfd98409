from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.offset_log import (
    committed_batches,
    newest_committed,
    newest_planned,
    planned_batches,
    read_batch,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.streaming.harness import Harness

pytestmark = pytest.mark.spark

METADATA = b'{"batchWatermarkMs":70,"batchTimestampMs":90,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def plan(files: CheckpointFiles, batch_id: int, source: bytes = b'{"requests":{"0":7}}') -> None:
    files.write(f"offsets/{batch_id}", b"v1\n" + METADATA + b"\n" + source)


def commit(files: CheckpointFiles, batch_id: int, watermark_ms: int = 80) -> None:
    files.write(f"commits/{batch_id}", b'v1\n{"nextBatchWatermarkMs":%d}' % watermark_ms)


def refusal(files: CheckpointFiles) -> str:
    with pytest.raises(CheckpointError) as caught:
        newest_planned(files)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# -- what a real query wrote ---------------------------------------------------------------------------


def test_batches_of_a_real_query(spark: SparkSession, written: Harness) -> None:
    files = CheckpointFiles(spark, written.settings.checkpoint)
    batches = [read_batch(files, batch_id) for batch_id in planned_batches(files)]
    requests, clock = written.settings.topics_requests, written.settings.topics_clock

    assert list(range(len(batches))) == planned_batches(files) == committed_batches(files)
    assert newest_planned(files) == newest_committed(files) == batches[-1]
    assert batches[-1].is_committed
    assert {requests, clock} == batches[-1].offsets.keys()
    assert 4 == sum(batches[-1].offsets[requests].values())
    assert (
        batches[-1].conf["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")
    )
    watermarks = [batch.watermark_ms for batch in batches]
    assert watermarks[1:] == [batch.next_watermark_ms for batch in batches[:-1]]
    assert watermarks == sorted(watermarks)
    ticks = [batch.offsets[clock][0] for batch in batches]
    assert ticks == sorted(ticks)


# -- edge cases, written by hand -----------------------------------------------------------------------


def test_a_checkpoint_without_batches(files: CheckpointFiles) -> None:
    assert newest_planned(files) is None
    assert newest_committed(files) is None


def test_a_batch_that_is_running(files: CheckpointFiles) -> None:
    plan(files, 9)
    commit(files, 9)
    plan(files, 10, b'{"requests":{"0":8,"1":0}}')
    running = newest_planned(files)
    done = newest_committed(files)

    assert running is not None
    assert (10, False, None) == (running.batch_id, running.is_committed, running.next_watermark_ms)
    assert {"requests": {0: 8, 1: 0}} == running.offsets
    assert (70, 90) == (running.watermark_ms, running.timestamp_ms)
    assert done is not None
    assert (9, True, 80) == (done.batch_id, done.is_committed, done.next_watermark_ms)


def test_files_that_are_being_written_do_not_count(files: CheckpointFiles) -> None:
    plan(files, 3)
    files.write("offsets/.4.5f0c.tmp", b"v1\n{")
    files.write("offsets/4.tmp", b"")
    files.write("commits/.3.5f0c.tmp", b"v1\n{")

    assert [3] == planned_batches(files)
    assert [] == committed_batches(files)
    assert newest_committed(files) is None


def test_a_source_without_offsets(files: CheckpointFiles) -> None:
    plan(files, 0, b"-")
    batch = newest_planned(files)

    assert batch is not None
    assert {} == batch.offsets


def test_a_batch_that_is_not_kept(files: CheckpointFiles) -> None:
    with pytest.raises(CheckpointError, match="has no batch 1: it has none"):
        read_batch(files, 1)
    plan(files, 4)
    plan(files, 5)
    with pytest.raises(CheckpointError, match="has no batch 1: it has 4 to 5"):
        read_batch(files, 1)


@pytest.mark.parametrize("content", [b"v2\n{}\n{}", b"v10\n{}", b"{}"])
def test_an_unknown_version_is_refused(files: CheckpointFiles, content: bytes) -> None:
    files.write("offsets/0", content)
    version = content.decode().split("\n")[0]

    assert (
        f"{files.checkpoint}/offsets/0 has version '{version}' of Spark's log, and this program reads v1: "
        "use the version of Spark and of this program that wrote it"
    ) == refusal(files)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has version ''"),
        (b"v1", "it has 0 sources"),
        (b"v1\n" + METADATA, "it has 0 sources"),
        (b"v1\n" + METADATA + b"\n{}\n{}", "it has 2 sources"),
        (b"v1\n" + METADATA + b'\n{"logOffset":0}', "Expected `object`, got `int`"),
        (b"v1\n" + METADATA[:40] + b"\n{}", "Input data was truncated"),
        (b"v1\n{}\n{}", "missing required field `batchWatermarkMs`"),
    ],
)
def test_what_no_coordinator_wrote_is_refused(files: CheckpointFiles, content: bytes, reason: str) -> None:
    files.write("offsets/0", content)

    assert reason in refusal(files)


@pytest.mark.parametrize("content", [b"v1", b"v1\n{}\n{}", b"v1\n{}", b"v1\n[1]"])
def test_a_commit_that_no_coordinator_wrote_is_refused(files: CheckpointFiles, content: bytes) -> None:
    plan(files, 0)
    files.write("commits/0", content)

    assert "commits/0 is not a log of the coordinator's query" in refusal(files)
