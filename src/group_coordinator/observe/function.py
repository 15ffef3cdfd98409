"""The stateful function, between Spark's `GroupState` and the pure `step` of groups at the brokers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

from group_coordinator.brokers_log.records import topic_ids
from group_coordinator.brokers_log.step import step
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.newest import header
from group_coordinator.coordinator_state.step import Channel
from group_coordinator.coordinator_state.topics import BROKERS_LOG
from group_coordinator.streaming.group_function import GroupFunction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pyspark.sql.streaming.state import GroupState

    from group_coordinator.observe.seen import Seen
    from group_coordinator.streaming.group_function import Row

INPUT_COLUMNS = ("partition", "offset", "timestamp_ms", "record_key", "value")


class ObserveFunction(GroupFunction):
    """The function for `applyInPandasWithState`, keyed by the bytes of the group's id.

    It is shipped to the Python workers. `commits_interval_ms`: see `step`. `topics`: those that it writes to.
    `largest`: bytes that a record may have in any of them. `names` finds the names of topics out, by their
    ids. `count` is told what each call has seen.

    Nothing expires here, so time is no matter of promises. The time
    of the batch, which Spark keeps with its plan, only says when commits are told that nothing has followed.
    It says as well when a group that is gone is told and forgotten.
    """

    INPUT_COLUMNS: ClassVar[tuple[str, ...]] = INPUT_COLUMNS

    def __init__(
        self,
        *,
        commits_interval_ms: int,
        topics: Mapping[Channel, str],
        largest: int,
        names: Callable[[Collection[str]], Mapping[str, str]],
        count: Callable[[Seen], None],
    ) -> None:
        self._commits_interval_ms, self._topics, self._largest = commits_interval_ms, topics, largest
        self._names, self._count = names, count

    def parts(
        self, key: tuple[bytes | None], records: Iterable[tuple[Any, ...]], state: GroupState
    ) -> Iterator[list[Row]]:
        """See `GroupFunction`."""
        batch_ms = state.getCurrentProcessingTimeMs()
        log = [Record(BROKERS_LOG, *record) for record in records]
        ids = topic_ids(log)
        names = self._names(ids) if ids else {}
        observed = step(
            b"" if key[0] is None else bytes(key[0]),
            bytes(state.get[0]) if state.exists else None,
            log,
            batch_ms,
            self._commits_interval_ms,
            names,
        )
        seen: Seen = Counter()
        if missing := len(ids) - len(names):
            seen["unnamed_topics", "unknown"] += missing
        for event in observed.events:
            seen["events", str(event.__struct_config__.tag)] += 1
        for kind, count in observed.skipped.items():
            seen["skipped_records", str(kind)] += count
        for unreadable in observed.unreadable:
            seen["unreadable_records", "newer version" if unreadable.is_newer else "damaged"] += 1
        rows: list[Row] = []
        for channel, record_key, value, partition, place in observed.outputs:
            if value is not None and len(value) > self._largest:
                # It would end the query, again and again.
                seen["unwritten_records", channel.value] += 1
                continue
            headers = None if place is None else [header(place)]
            rows.append((self._topics[channel], record_key, value, partition, headers))
        self._count(seen)
        yield rows
        if observed.state is not None:
            state.update((observed.state,))
            if observed.deadline_ms is not None:
                state.setTimeoutDuration(max(observed.deadline_ms - batch_ms, 1))
        elif state.exists:
            state.remove()
