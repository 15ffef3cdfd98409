from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from group_coordinator.streaming.counts import CountsParam

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_counts_are_added_up() -> None:
    counts = CountsParam().addInPlace(
        Counter({("a", "", ""): 1}), Counter({("a", "", ""): 2, ("b", "", ""): 3})
    )

    assert counts == Counter({("a", "", ""): 3, ("b", "", ""): 3})


def test_zero_is_a_counter_of_its_own() -> None:
    start = Counter({("a", "", ""): 1})
    zero = CountsParam().zero(start)
    CountsParam().addInPlace(zero, start)

    assert (start, CountsParam().zero(start)) == (Counter({("a", "", ""): 1}), Counter())


@pytest.mark.spark
def test_what_the_executors_count_arrives_at_the_driver(spark: SparkSession) -> None:
    counts = spark.sparkContext.accumulator(Counter(), CountsParam())
    numbers = spark.sparkContext.parallelize(range(10), 3)
    numbers.foreach(
        lambda number: counts.add(Counter({("numbers", "odd" if number % 2 else "even", ""): number}))
    )

    assert counts.value == Counter({("numbers", "odd", ""): 25, ("numbers", "even", ""): 20})
