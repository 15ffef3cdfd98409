"""One group's turn: the group, the time, and what has been decided so far.

Kafka's Java coordinator has every handler return a `CoordinatorResult`: the response and the records to
append. A turn is the same idea for many requests: handlers change the group and add replies and events
here; nothing leaves before the whole turn is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from group_coordinator.coordinator_state.committed import CommittedOffsets
from group_coordinator.coordinator_state.deadlines import Deadlines
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import ClockCorrected, GroupCreated, GroupTypeChanged
from group_coordinator.coordinator_state.group import DeadlineKind, Group
from group_coordinator.coordinator_state.layout import UNMEASURED, Layout
from group_coordinator.coordinator_state.newest import PLACE_BITS, next_place
from group_coordinator.coordinator_state.outages import NO_OUTAGES

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.clocks import Span
    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.events import Event
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.outages import Outages
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.coordinator_state.responses import InvalidRequestResponse, ReplyTo, Response

_FRESH_MS = 10_000
"""A reader of pictures has read each that is older than this."""
_REMEMBERED_MS = 60_000
"""No request is late by so much: the core corrects its time (`clocks.py`), unless `clock.max.gap.ms` and
`trigger.interval.ms` are more."""

GroupT_co = TypeVar("GroupT_co", bound=Group, covariant=True)


class Reply(NamedTuple):
    """A response and the partition its reader reads (None: the one the client id's hash names).

    `member_id`: the member that it is about; empty if it is about none, or about several. `place`: of the
    newest picture of the group, which may not be written yet; None if there is no new one.
    """

    response: Response | InvalidRequestResponse
    partition: int | None
    member_id: str = ""
    place: int | None = None


class Turn(Generic[GroupT_co]):
    """The group in hand (None if it does not exist), log time, and the decisions of this turn.

    Rules of one kind of group take a turn with such a group, all others a `Turn[Group]`.
    """

    def __init__(
        self,
        group_id: str,
        group: GroupT_co | None,
        config: GroupConfig,
        outages: Outages = NO_OUTAGES,
        layout: Layout = UNMEASURED,
        span: Span | None = None,
    ) -> None:
        self.group_id = group_id
        self.config = config
        self.layout = layout
        self.outages = outages
        self.span = span
        """The times that its requests can be of; None: a replay, to which it is told."""
        self.offsets = CommittedOffsets(group.offsets if group else b"")
        """The committed offsets of the group; none while there is no group."""
        self.now_ms = group.now_ms if group else 0
        self.replies: list[Reply] = []
        self.events: list[Event] = []
        self.read_bytes = 0
        """Bytes of the answers that change nothing."""
        self.is_reading = False
        """Whether the request in hand only asks, or asks again for what was told before."""
        self._told: set[tuple[type, str]] = set()
        self.picture_place: int | None = None
        """The place of the newest change that the group's picture shows; None: nothing has changed."""
        self._group: Group | None = group
        self._deadlines = Deadlines(group) if group else None
        self._cause: Record | str = ""
        self._request: AnyRequest | None = None
        self._effects = 0
        self._corrected: tuple[Record, ClockCorrected] | None = None
        """The newest record that has shown a wrong clock while its group was not known."""
        self._place: int | None = None
        self._replied = 0
        """Replies before this number are to earlier causes, or tell the place of their cause already."""

    # -- the group -------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether there is a group."""
        return self._group is not None and not self._group.is_dead

    @property
    def is_known(self) -> bool:
        """Whether there is a group, or one was deleted lately. So its time is known."""
        return self._group is not None

    @property
    def group(self) -> GroupT_co:
        """The group, where a rule has made sure that it exists, or is known."""
        assert self._group is not None  # noqa: S101 - a bug of ours if it is
        # No cast: it is a call, and rules ask all the time.
        return self._group  # type: ignore[return-value]

    @property
    def deadlines(self) -> Deadlines:
        """The deadlines of `group`."""
        assert self._deadlines is not None  # noqa: S101 - same
        return self._deadlines

    @property
    def is_closed(self) -> bool:
        """Whether there are as many groups as there may be."""
        return self.outages.closed_at(self.now_ms)

    def has(self, kind: str) -> bool:
        """Whether there is a group, and it is of this kind."""
        return self._group is not None and not self._group.is_dead and kind == self._group.KIND

    def create_group(self, group: Group) -> None:
        """Create `group`, which has this turn's group id. Not if `is_closed`, unless there is one.

        That one is Empty and of another kind. It gives way, and leaves its offsets.
        """
        before = self._group
        event: Event = GroupCreated()
        if before is not None:
            group.place, group.clocks = before.place, before.clocks
            if not before.is_dead:
                event = GroupTypeChanged(from_=before.KIND, to=group.KIND)
        self._group = group
        self._deadlines = Deadlines(group)
        self.await_cleanup()
        self.emit(event)
        if self._corrected is not None and self._corrected[0] is self._cause:
            self._keep_clock(self._corrected[1])

    def stored_group(self) -> GroupT_co:
        """The group with its offsets as they are now."""
        self.group.seal()
        self.group.offsets = self.offsets.encode()
        return self.group

    def await_oblivion(self) -> None:
        """Forget the group, which is deleted, when no request can be late for it any more."""
        self.deadlines.set(DeadlineKind.CLEANUP, self.now_ms + _REMEMBERED_MS)

    def forget_group(self) -> None:
        """Forget the group, which is deleted."""
        self._group = self._deadlines = None

    # -- time ------------------------------------------------------------------------------------

    def set_time(self, now_ms: int) -> None:
        """Set log time to `now_ms`."""
        self.now_ms = now_ms
        if self._group is not None:
            self._group.now_ms = self.now_ms

    def shift_ms(self, partition: int) -> int:
        """Return the milliseconds by which append times of a request partition count later."""
        return self._group.clocks.get(partition, 0) if self._group is not None else 0

    def seems_ms(self, record: Record) -> int:
        """The time at which a record seems to have come, before any of its batch has been handled."""
        shift_ms = self.shift_ms(record.partition)
        if self.span is None:
            return record.timestamp_ms + shift_ms
        correction = self.span.correction(record.timestamp_ms, shift_ms)
        if correction is None:
            return record.timestamp_ms + shift_ms
        # One that cannot be right comes first: no time counts for others before it.
        return record.timestamp_ms if correction.skipped_ms == 0 else self.span.earliest_ms

    def correct_clock(self, record: Record, shift_ms: int, skipped_ms: int) -> None:
        """Let append times count `shift_ms` later from `record` on, for the group that it is for.

        If that is not known, the record may create it; of others nothing is kept.
        """
        corrected = ClockCorrected(
            partition=record.partition,
            offset=record.offset,
            appended_ms=record.timestamp_ms,
            shift_ms=shift_ms,
            skipped_ms=skipped_ms,
        )
        # Also if there is no group: a replay may still know one that the time has ended by now.
        self.begin(f"{record}-clock")
        self.emit(corrected)
        if self.is_known:
            self._keep_clock(corrected)
        else:
            self._corrected = record, corrected

    def _keep_clock(self, corrected: ClockCorrected) -> None:
        if corrected.shift_ms:
            self.group.clocks[corrected.partition] = corrected.shift_ms
        else:
            self.group.clocks.pop(corrected.partition, None)

    def restart_session(self, member_id: str, session_timeout_ms: int) -> None:
        """Restart the session of a member: it ends a session timeout from now."""
        self.deadlines.set(DeadlineKind.SESSION, self.now_ms + session_timeout_ms, member_id)

    def await_cleanup(self) -> None:
        """Check after the retention check interval whether something is not used any more."""
        at_ms = self.now_ms + self.config.offsets_retention_check_interval_ms
        self.deadlines.set(DeadlineKind.CLEANUP, at_ms)

    # -- decisions -------------------------------------------------------------------------------

    def begin(self, cause: Record | str, request: AnyRequest | None = None) -> None:
        """Name the `cause` of the decisions that follow: a record, with the request in it, or a deadline."""
        self._cause = cause
        self._request = request
        self.is_reading = request is not None and request.IS_READING
        self._effects = 0
        self._place = None
        self._replied = len(self.replies)

    @property
    def may_read(self) -> bool:
        """Whether more may be told that changes nothing (`max.read.bytes`)."""
        return self.read_bytes <= self.config.max_read_bytes

    def may_tell(self, lasting_id: str) -> bool:
        """Return whether the request in hand may be told what the member was told before.

        Once in a turn it always may. `lasting_id`: the member's.
        """
        asked = type(self._request), lasting_id
        if asked not in self._told:
            self._told.add(asked)
            return True
        self.is_reading = True
        return self.may_read

    @property
    def place(self) -> int:
        """The place of the cause in the log, to be published with what it changes (`newest.py`).

        A group that is deleted and made again goes on from the places of the former one.
        """
        if self._place is None:
            self._place = self.group.place = next_place(self.now_ms, self.group.place)
        return self._place

    def answer(
        self, request: AnyRequest, error: Errors = Errors.NONE, message: str | None = None, **fields: Any
    ) -> None:
        """Answer `request` with the response of its API, whose own fields are `fields`."""
        response = request.RESPONSE.to(request.reply_to, self.group_id, error, message, **fields)
        self.replies.append(Reply(response, request.reply_partition, request.member_named, self._pictured()))

    def reply(self, reply_to: ReplyTo, response: Response, member_id: str = "") -> None:
        """Send a response to a request that was parked, or that is about a member it does not name.

        `member_id`: the member that it is about, if about one.
        """
        self.replies.append(Reply(response, reply_to.partition, member_id, self._pictured()))

    def _pictured(self) -> int | None:
        """The place of the newest picture, if it is new: an older one lacks what is told."""
        place = self._group.pictured if self._group else 0
        return place if place and self.now_ms - (place >> PLACE_BITS) < _FRESH_MS else None

    def emit(self, event: Event) -> None:
        """Record that `event` happened to the group, and fill in the fields of all events."""
        request = self._request
        self.events.append(
            msgspec.structs.replace(
                event,
                event_id=f"{self._cause}-{self._effects}",
                at_ms=self.now_ms,
                group_id=self.group_id,
                generation_id=self._group.generation_id if self._group else 0,
                request_id=request.request_id if request else None,
                principal=(request and request.principal) or msgspec.UNSET,
            )
        )
        self._effects += 1
        if event.IS_PICTURED:
            self.change_picture()

    def change_picture(self) -> None:
        """Note that something has changed that the group's picture shows."""
        self.picture_place = self.group.pictured = self.place
        # A rule may reply before it changes the group.
        for number in range(self._replied, len(self.replies)):
            self.replies[number] = self.replies[number]._replace(place=self.place)
        self._replied = len(self.replies)
