"""The stateful function, between Spark's frames and `GroupState` and the core's `step`."""

from __future__ import annotations

from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from group_coordinator.checkpoints.ledger import Notes
from group_coordinator.checkpoints.shifts import CLOCK_JUMPED, ClockJumpedError, Guard, Shifts
from group_coordinator.checkpoints.standstills import STOOD_STILL, StoodStillError
from group_coordinator.checkpoints.timeouts import timeout_of
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.standstills import PartitionOutages
from group_coordinator.coordinator_state.step import Channel, steps
from group_coordinator.streaming.decision_log import DecisionLog
from group_coordinator.streaming.spool import spooled_in_log_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from group_coordinator.checkpoints.shifts import Span
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.standstills import Standstill
    from group_coordinator.coordinator_state.step import StepResult
    from group_coordinator.jobs.settings import Settings

__all__ = ["INPUT_COLUMNS", "OUTPUT_SCHEMA", "STATE_SCHEMA", "FunctionArguments", "Row", "StatefulFunction"]

# Few and narrow columns: each costs time for every group of every batch. The append time travels as a
# number because a timestamp column costs more than twice as much.
INPUT_COLUMNS = ("partition", "offset", "timestamp_ms", "value")
# As Spark's sink wants them: another node of the plan above the stateful operator takes time in each batch.
OUTPUT_SCHEMA = (
    "topic STRING, key BINARY, value BINARY, partition INT, headers ARRAY<STRUCT<key STRING, value BINARY>>"
)
_OUTPUT_COLUMNS = ["topic", "key", "value", "partition", "headers"]
Row = tuple[str, bytes | None, bytes | None, int | None, list[tuple[str, bytes]] | None]
"""A row of `OUTPUT_SCHEMA`."""
STATE_SCHEMA = "group BINARY"
_LOOK_AGAIN_MS = 3_000
"""The time after which a group of a partition that stands still is looked at again if it was due."""


class FunctionArguments(NamedTuple):
    """The arguments of the function, which are shipped to the Python workers."""

    config: GroupConfig
    layout: Layout
    secret: bytes
    request_topic: str
    output_topics: dict[Channel, str]
    response_topics: tuple[tuple[bytes, str], ...] = ()
    """Prefixes of group ids whose responses have a topic of their own; the longest come first."""
    log_level: str = "info"
    log_format: str = "auto"
    notes: Notes = Notes()
    """The time that does not count, and how append times count."""
    guard: Guard | None = None
    """Refuses records whose times cannot be right."""

    @classmethod
    def of(
        cls,
        settings: Settings,
        secret: bytes,
        partitions: Mapping[str, int],
        notes: Notes = Notes(),  # noqa: B008 - it does not change
        guard: Guard | None = None,
    ) -> FunctionArguments:
        """Take from the settings what the function needs. `partitions`: how many each topic has."""
        return cls(
            config=settings.group,
            layout=Layout(
                request_partitions=partitions[settings.topics_requests],
                response_partitions=partitions[settings.topics_responses],
                state_partitions=settings.state_partitions,
                max_groups=settings.max_groups,
            ),
            secret=secret,
            request_topic=settings.topics_requests,
            output_topics=settings.output_topics,
            response_topics=tuple(
                (prefix.encode(), settings.responses_topics[prefix])
                for prefix in sorted(settings.responses_topics, key=len, reverse=True)
            ),
            log_level=settings.log_level,
            log_format=settings.log_format,
            notes=notes,
            guard=guard,
        )

    def topics_for(self, key: bytes | None) -> Mapping[Channel, str]:
        """The topics for the outputs of the group with this record key.

        The key decides, and not what a request says. So a request that cannot be read, or that names another
        group, is answered where only the key's tenant can read it.
        """
        for prefix, topic in self.response_topics:
            if key is not None and key.startswith(prefix):
                return self.output_topics | {Channel.RESPONSES: topic}
        return self.output_topics


_FULL_ANSWERS = 8
"""A task answers the questions about so many groups in full; about any further group it answers one."""


