"""Checkpoints that real queries have written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.identity import open_checkpoint
from group_coordinator.checkpoints.topics import read_topic_ids
from tests.streaming.harness import SECRET, Harness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def written(
    spark: SparkSession, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """A coordinator that has been stopped: groups a, b and c with offsets only, and d with a member."""
    with Harness(spark, bootstrap_servers, tmp_path_factory.mktemp("written")) as harness:
        claim(harness)
        harness.start()
        for number, group_id in enumerate("abc"):
            partitions = [
                {"partition_index": each, "committed_offset": 40 + each} for each in range(number + 1)
            ]
            harness.call("offset_commit", group_id, topics=[{"name": "orders", "partitions": partitions}])
        harness.answer(harness.join("d", "c1", api_version=3, session_timeout_ms=600_000))
        assert harness.stop()
        yield harness


def claim(harness: Harness) -> bytes:
    """What the long-lived job does with a checkpoint before the query starts."""
    settings = harness.settings
    topics = (settings.topics_requests, settings.topics_clock)
    return open_checkpoint(
        harness.spark,
        settings.checkpoint,
        request_topic=settings.topics_requests,
        clock_topic=settings.topics_clock,
        state_partitions=settings.state_partitions,
        secret=SECRET.decode(),
        topic_ids=read_topic_ids({"bootstrap_servers": settings.bootstrap_servers}, topics),
    )


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> CheckpointFiles:
    """The files of a checkpoint that is not there yet, below `tmp_path`."""
    return CheckpointFiles(spark, str(tmp_path / "checkpoint"))
