"""Coordinators that run in the shared Spark session against the shared broker."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from kafka.admin import KafkaAdminClient

from group_coordinator.jobs.kafka_config import python_client_config
from tests.streaming.harness import Harness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def config(bootstrap_servers: str) -> dict[str, Any]:
    """Settings of kafka-python's clients."""
    return python_client_config(bootstrap_servers, {})


@pytest.fixture
def admin(config: dict[str, Any]) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(**config)) as admin:
        yield admin


@pytest.fixture
def harness(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Harness]:
    """A coordinator with topics and a checkpoint of its own; parametrize it with a dict of settings."""
    with Harness(spark, bootstrap_servers, tmp_path, **getattr(request, "param", {})) as harness:
        yield harness
