"""Which topics a history goes on with, and which it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from group_coordinator.history.errors import HistoryError
from group_coordinator.history.identity import claim_history
from group_coordinator.history.settings import HistorySettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVENTS, REQUESTS = "coordinator.events", "coordinator.requests"
IDS = {EVENTS: "id-of-the-events", REQUESTS: "id-of-the-requests"}


def claim(
    spark: SparkSession,
    path: Path,
    ids: dict[str, str] = IDS,
    ends: dict[int, int] | None = None,
    of: str = "coordinator",
) -> None:
    settings = HistorySettings(history_path=str(path), of=of)
    claim_history(spark, settings, event_ends=lambda: ends or {0: 9}, topic_ids=ids)


def plan(path: Path, *ends: int) -> None:
    """As Spark has planned a batch that ends there."""
    offsets = path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}
    lines = [b"v1", msgspec.json.encode(metadata), msgspec.json.encode({EVENTS: dict(enumerate(ends))})]
    (offsets / "0").write_bytes(b"\n".join(lines))


def test_the_same_topics_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    claim(spark, tmp_path)
    claim(spark, tmp_path)
    assert msgspec.json.decode((tmp_path / "history.json").read_bytes()) == {"topic_ids": IDS}


@pytest.mark.parametrize(
    ("topic", "advice"),
    [
        (EVENTS, "Set history.path to a new directory; the old"),
        (REQUESTS, "to a new directory, and topics.events, here and at the coordinator, to a new topic; the"),
    ],
)
def test_a_topic_that_was_made_anew_is_refused(
    spark: SparkSession, tmp_path: Path, topic: str, advice: str
) -> None:
    claim(spark, tmp_path)
    before = (tmp_path / "history.json").read_bytes()
    with pytest.raises(HistoryError) as caught:
        claim(spark, tmp_path, IDS | {topic: "another"})
    assert str(caught.value).startswith(
        f"topic {topic} is not the one that the history in {tmp_path} was written from (its id is another, "
        f"and was {IDS[topic]}): it was deleted and made again"
    )
    assert advice in str(caught.value)
    assert (tmp_path / "history.json").read_bytes() == before


def test_an_id_that_kafka_did_not_tell_is_learned_later(spark: SparkSession, tmp_path: Path) -> None:
    """As without the right to describe the topic of requests."""
    claim(spark, tmp_path, {EVENTS: IDS[EVENTS]})
    claim(spark, tmp_path)
    with pytest.raises(HistoryError, match=r"^topic coordinator\.requests is not the one"):
        claim(spark, tmp_path, IDS | {REQUESTS: "another"})


def test_tables_without_ids_are_taken_over_if_the_topic_goes_so_far(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan(tmp_path, 5, 0)
    message = r"\(partition 0 ends at 4, and was read up to 5\): it was deleted and made again"
    with pytest.raises(HistoryError, match=message):
        claim(spark, tmp_path, ends={0: 4, 1: 0})
    claim(spark, tmp_path, ends={0: 5, 1: 0})
    assert (tmp_path / "history.json").exists()


def test_a_file_that_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text("{")
    with pytest.raises(
        HistoryError, match=r"history\.json cannot be read: .*; delete it if the topics are the"
    ):
        claim(spark, tmp_path)


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ("coordinator", "brokers", "brokers.history.path"),
        ("brokers", "coordinator", "history.path"),
    ],
)
def test_tables_are_of_one_side_alone(
    spark: SparkSession, tmp_path: Path, first: str, second: str, name: str
) -> None:
    """Both may have a group of the same id, and events of the same id."""
    claim(spark, tmp_path, of=first)
    claim(spark, tmp_path, of=first)
    with pytest.raises(HistoryError) as caught:
        claim(spark, tmp_path, of=second)
    assert str(caught.value) == (
        f"the history in {tmp_path} is that of groups on the other side (of = {first}): set {name} to "
        "another directory"
    )
