"""`--to-history` and `--undo`: what groups had committed, as history and events tell it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError
from kafka.structs import OffsetAndMetadata, TopicPartition

from group_coordinator.client.events import EventReader
from group_coordinator.commands.tables import Note, Report
from group_coordinator.commands.times import utc_text
from group_coordinator.coordinator_state.naming import some_of
from group_coordinator.coordinator_state.offsets.still_there import Found, is_made_again
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.past import LastReset, Past

if TYPE_CHECKING:
    from group_coordinator.history.reader import HistoryReader
    from group_coordinator.history.rows import OffsetChange

_POLL_MS = 500
_MOST_NAMED = 10

Wanted = Mapping[str, Collection[TopicPartition] | None]
"""By group the partitions that are meant; None: all."""
Current = Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
"""By group what is committed now."""
Find = Callable[[Collection[str]], Mapping[str, Found]]
"""Looks topics up, by name."""
Commits: TypeAlias = "dict[TopicPartition, OffsetChange]"


@dataclass(frozen=True)
class AsItWas:
    """The offsets of groups at a `moment`, or (None) before the last reset of each group.

    `events`: opens the topic of events at the offset after each of these, by partition.
    """

    reader: HistoryReader
    events: Callable[[Mapping[int, int]], AbstractContextManager[EventReader]]
    timeout_ms: int
    moment: datetime | None = None

    def commits(self, wanted: Wanted, current: Current, find: Find, report: Report) -> dict[str, Commits]:
        """The commits to go back to, by group. The report is told of groups and partitions without one."""
        try:
            with self.events(self.reader.ends()) as events:
                past = Past(self.reader, wanted.keys(), events_after(events, self.timeout_ms))
            if self.moment is None:
                commits = _undone(past, wanted, current, report)
            else:
                commits = _at(past, self.moment, wanted, current, report)
            return _of_same_topics(commits, find, report)
        except HistoryError as error:
            report.fail(str(error))
        except OffsetOutOfRangeError as error:
            report.fail(f"The events do not follow on what the history has read: {error.args[0]}")
        return {}


def events_after(events: EventReader, timeout_ms: int) -> Iterator[tuple[int, bytes]]:
    """Yield all that there was at first, each event with its offset. Raises KafkaTimeoutError."""
    deadline = time.monotonic() + timeout_ms / 1_000
    while not events.has_caught_up:
        if found := events.poll_placed(_POLL_MS):
            deadline = time.monotonic() + timeout_ms / 1_000
        elif time.monotonic() > deadline:
            raise KafkaTimeoutError(f"the events could not be read for {timeout_ms} ms")
        yield from ((offset, msgspec.json.encode(event)) for offset, event in found)


# -- at a moment -----------------------------------------------------------------------------------------


def _at(past: Past, moment: datetime, wanted: Wanted, current: Current, report: Report) -> dict[str, Commits]:
    reached = past.reaches_to()
    if reached is None or moment > reached:
        reach = "has no event yet" if reached is None else f"reaches to {utc_text(reached)}"
        raise HistoryError(f"The history {reach}, and not to {utc_text(moment)}")
    begins, rows = past.begins(), past.at(moment)
    commits: dict[str, Commits] = {}
    for group_id, partitions in wanted.items():
        begin = begins.get(group_id)
        if begin is None:
            report.fail(f"The history knows no group '{group_id}'")
        elif moment < begin:
            report.fail(
                f"Group '{group_id}' cannot be reset to {utc_text(moment)}: the history knows it since "
                f"{utc_text(begin)}"
            )
        else:
            of_group = _by_partition(rows.get(group_id, {}))
            known = {each for each, row in of_group.items() if row.change == "committed"}
            meant = known | current[group_id].keys() if partitions is None else set(partitions)
            commits[group_id] = {each: of_group[each] for each in sorted(meant & known)}
            report.items += _left(group_id, meant - known, of_group, f"at {utc_text(moment)}")
    return commits


def _left(
    group_id: str,
    partitions: Iterable[TopicPartition],
    rows: Mapping[TopicPartition, OffsetChange],
    when: str,
) -> Iterator[Note]:
    """Tell of partitions that stay as they are, because nothing was committed then."""
    by_reason: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for each in sorted(partitions):
        by_reason[rows[each].change if each in rows else ""].append(each)
    for reason, names in by_reason.items():
        what = _WENT.get(reason, "no commit is known")
        yield Note(f"warning: Group '{group_id}' stays as it is in {_names(names)}, of which {what} {when}.")


_WENT = {
    "deleted": "the offsets were deleted",
    "expired": "the offsets had expired",
    "gone": "the offsets were deleted or had expired",
}


# -- before the last reset -------------------------------------------------------------------------------


def _undone(past: Past, wanted: Wanted, current: Current, report: Report) -> dict[str, Commits]:
    resets = past.last_resets()
    commits: dict[str, Commits] = {}
    for group_id, partitions in wanted.items():
        last = resets.get(group_id)
        if last is None:
            report.fail(f"No reset of group '{group_id}' is known")
        elif untold := _untold(last, current[group_id]):
            report.fail(
                f"The events do not tell yet of what group '{group_id}' has committed in "
                f"{_names(untold)}: ask again in a minute"
            )
        else:
            commits[group_id] = _before(group_id, last, partitions, report)
    return commits


def _untold(last: LastReset, current: Mapping[TopicPartition, OffsetAndMetadata]) -> list[TopicPartition]:
    """The partitions of which the newest event tells something else than what is committed."""
    newest = _by_partition(last.newest)
    return sorted(
        each
        for each, now in current.items()
        if each in newest
        and (newest[each].change, newest[each].committed_offset) != ("committed", now.offset)
    )


def _before(
    group_id: str, last: LastReset, partitions: Collection[TopicPartition] | None, report: Report
) -> Commits:
    reset, before, gone = map(_by_partition, (last.reset, last.before, last.newest_gone))
    meant = reset.keys() if partitions is None else reset.keys() & set(partitions)
    first = min(row.at for row in reset.values())
    by = next(iter(reset.values())).client_id
    report.note(f"The last reset of group '{group_id}' was at {utc_text(first)}{f', by {by}' if by else ''}.")
    since = {each for each in meant & gone.keys() if gone[each].place > reset[each].place}
    report.items += _left(group_id, since, gone, "since its last reset")
    known = {each for each in meant - since if each in before and before[each].change == "committed"}
    report.items += _left(group_id, meant - since - known, before, "before its last reset")
    return {each: before[each] for each in sorted(known)}


def _of_same_topics(commits: dict[str, Commits], find: Find, report: Report) -> dict[str, Commits]:
    """Leave out what was committed in a topic before it was made again: the offset means another record."""
    rows = [row for of_group in commits.values() for row in of_group.values()]
    found = find({row.topic for row in rows if row.topic_id})
    same: dict[str, Commits] = {}
    for group_id, of_group in commits.items():
        others = {
            each
            for each, row in of_group.items()
            if each.topic in found and is_made_again(row.topic_id or "", found[each.topic])
        }
        same[group_id] = {each: row for each, row in of_group.items() if each not in others}
        if others:
            report.note(
                f"warning: Group '{group_id}' stays as it is in {_names(sorted(others))}, because the "
                "topic was deleted and made again since."
            )
    return same


def _by_partition(rows: Mapping[tuple[str, int], OffsetChange]) -> dict[TopicPartition, OffsetChange]:
    return {TopicPartition(*each): row for each, row in rows.items()}


def _names(partitions: Collection[TopicPartition]) -> str:
    return some_of(list(partitions), _MOST_NAMED, lambda each: f"{each.topic}-{each.partition}")
