"""What all tests share: one broker and one Spark session, each started when the first test needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deploy.broker import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A real Apache Kafka broker."""
    with EmbeddedBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap_servers(broker: EmbeddedBroker) -> str:
    """Where the broker is."""
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the long-lived job, as it runs on one machine."""
    # Not above: most tests need no pyspark, and it takes its time.
    from streaming.session import create_session
    from streaming.settings import load_settings

    settings = load_settings(
        None,
        {},
        {
            "bootstrap.servers": bootstrap_servers,
            "checkpoint": str(tmp_path_factory.mktemp("unused")),
            "state.partitions": 2,
        },
    )
    spark = create_session(settings)
    yield spark
    spark.stop()
