"""The coordinator of one group: requests and time in, decisions out.

    coordinator = GroupCoordinator(turn, secret)
    coordinator.advance(record)           # nothing came until then
    coordinator.handle(request, record)   # this came, at that place of the log
    coordinator.let_pass(watermark_ms)    # nothing more came until then
    turn.replies, turn.events             # what was decided, in order

Each decision is a function of the group, the records and their times. A deadline that is due before a record
fires before it. So it makes no difference how the log is cut into batches. Only one thing would: a record may
come after a later deadline, because the watermark has passed both. An event tells that (`RequestLate`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import RequestLate
from group_coordinator.coordinator_state.group import DeadlineKind
from group_coordinator.coordinator_state.kinds import KINDS
from group_coordinator.coordinator_state.member_ids import member_id_of
from group_coordinator.coordinator_state.offsets.retention import clean_up
from group_coordinator.coordinator_state.routes import apply

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.clocks import Correction
    from group_coordinator.coordinator_state.deadlines import Deadline
    from group_coordinator.coordinator_state.kinds import AnyGroup
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.requests import AnyRequest
    from group_coordinator.coordinator_state.turn import Turn


class GroupCoordinator:
    """Applies requests and time to the group of one `turn`."""

    def __init__(self, turn: Turn[AnyGroup], secret: bytes) -> None:
        self._turn = turn
        self._secret = secret

    def advance(self, record: Record) -> None:
        """Advance time to when `record` came. Each deadline up to then fires at its own time.

        That is its append time, unless its broker's clock is wrong. Time does not go back: an earlier record
        changes nothing. That holds while a group is known. Of others nothing is kept between two batches, so
        nothing may be kept within one.
        """
        turn, span, correction = self._turn, self._turn.span, record.correction
        shift_ms = turn.shift_ms(record.partition)
        if correction is None and span is not None:
            correction = span.correction(record.timestamp_ms, shift_ms)
        if correction is not None:
            shift_ms = correction.shift_ms
        to_ms, late_ms = record.timestamp_ms + shift_ms, record.late_ms
        if span is not None and to_ms > span.until_ms:
            late_ms = to_ms = span.until_ms
        if turn.is_known and turn.group.is_ahead:
            # A request in an outage counts as of its end.
            if max([to_ms, *(it.end_ms for it in turn.outages.between(to_ms, to_ms))]) < turn.now_ms:
                late_ms = turn.now_ms
            turn.group.is_ahead = False
        if late_ms is not None:
            to_ms = late_ms
        if correction is not None:
            turn.correct_clock(record, shift_ms, self._skip(correction, to_ms))
        turn.set_time(self._pass_until(to_ms))
        if late_ms is not None:
            turn.begin(f"{record}-late")
            late = RequestLate(
                partition=record.partition, offset=record.offset, appended_ms=record.timestamp_ms
            )
            turn.emit(late)

    def _skip(self, correction: Correction, to_ms: int) -> int:
        """Come to the time of a request whose clock has jumped; return how much before it does not count."""
        turn, skipped_ms = self._turn, correction.skipped_ms
        if skipped_ms is None:
            assert turn.span is not None, "a replay is told"  # noqa: S101
            from_ms = turn.span.watermark_ms
        else:
            from_ms = to_ms - skipped_ms
        from_ms = self._pass_until(min(from_ms, to_ms))
        skipped_ms = max(to_ms - from_ms, 0)
        if turn.is_known and skipped_ms:
            turn.deadlines.put_off(skipped_ms)
        turn.set_time(from_ms + skipped_ms)
        return skipped_ms

    def let_pass(self, watermark_ms: int) -> None:
        """Let time pass without a request. Each deadline up to then fires at its own time.

        The group's time is that of the newest thing that has happened to it. So it makes no difference to a
        request that is read after this and was appended before `watermark_ms`, unless something did happen.
        """
        turn = self._turn
        before_ms = turn.now_ms
        self._pass_until(watermark_ms)
        if turn.is_known and turn.now_ms > before_ms:
            turn.group.is_ahead = True

    def _pass_until(self, to_ms: int) -> int:
        """Fire deadlines up to `to_ms`, in order; return what it is, at least the group's time.

        In an outage no time passes: it is over at once, and what lies in it comes at its end. Time stays
        before `LATEST_MS`.
        """
        turn = self._turn
        to_ms = min(to_ms, LATEST_MS - 1)
        from_ms = turn.now_ms if turn.is_known else to_ms
        to_ms = max(from_ms, to_ms)
        for outage in turn.outages.between(from_ms, to_ms):
            self._fire(outage.start_ms)
            end_ms = min(outage.end_ms, LATEST_MS - 1)
            if turn.is_known:
                turn.deadlines.put_off(outage.end_ms - outage.start_ms)
                turn.set_time(end_ms)
            to_ms = max(to_ms, end_ms)
        self._fire(to_ms)
        return to_ms

    def _fire(self, to_ms: int) -> None:
        turn = self._turn
        fired_at = None
        while turn.is_known and (deadline := turn.deadlines.pop(to_ms)) is not None:
            if deadline.at_ms != fired_at:
                fired_at = deadline.at_ms
                turn.set_time(deadline.at_ms)
                turn.begin(f"{turn.group_id}@{deadline.at_ms}")
            self._expire(deadline)

    def handle(self, request: AnyRequest, record: Record) -> str | None:
        """Apply `request`, which came as `record`, at the time that has been advanced to.

        Return why it cannot be, if it is refused without an answer.
        """
        turn = self._turn
        turn.begin(record, request)
        error, message = request.precheck()
        if error is not Errors.NONE:
            turn.reply(request.reply_to, request.refused(error, message), request.member_named)
            return None
        if turn.is_reading and not turn.may_read:
            message = "too much was asked about this group at once: ask again"
            turn.answer(request, Errors.COORDINATOR_LOAD_IN_PROGRESS, message)
            return None
        refused = apply(turn, request, record, partial(member_id_of, self._secret, record))
        self._fire_due()
        return refused

    def _expire(self, deadline: Deadline) -> None:
        if deadline.kind is DeadlineKind.CLEANUP:
            clean_up(self._turn)
        else:
            KINDS[self._turn.group.KIND].expire(self._turn, deadline)

    def _fire_due(self) -> None:
        # A deadline may be due at once (no initial delay, a timeout of 0). It is part of what the record did,
        # so its events have ids of the record. After this every deadline lies in the future.
        turn = self._turn
        while turn.is_known and (deadline := turn.deadlines.pop(turn.now_ms)) is not None:
            self._expire(deadline)
