from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.history.filled import Tables, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The day of several groups that have different fates on its way into the tables."""
    return fill(spark, tmp_path_factory.mktemp("history"))
