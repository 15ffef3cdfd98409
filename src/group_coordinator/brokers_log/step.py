"""One call of the stateful function for a group at the brokers: state and records in, state and outputs out.

The same arguments give the same result, to the byte. However the log is cut into batches, the events are the
same, and of pictures the newest. The watermark alone may tell earlier of commits.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from group_coordinator.brokers_log.changes import changed, deleted, empty_group
from group_coordinator.brokers_log.records import (
    GroupMetadata,
    OffsetCommit,
    Unknown,
    Unreadable,
    read_record,
)
from group_coordinator.brokers_log.state import ObservedGroup, Untold, decode_group, encode_group
from group_coordinator.coordinator_state.committed import CommittedOffsets
from group_coordinator.coordinator_state.events import (
    CommittedPartition,
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

    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.responses import GroupPicture

__all__ = ["ObserveConfig", "Observed", "step"]

_REMEMBERED_MS = 60_000
"""A group that is gone is kept for so long, for its place: it may be made again at once."""


class ObserveConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of what is told about groups at the brokers."""

    offsets: bool = True
    """Whether commits are read. Most records are commits."""
    commits_interval_ms: int = 60_000
    """Events tell of the newest commit of each partition in so much time; 0: of all. Pictures of offsets are
    always the newest."""


class Observed(NamedTuple):
    """The result of one call.

    `state`: the group to be stored, None if nothing is known of one. `deadline_ms`: when to call again if
    nothing comes. `skipped`: the number of records of newer protocols, by kind.
    """

    state: bytes | None
    deadline_ms: int | None
    outputs: list[Output]
    events: list[Event]
    skipped: Counter[int]
    unreadable: list[tuple[Record, Unreadable]]


def step(
    key: bytes, state: bytes | None, records: Iterable[Record], watermark_ms: int, config: ObserveConfig
) -> Observed:
    """Apply `records` of the group with the id `key` (`group_key`) to the stored group, then let time pass.

    `watermark_ms`: log time up to which no more records will come. A record that was read before changes
    nothing.
    """
    group = ObservedGroup(key.decode(errors="replace")) if state is None else decode_group(state)
    watch = _Watch(group, config)
    for record in in_log_order(records):
        watch.take(record)
    return watch.end(watermark_ms)


