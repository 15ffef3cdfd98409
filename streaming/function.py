"""The stateful function, between Spark's frames and `GroupState` and the core's `step`."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec
from pyspark import TaskContext

from group_coordinator.checkpoints.known import Known
from group_coordinator.checkpoints.ledger import Notes
from group_coordinator.checkpoints.timeouts import timeout_of
from group_coordinator.coordinator_state.clocks import Leeway
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.step import Channel, steps
from group_coordinator.streaming.decision_log import DecisionLog
from group_coordinator.streaming.group_function import GroupFunction
from group_coordinator.streaming.spool import spooled_in_log_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql.streaming.state import GroupState

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.step import StepResult
    from group_coordinator.streaming.group_function import Row
    from group_coordinator.streaming.settings import CoordinatorSettings

# Few and narrow columns: each costs time for every group of every batch. The append time travels as a
# number because a timestamp column costs more than twice as much.
INPUT_COLUMNS = ("partition", "offset", "timestamp_ms", "value")
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
    """The time that does not count, and how plans tell log time."""
    leeway: Leeway = Leeway(0, 0)
    """By how much requests may seem to be earlier or later than they can be."""

    @classmethod
    def of(
        cls,
        settings: CoordinatorSettings,
        secret: bytes,
        partitions: Mapping[str, int],
        notes: Notes = Notes(),  # noqa: B008 - it does not change
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
            leeway=settings.leeway,
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


_BATCH_ID = "streaming.sql.batchId"
"""Spark's name for the local property that tells a task of which batch it is."""
_NEWEST = 1 << 62
"""The number of a batch that knows all notes: one that is no batch of a query."""
_FULL_ANSWERS = 8
"""A task answers the questions about so many groups in full; about any further group it answers one."""


class StatefulFunction(GroupFunction):
    """The function for `applyInPandasWithState`, keyed by the record key.

    `count` is told what each call has decided, for the metrics. Spark makes one for each task, and gives it
    the groups in the order of their keys. So a batch that runs again gives the same answers.
    """

    INPUT_COLUMNS: ClassVar[tuple[str, ...]] = INPUT_COLUMNS

    def __init__(self, arguments: FunctionArguments, count: Callable[[StepResult], None]) -> None:
        self._arguments = arguments
        self._read_bytes = 0
        """Bytes of all answers so far to requests that only read."""
        self._count = count
        self._log = DecisionLog(arguments.log_level, arguments.log_format)

    def parts(
        self, key: tuple[bytes | None], records: Iterable[tuple[Any, ...]], state: GroupState
    ) -> Iterator[list[Row]]:
        """See `GroupFunction`."""
        arguments = self._arguments
        raw_key = None if key[0] is None else bytes(key[0])
        known = self._known.of(raw_key, state.getCurrentProcessingTimeMs(), state.getCurrentWatermarkMs())
        if known.stands:
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
            self._records(raw_key, records),
            known.watermark_ms,
            config,
            arguments.secret,
            known.outages,
            arguments.layout,
            known.span,
            spooled_in_log_order,
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
            if known.stands:
                _look_again(state)
            elif result.deadline_ms is not None:
                state.setTimeoutTimestamp(timeout_of(result.deadline_ms))
        elif state.exists:
            state.remove()

    def _records(self, key: bytes | None, records: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
        topic = self._arguments.request_topic
        for partition, offset, timestamp_ms, value in records:
            yield Record(topic, partition, offset, timestamp_ms, key, value)

    @cached_property
    def _known(self) -> Known:
        """What the batch knows: that of a task's function, which has no other."""
        task = TaskContext.get()
        number = None if task is None else task.getLocalProperty(_BATCH_ID)
        arguments = self._arguments
        return Known(
            arguments.notes,
            _NEWEST if number is None else int(number),
            arguments.layout.request_partitions,
            arguments.leeway,
        )


def _look_again(state: GroupState) -> None:
    """Look at a group again later, whose partition stands still."""
    if state.exists:
        state.update(tuple(state.get))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + _LOOK_AGAIN_MS)
