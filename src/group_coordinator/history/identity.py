"""The identity of a history: of which topics it tells.

Event ids are unique only as long as the topics are the same ones. An id names the place of a request, or of a
record of the brokers, in its topic. A topic that was deleted and made again has the same places again. The
history would take the new events for old ones, and pass them over. So it keeps the ids that Kafka gives its
topics (KIP-516) beside the tables. It compares them at each start, as the coordinator does with its
checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.checkpoints.files import CheckpointFiles
from group_coordinator.checkpoints.offset_log import newest_planned
from group_coordinator.checkpoints.topics import made_anew
from group_coordinator.coordinator_state.foreign import ForeignJson, UnreadableError
from group_coordinator.history.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from group_coordinator.history.settings import HistorySettings

CHECKPOINT = "checkpoint"
"""Where Spark keeps the place that was reached, below the history's path."""
LAG_CHECKPOINT = "checkpoint-lag"
"""The same of the topic of lag. Nothing depends on which topic that is: rows have no ids."""
_FILE = "history.json"


class _Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is written beside the tables: the ids of topics by name, and the side that its groups are on."""

    topic_ids: dict[str, str]
    of: str = "coordinator"


def claim_history(
    spark: SparkSession,
    settings: HistorySettings,
    *,
    event_ends: Callable[[], Mapping[int, int]],
    topic_ids: Mapping[str, str],
) -> None:
    """Claim a new history, or recognise an old one, also if Kafka does not tell the ids of its topics.

    `topic_ids`: those of the topics of events and of the input, as Kafka has them now, without those that it
    does not tell. `event_ends` looks up the end offsets of the partitions of the topic of events, which only
    tables without an identity need. Raises `HistoryError` if the tables tell of groups on the other side,
    or of other topics with the same names. Raises `CheckpointError` if the place cannot be read or written.
    """
    files = CheckpointFiles(spark, settings.history_path)
    found = _read(files)
    if found is not None and found.of != settings.of:
        raise HistoryError(
            f"the history in {settings.history_path} is that of groups on the other side (of = {found.of}): "
            f"set {settings.named('history.path')} to another directory"
        )
    known = {} if found is None else found.topic_ids
    for topic, before, now in made_anew(known, topic_ids):
        raise HistoryError(_refusal(settings, topic, f"its id is {now}, and was {before}"))
    if settings.topics_events not in known:
        _check_places(spark, files, settings, event_ends())
    files.create()
    complete = {**topic_ids, **known}
    made = _Identity(topic_ids=complete, of=settings.of)
    if made != found:
        files.write(_FILE, msgspec.json.encode(made))


def _read(files: CheckpointFiles) -> _Identity | None:
    text = files.read(_FILE)
    try:
        return None if text is None else ForeignJson[_Identity](_Identity).read(text)
    except UnreadableError as error:
        raise HistoryError(
            f"{files.name(_FILE)} cannot be read: {error}; delete it if the topics are the same"
        ) from None


def _check_places(
    spark: SparkSession, files: CheckpointFiles, settings: HistorySettings, event_ends: Mapping[int, int]
) -> None:
    """A history without an identity cannot have read further than the topic goes."""
    batch = newest_planned(CheckpointFiles(spark, files.name(CHECKPOINT)))
    planned = {} if batch is None else batch.offsets.get(settings.topics_events, {})
    for partition, read_to in planned.items():
        end = event_ends.get(partition, 0)
        if read_to > end:
            why = f"partition {partition} ends at {end}, and was read up to {read_to}"
            raise HistoryError(_refusal(settings, settings.topics_events, why))


def _refusal(settings: HistorySettings, topic: str, why: str) -> str:
    events = f", and {settings.named('topics.events')}, here and at {settings.writer}, to a new topic"
    also = "" if topic == settings.topics_events else events
    return (
        f"topic {topic} is not the one that the history in {settings.history_path} was written from ({why}): "
        "it was deleted and made again, and its events would pass for those that are there. Set "
        f"{settings.named('history.path')} to a new directory{also}; the old tables can still be asked"
    )
