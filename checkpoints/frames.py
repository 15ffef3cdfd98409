"""Many rows of the driver as Spark's frames, some at a time: so they need not all be in its memory."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

_ROWS = 10_000


def frames(spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: str) -> Iterator[DataFrame]:
    """`rows` as frames with the columns of `schema`, in order; none if there are no rows."""
    remaining = iter(rows)
    while chunk := list(islice(remaining, _ROWS)):
        yield spark.createDataFrame(chunk, schema).coalesce(1)
