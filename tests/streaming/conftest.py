"""Coordinators that run in the shared Spark session against the shared broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.streaming.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def harness(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Harness]:
    """A coordinator with topics and a checkpoint of its own; parametrize it with a dict of settings."""
    with Harness(spark, bootstrap_servers, tmp_path, **getattr(request, "param", {})) as harness:
        yield harness
