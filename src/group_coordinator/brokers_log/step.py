"""One call of the stateful function for a group at the brokers: state and records in, state and outputs out.

The same arguments give the same result, to the byte. However the log is cut into batches, the events are the
same, and of pictures the newest. Batch time alone may tell earlier of commits.

Log time and batch time are two clocks. An observer that catches up reads records of hours in seconds, and the
clock of Spark's driver may be ahead of the brokers'. So batch time is compared with batch time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.brokers_log.changes import changed, deleted, empty_group
from group_coordinator.brokers_log.consumer.changes import take
from group_coordinator.brokers_log.consumer.records import GroupEpoch, Obsolete, is_tombstone
from group_coordinator.brokers_log.consumer.state import WatchedConsumers
from group_coordinator.brokers_log.consumer.telling import Telling
from group_coordinator.brokers_log.records import (
    GroupMetadata,
    OffsetCommit,
    Unknown,
    Unreadable,
    read_record,
)
from group_coordinator.brokers_log.state import Gone, ObservedGroup, Untold, decode_group, encode_group
from group_coordinator.coordinator_state.committed import CommittedOffsets
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER
from group_coordinator.coordinator_state.events import (
    CommittedPartition,
    GroupTypeChanged,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsOfTopic,
    PartitionsOfTopic,
)
from group_coordinator.coordinator_state.foreign import MOST_MS
from group_coordinator.coordinator_state.log import in_log_order
from group_coordinator.coordinator_state.newest import next_place
from group_coordinator.coordinator_state.step import Channel, Output, event_output, offset_outputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.brokers_log.consumer.records import ConsumerRecord
    from group_coordinator.brokers_log.records import AnyRecord
    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.responses import GroupPicture

_CLASSIC = "classic"
_REMEMBERED_MS = 60_000
"""A group that is gone is kept for so long in batch time, for its place: it may be made again at once."""
_GONE_MS = 10_000
"""The record that says how a deletion is meant stands right behind it in log time, perhaps in the next batch.
In batch time it is waited for so long as well."""


class Observed(NamedTuple):
    """The result of one call.

    `state`: the group to be stored, None if nothing is known of one. `deadline_ms`: the batch time of the
    next call if nothing comes. `skipped`: the number of records of newer protocols, by kind. `unreadable`:
    the records that cannot be read, in order.
    """

    state: bytes | None
    deadline_ms: int | None
    outputs: list[Output]
    events: list[Event]
    skipped: Counter[int]
    unreadable: list[Unreadable]


def step(
    key: bytes,
    state: bytes | None,
    records: Iterable[Record],
    batch_ms: int,
    commits_interval_ms: int,
    names: Mapping[str, str],
) -> Observed:
    """Apply `records` of the group with the id `key` to the stored group, then let time pass.

    `batch_ms`: the time of the batch, which is the same if it runs again. A record that was read before
    changes nothing. `commits_interval_ms`: events tell of the newest commit of each partition in so much
    time; 0: of all. Of an Empty group they tell of all as well. Pictures of offsets are always the newest.
    `names`: the names of topics by id, as far as they are known of the records' `topic_ids`.
    """
    group = ObservedGroup(key.decode(errors="replace")) if state is None else decode_group(state)
    watch = _Watch(group, batch_ms, commits_interval_ms, names)
    for record in in_log_order(records):
        watch.take(record)
    return watch.end()


class _Watch:
    """The group in hand, and what was told so far."""

    def __init__(
        self, group: ObservedGroup, batch_ms: int, commits_interval_ms: int, names: Mapping[str, str]
    ) -> None:
        self._group, self._batch_ms, self._names = group, batch_ms, names
        self._commits_interval_ms = commits_interval_ms
        self._offsets = CommittedOffsets(group.offsets)
        self._untold = {(each.topic, each.partition): each for each in group.untold}
        self._events: list[Event] = []
        self._skipped: Counter[int] = Counter()
        self._unreadable: list[Unreadable] = []
        self._telling: Telling | None = None
        """Takes records of the consumer protocol, once there was one."""
        self._pictured: int | None = None
        """The place of the newest change that the group's picture shows; None: nothing has changed."""

    def take(self, record: Record) -> None:
        """Take the next record."""
        group = self._group
        if record.offset <= group.read.get(record.partition, -1):
            return
        group.read[record.partition], group.read_ms = record.offset, self._batch_ms
        since_ms = group.now_ms
        group.now_ms = max(since_ms, min(record.timestamp_ms, MOST_MS))
        if group.tell_ms is not None and group.now_ms >= group.tell_ms:
            self._tell_commits()
        read = read_record(record.key, record.value)
        if group.gone is not None and not self._goes_on(read):
            self._end_group(group.gone)
        match read:
            case OffsetCommit():
                self._take_commit(record, read)
            case GroupMetadata(written=written):
                # Commits before it are told before it.
                self._tell_commits()
                self._take_group(record, written, since_ms)
            case Unknown():
                self._take_unknown(read)
            case Unreadable():
                self._unreadable.append(read)
            case _:
                self._take_of_consumers(record, read)
        if not group.place and not self._is_there():
            # No state is kept of it, so the next batch does not know this time.
            group.now_ms = 0

    # -- records -----------------------------------------------------------------------------------

    def _take_commit(self, record: Record, commit: OffsetCommit) -> None:
        group, about = self._group, (commit.topic, commit.partition)
        if commit.committed is None:
            self._tell_commits()
            if self._offsets.get(*about) is not None:
                self._offsets.delete(*about, self._next_place())
                gone = OffsetsDeleted(
                    at_ms=group.now_ms,
                    generation_id=group.generation_id,
                    topics=[PartitionsOfTopic(commit.topic, [commit.partition])],
                    cause="unknown",
                )
                self._emit(f"{record}", [gone])
                if not len(self._offsets):
                    self._show_simple_group()
            return
        untold = self._untold.get(about)
        if untold is not None and untold.at_ms < group.now_ms and group.committer == "":
            # By hand, each is a reset, and to undo the next one somebody needs what this one has committed.
            self._tell_commits()
        was_empty = not len(self._offsets)
        self._offsets.put(*about, commit.committed, self._next_place())
        if was_empty:
            group.simple_since_ms = group.now_ms
            self._show_simple_group()
        # The newest comes last, so that times do not go back.
        self._untold.pop(about, None)
        self._untold[about] = Untold(*about, group.now_ms, f"{record}")
        if group.tell_ms is None:
            group.tell_ms = group.now_ms + self._commits_interval_ms
        if not self._commits_interval_ms:
            self._tell_commits()

    def _take_group(self, record: Record, written: GroupPicture | None, since_ms: int) -> None:
        group, before = self._group, self._group.picture
        if written is None:
            if before is not None:
                self._lose_group(record)
            return
        events: list[Event] = []
        if group.consumers is not None:
            before, events = self._as_classic(group.consumers), [self._type_changed(CONSUMER, _CLASSIC)]
            group.consumers = self._telling = None
        after, more = changed(before, written, group.now_ms, since_ms, self._offsets)
        group.is_of_newer_protocol, group.gone = False, None
        if after != before or events:
            group.picture = after
            self._pictured = self._next_place()
        self._emit(f"{record}", events + more)

    def _take_of_consumers(self, record: Record, read: ConsumerRecord) -> None:
        group = self._group
        if isinstance(read, Obsolete):
            return
        self._tell_commits()
        events: list[Event] = []
        if is_tombstone(read) and group.consumers is None:
            # Nothing is known that could be gone.
            return
        if isinstance(read, GroupEpoch) and read.epoch is None:
            self._lose_group(record)
            return
        if group.consumers is None:
            if group.picture is None:
                group.consumers = WatchedConsumers(group.now_ms)
            else:
                group.consumers = WatchedConsumers.of_classic(group.picture)
                events = [self._type_changed(_CLASSIC, CONSUMER)]
            group.picture = group.gone = self._telling = None
        if group.is_of_newer_protocol:
            group.is_of_newer_protocol = False
            self._show_simple_group()
        telling = self._telling = self._telling or Telling(group.consumers, self._names, self._offsets)
        telling.now_ms, telling.is_changed = group.now_ms, False
        events += take(telling, read)
        if telling.is_told and (telling.is_changed or events):
            self._pictured = self._next_place()
        self._emit(f"{record}", events)

    def _type_changed(self, from_: str, to: str) -> GroupTypeChanged:
        group = self._group
        return GroupTypeChanged(at_ms=group.now_ms, generation_id=group.generation_id, from_=from_, to=to)

    def _as_classic(self, consumers: WatchedConsumers) -> GroupPicture | None:
        """A group of the consumer protocol as it was before it went on as a classic one."""
        if not consumers.told_state:
            return None
        group_id = self._group.group_id
        if not consumers.members:
            return empty_group(group_id, consumers.state_timestamp_ms)
        return replace(consumers.picture(group_id), group_type=_CLASSIC, assignment_epoch=UNSET)

    # -- the end of a group ------------------------------------------------------------------------

    def _lose_group(self, record: Record) -> None:
        """The record that is there as long as the group was deleted."""
        group = self._group
        group.gone = Gone(f"{record}", group.now_ms)
        # Kafka deletes groups without members only, and their offsets before them.
        if not group.members and not len(self._offsets):
            self._end_group(group.gone)

    def _goes_on(self, read: AnyRecord) -> bool:
        """Whether a group whose record was deleted may go on, now that this record follows."""
        group = self._group
        assert group.gone is not None  # noqa: S101 - or nobody would ask
        if group.now_ms >= group.gone.at_ms + _GONE_MS:
            return False
        match read:
            case GroupMetadata(written=written):
                return group.consumers is not None or written is None
            case OffsetCommit() | Unknown() | Unreadable():
                return False
            case _:
                return group.consumers is None or is_tombstone(read)

    def _end_group(self, gone: Gone) -> None:
        """The group is gone, as of then."""
        group = self._group
        before = group.shown()
        if before is not None:
            self._emit(gone.cause, deleted(before, gone.at_ms))
            # Offsets that are left are those of a simple group.
            group.simple_since_ms = gone.at_ms
            self._pictured = self._next_place()
        group.picture = group.consumers = group.gone = self._telling = None

    def _take_unknown(self, unknown: Unknown) -> None:
        self._skipped[unknown.kind] += 1
        if not unknown.is_tombstone or unknown.is_group:
            was = self._group.is_of_newer_protocol
            self._group.is_of_newer_protocol = not unknown.is_tombstone
            if was is unknown.is_tombstone:
                self._show_simple_group()

    # -- what is told ------------------------------------------------------------------------------

    def _tell_commits(self) -> None:
        """Tell of the newest commits: those of one time together, as clients commit partitions together."""
        group = self._group
        for at_ms, commits in groupby(self._untold.values(), lambda each: each.at_ms):
            together = list(commits)
            told = OffsetsCommitted(
                at_ms=at_ms,
                generation_id=group.generation_id,
                member_id=group.committer,
                client_id="",
                topics=_committed(together, self._offsets),
            )
            self._emit(together[-1].cause, [told])
        self._untold.clear()
        group.tell_ms = None

    def _emit(self, cause: str, events: Iterable[Event]) -> None:
        """Take the events of one record, and fill in what names them."""
        for number, event in enumerate(events):
            named = replace(event, event_id=f"{cause}-{number}", group_id=self._group.group_id)
            self._events.append(named)

    def _next_place(self) -> int:
        self._group.place = next_place(self._group.now_ms, self._group.place)
        return self._group.place

    def _show_simple_group(self) -> None:
        """Note that a group has come or gone of which there are offsets alone."""
        if self._group.members is None:
            self._pictured = self._next_place()

    # -- the end -----------------------------------------------------------------------------------

    def _is_there(self) -> bool:
        group = self._group
        return bool(group.picture or group.consumers or len(self._offsets) or group.is_of_newer_protocol)

    def end(self) -> Observed:
        """Let time pass, and give out all."""
        group, batch_ms = self._group, self._batch_ms
        gone_ms, forget_ms = group.read_ms + _GONE_MS, group.read_ms + _REMEMBERED_MS
        if group.tell_ms is not None and group.tell_ms <= batch_ms:
            self._tell_commits()
        if group.gone is not None and gone_ms <= batch_ms:
            self._end_group(group.gone)
        group.offsets, group.untold = self._offsets.encode(), list(self._untold.values())
        outputs = [event_output(event) for event in self._events]
        if self._pictured is not None:
            picture = group.shown()
            if picture is None and group.offsets and not group.is_of_newer_protocol:
                picture = empty_group(group.group_id, group.simple_since_ms)
            value = None if picture is None else msgspec.json.encode(picture)
            outputs.append(Output(Channel.GROUPS, group.group_id.encode(), value, place=self._pictured))
        outputs += offset_outputs(group.group_id, self._offsets)

        is_there = self._is_there()
        is_known = is_there or (group.place > 0 and forget_ms > batch_ms)
        state = encode_group(group) if is_known else None
        due = (group.tell_ms, None if group.gone is None else gone_ms)
        told_ms = min((each for each in due if each is not None), default=None)
        deadline_ms = told_ms if is_there else forget_ms if is_known else None
        return Observed(state, deadline_ms, outputs, self._events, self._skipped, self._unreadable)


def _committed(commits: Iterable[Untold], offsets: CommittedOffsets) -> list[OffsetsOfTopic]:
    """The offsets that were committed, by topic."""
    topics: dict[tuple[str, str], list[CommittedPartition]] = {}
    for each in commits:
        offset = offsets.get(each.topic, each.partition)
        assert offset is not None  # noqa: S101 - commits are told before an offset is deleted
        partition = CommittedPartition(
            partition_index=each.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )
        topics.setdefault((each.topic, offset.topic_id), []).append(partition)
    return [OffsetsOfTopic(name, each, topic_id or UNSET) for (name, topic_id), each in topics.items()]