class StatefulFunction:
    """The function for `applyInPandasWithState`, keyed by the record key.

    `count` is told what each call has decided, for the metrics. Spark makes one for each task, and gives it
    the groups in the order of their keys. So a batch that runs again gives the same answers.
    """

    def __init__(self, arguments: FunctionArguments, count: Callable[[StepResult], None]) -> None:
        self._arguments = arguments
        self._outages = PartitionOutages(
            arguments.notes.outages, arguments.notes.standstills, arguments.layout.request_partitions
        )
        self._shifts = Shifts(arguments.notes.shifts)
        self._spans: dict[tuple[int, int, int], Span] = {}
        self._read_bytes = 0
        """Bytes of all answers so far to requests that only read."""
        self._count = count
        self._log = DecisionLog(arguments.log_level, arguments.log_format)

    def __call__(
        self, key: tuple[bytes | None], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """As Spark calls it."""
        # The project's own worker does without, and need not take the time to import it.
        import pandas as pd  # noqa: PLC0415

        for rows in self.parts(key, chain.from_iterable(map(_plain, frames)), state):
            if rows:
                # dtype object keeps a missing partition a null instead of making the column float.
                yield pd.DataFrame(rows, columns=_OUTPUT_COLUMNS, dtype=object)

    def parts(
        self, key: tuple[bytes | None], records: Iterable[tuple[Any, ...]], state: GroupState
    ) -> Iterator[list[Row]]:
        """Do the same without pandas, for the project's own worker: `records` have `INPUT_COLUMNS`.

        All parts have to be taken: `state` is as it is to be after the last one.
        """
        arguments = self._arguments
        raw_key = None if key[0] is None else bytes(key[0])
        watermark_ms = state.getCurrentWatermarkMs()
        if (stands := self._outages.stands_for(raw_key)) is not None:
            watermark_ms = min(watermark_ms, stands.start_ms)
            records = iter(records)
            if (first := next(records, None)) is None:
                _look_again(state)
                return
            records = chain([first], records)
        topics = arguments.topics_for(raw_key)
        config = arguments.config
        if self._read_bytes > _FULL_ANSWERS * config.max_read_bytes:
            # Many groups are asked about at once. Members of others must not wait too long.
            config = msgspec.structs.replace(config, max_read_bytes=0)
        read_bytes = 0
        for result in steps(
            raw_key,
            bytes(state.get[0]) if state.exists else None,
            # Which reads all of them before it gives the first: so none is decided if one is refused.
            spooled_in_log_order(self._timed(raw_key, records, state, stands)),
            watermark_ms,
            config,
            arguments.secret,
            self._outages.of(raw_key),
            arguments.layout,
        ):
            self._count(result)
            read_bytes = result.read_bytes
            self._log.write(result)
            yield [
                (topics[channel], key, value, partition, None if place is None else [header(place)])
                for channel, key, value, partition, place in result.outputs
            ]
        self._read_bytes += read_bytes
        if result.state is not None:
            state.update((result.state,))
            # Later than the watermark, or Spark refuses it and the query ends: step() has fired the rest.
            if stands is not None:
                _look_again(state)
            elif result.deadline_ms is not None:
                state.setTimeoutTimestamp(timeout_of(result.deadline_ms))
        elif state.exists:
            state.remove()

    def _timed(
        self,
        key: bytes | None,
        records: Iterable[tuple[Any, ...]],
        state: GroupState,
        stands: Standstill | None,
    ) -> Iterator[Record]:
        """The records, with the times that they count as.

        Raises `ClockJumpedError` for one that is wrong, and `StoodStillError` for one that shows that the
        standstill of its partition is over.
        """
        topic, guard = self._arguments.request_topic, self._arguments.guard
        shift_at = self._shifts.at if self._shifts else None
        over_from_ms = inf if stands is None else stands.start_ms
        earliest_ms, latest_ms = -inf, inf
        spans_of = -1
        for partition, offset, timestamp_ms, value in records:
            if guard is not None and partition != spans_of:
                span = self._span(guard, partition, state)
                earliest_ms, latest_ms = span.earliest_ms, span.latest_ms
                spans_of = partition
            time_ms = timestamp_ms if shift_at is None else timestamp_ms + shift_at(partition, offset)
            if not earliest_ms <= time_ms <= latest_ms:
                raise ClockJumpedError(f"{CLOCK_JUMPED} partition {partition} offset {offset}")
            if time_ms > over_from_ms:
                raise StoodStillError(f"{STOOD_STILL} partition {partition} takes requests again")
            yield Record(topic, partition, offset, time_ms, key, value)

    def _span(self, guard: Guard, partition: int, state: GroupState) -> Span:
        """The times that can be right in that partition."""
        # Both times are in the plan of the batch: they are the same for all groups, and if it runs again.
        asked = state.getCurrentProcessingTimeMs(), state.getCurrentWatermarkMs(), partition
        span = self._spans.get(asked)
        if span is None:
            span = self._spans[asked] = guard.span(*asked)
        return span


def _look_again(state: GroupState) -> None:
    """Look at a group again later, whose partition stands still."""
    if state.exists:
        state.update(tuple(state.get))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + _LOOK_AGAIN_MS)


def _plain(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    return zip(*(frame[name].tolist() for name in INPUT_COLUMNS), strict=True)
