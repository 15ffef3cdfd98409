"""The stateful function: between Spark's frames and `GroupState`, and `coordinator_state.step`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pandas as pd

from coordinator_state.log import Record
from coordinator_state.step import Channel, Output, step

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql.streaming.state import GroupState

    from coordinator_state.config import GroupConfig
    from streaming.settings import Settings

__all__ = ["INPUT_COLUMNS", "OUTPUT_SCHEMA", "STATE_SCHEMA", "FunctionArguments", "stateful_function"]

# Few and narrow columns: each costs time for every group of every batch. The append time travels as a
# number because a timestamp column costs more than twice as much.
INPUT_COLUMNS = ("partition", "offset", "timestamp_ms", "value")
OUTPUT_SCHEMA = "topic STRING, key BINARY, value BINARY, partition INT"
STATE_SCHEMA = "group BINARY"


class FunctionArguments(NamedTuple):
    """What the function needs to know; it is shipped to the Python workers."""

    config: GroupConfig
    secret: bytes
    request_topic: str
    output_topics: dict[Channel, str]

    @classmethod
    def of(cls, settings: Settings, secret: bytes, partitions: Mapping[str, int]) -> FunctionArguments:
        """Take from the settings what the function needs. `partitions`: how many each topic has."""
        return cls(
            config=msgspec.structs.replace(
                settings.group,
                request_partitions=partitions[settings.topics_requests],
                response_partitions=partitions[settings.topics_responses],
                state_partitions=settings.state_partitions,
            ),
            secret=secret,
            request_topic=settings.topics_requests,
            output_topics=dict(zip(Channel, settings.output_topics, strict=True)),
        )


def stateful_function(
    arguments: FunctionArguments, count: Callable[[Counter[tuple[str, str, str]]], None]
) -> Callable[[tuple[bytes | None], Iterable[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    """Make the function for `applyInPandasWithState`, keyed by the record key.

    `count` is told what happened, for the metrics.
    """

    def coordinate(
        key: tuple[bytes | None], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        raw_key = None if key[0] is None else bytes(key[0])
        result = step(
            raw_key,
            bytes(state.get[0]) if state.exists else None,
            _records(arguments.request_topic, raw_key, frames),
            state.getCurrentWatermarkMs(),
            arguments.config,
            arguments.secret,
        )
        if result.state is not None:
            state.update((result.state,))
            # Later than the watermark, or Spark refuses it and the query ends: step() has fired the rest.
            if result.deadline_ms is not None:
                state.setTimeoutTimestamp(result.deadline_ms)
        elif state.exists:
            state.remove()
        count(result.counts)
        if result.outputs:
            yield _frame(result.outputs, arguments.output_topics)

    return coordinate


def _records(topic: str, key: bytes | None, frames: Iterable[pd.DataFrame]) -> Iterator[Record]:
    for frame in frames:
        columns = (frame[name].tolist() for name in INPUT_COLUMNS)
        for partition, offset, timestamp_ms, value in zip(*columns, strict=True):
            yield Record(topic, partition, offset, timestamp_ms, key, value)


def _frame(outputs: list[Output], topics: dict[Channel, str]) -> pd.DataFrame:
    rows = [(topics[output.channel], output.key, output.value, output.partition) for output in outputs]
    # dtype object keeps a missing partition a null instead of making the column float.
    return pd.DataFrame(rows, columns=["topic", "key", "value", "partition"], dtype=object)