class _Watch:
    """The group in hand, and what was told so far."""

    def __init__(self, group: ObservedGroup, config: ObserveConfig) -> None:
        self._group, self._config = group, config
        self._offsets = CommittedOffsets(group.offsets)
        self._untold = {(each.topic, each.partition): each for each in group.untold}
        self._events: list[Event] = []
        self._skipped: Counter[int] = Counter()
        self._unreadable: list[tuple[Record, Unreadable]] = []
        self._pictured: int | None = None
        """The place of the newest change that the group's picture shows; None: nothing has changed."""

    def take(self, record: Record) -> None:
        """Take the next record."""
        group = self._group
        if record.offset <= group.read.get(record.partition, -1):
            return
        group.read[record.partition] = record.offset
        since_ms = group.now_ms
        group.now_ms = max(since_ms, min(record.timestamp_ms, MOST_MS))
        if group.tell_ms is not None and group.now_ms >= group.tell_ms:
            self._tell_commits()
        match read_record(record.key, record.value):
            case OffsetCommit() as commit:
                if self._config.offsets:
                    self._take_commit(record, commit)
            case GroupMetadata(written=written):
                # Commits before it are told before it.
                self._tell_commits()
                self._take_group(record, written, since_ms)
            case Unknown() as unknown:
                self._take_unknown(unknown)
            case Unreadable() as unreadable:
                self._unreadable.append((record, unreadable))

    # -- records -----------------------------------------------------------------------------------

    def _take_commit(self, record: Record, commit: OffsetCommit) -> None:
        group, about = self._group, (commit.topic, commit.partition)
        if commit.committed is None:
            self._tell_commits()
            if self._offsets.get(*about) is not None:
                self._offsets.delete(*about, self._next_place())
                picture = group.picture
                gone = OffsetsDeleted(
                    at_ms=group.now_ms,
                    generation_id=0 if picture is None else picture.generation_id,
                    topics=[PartitionsOfTopic(commit.topic, [commit.partition])],
                    cause="unknown",
                )
                self._emit(f"{record}", [gone])
                if not len(self._offsets):
                    self._show_simple_group()
            return
        was_empty = not len(self._offsets)
        self._offsets.put(*about, commit.committed, self._next_place())
        if was_empty:
            group.simple_since_ms = group.now_ms
            self._show_simple_group()
        # The newest comes last, so that times do not go back.
        self._untold.pop(about, None)
        self._untold[about] = Untold(*about, group.now_ms, f"{record}")
        if group.tell_ms is None:
            group.tell_ms = group.now_ms + self._config.commits_interval_ms
        if not self._config.commits_interval_ms:
            self._tell_commits()

    def _take_group(self, record: Record, written: GroupPicture | None, since_ms: int) -> None:
        group, before = self._group, self._group.picture
        if written is not None:
            after, events = changed(before, written, group.now_ms, since_ms, self._offsets)
            group.is_of_newer_protocol = False
        elif before is not None:
            after, events = None, deleted(before, group.now_ms)
            # Kafka deletes a group after its offsets. Offsets that are left are those of a simple group.
            group.simple_since_ms = group.now_ms
        else:
            return
        if after != before:
            group.picture = after
            self._pictured = self._next_place()
        self._emit(f"{record}", events)

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
        picture = self._group.picture
        # Members cannot commit in an Empty group. Other commits do not name their member.
        member_id = "" if picture is not None and not picture.members else None
        generation_id = 0 if picture is None else picture.generation_id
        for at_ms, together in groupby(self._untold.values(), lambda each: each.at_ms):
            topics: dict[str, list[CommittedPartition]] = {}
            for each in together:
                offset = self._offsets.get(each.topic, each.partition)
                assert offset is not None  # noqa: S101 - commits are told before an offset is deleted
                partition = CommittedPartition(
                    partition_index=each.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                )
                topics.setdefault(each.topic, []).append(partition)
            told = OffsetsCommitted(
                at_ms=at_ms,
                generation_id=generation_id,
                member_id=member_id,
                client_id="",
                topics=[OffsetsOfTopic(*each) for each in topics.items()],
            )
            self._emit(each.cause, [told])
        self._untold.clear()
        self._group.tell_ms = None

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
        if self._group.picture is None:
            self._pictured = self._next_place()

    # -- the end -----------------------------------------------------------------------------------

    def end(self, watermark_ms: int) -> Observed:
        """Let time pass, and give out all."""
        group = self._group
        if group.tell_ms is not None and group.tell_ms <= watermark_ms:
            self._tell_commits()
        group.offsets, group.untold = self._offsets.encode(), list(self._untold.values())
        outputs = [event_output(event) for event in self._events]
        if self._pictured is not None:
            picture = group.picture
            if picture is None and group.offsets and not group.is_of_newer_protocol:
                picture = empty_group(group.group_id, group.simple_since_ms)
            value = None if picture is None else msgspec.json.encode(picture)
            outputs.append(Output(Channel.GROUPS, group.group_id.encode(), value, place=self._pictured))
        outputs += offset_outputs(group.group_id, self._offsets)

        forget_ms = group.now_ms + _REMEMBERED_MS
        is_there = bool(group.picture or group.offsets or group.is_of_newer_protocol)
        is_known = is_there or (group.place > 0 and forget_ms > watermark_ms)
        state = encode_group(group) if is_known else None
        deadline_ms = group.tell_ms if is_there else forget_ms if is_known else None
        return Observed(state, deadline_ms, outputs, self._events, self._skipped, self._unreadable)
