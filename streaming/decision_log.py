"""Decisions about groups as lines for people, on the stderr of the Python worker that decides.

A line tells of one event, with the event's own names (`docs/contract.md`), or of a request and its answer. A
batch that runs again logs again; `event_id` is the same then. Data that members tell each other may be
private: subscriptions, assignments, the metadata of offsets. So a line tells at most their number, and of a
record that cannot be read only its place.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import structlog
from msgspec import UNSET
from structlog.typing import FilteringBoundLogger

from group_coordinator.coordinator_state import events
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.responses import (
    ConsumerGroupHeartbeatResponse,
    HeartbeatResponse,
    InvalidRequestResponse,
    LeaveGroupResponse,
)
from group_coordinator.jobs.logs import line_processors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import WrappedLogger

    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.step import StepResult
    from group_coordinator.coordinator_state.turn import Reply
    from group_coordinator.coordinator_state.wire import Rejection


class _Line(NamedTuple):
    """How an event is told: with these of its fields, and of lists how long they are."""

    level: int
    fields: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()


_INSTANCE = ("group_instance_id", "client_id")
_JOIN = ("join_phase_ms", "client_reason")
# INFO is what changes a group, and can be left on; DEBUG what also comes while nothing changes, or often.
_LINES: dict[type[events.Event], _Line] = {
    events.GroupCreated: _Line(logging.INFO),
    events.StateChanged: _Line(logging.INFO, ("from_", "to", "reason", "cause", "rebalance_ms")),
    events.MemberAdded: _Line(logging.INFO, (*_INSTANCE, "client_host", *_JOIN)),
    events.MemberRejoined: _Line(logging.DEBUG, (*_INSTANCE, *_JOIN)),
    events.MemberRemoved: _Line(logging.INFO, (*_INSTANCE, "reason", "client_reason")),
    events.SessionNearlyExpired: _Line(logging.DEBUG, (*_INSTANCE, "session_timeout_ms", "remaining_ms")),
    events.MemberFenced: _Line(logging.INFO, (*_INSTANCE, "replaced_by", "client_host", "client_reason")),
    events.GenerationCompleted: _Line(
        logging.INFO, ("protocol_type", "protocol_name", "leader"), ("members",)
    ),
    events.GenerationWrapped: _Line(logging.INFO),
    events.RebalancePostponed: _Line(logging.INFO, ("until_ms",)),
    events.AssignmentPropagated: _Line(logging.DEBUG, ("protocol_type",), ("assignments",)),
    events.OffsetsCommitted: _Line(logging.DEBUG, ("client_id", "client_reason"), ("topics",)),
    events.OffsetsDeleted: _Line(logging.INFO, ("client_reason",), ("topics",)),
    events.OffsetsExpired: _Line(logging.INFO, (), ("topics",)),
    events.GroupDeleted: _Line(logging.INFO),
    events.RequestLate: _Line(logging.DEBUG, ("partition", "offset", "appended_ms")),
    events.ClockCorrected: _Line(
        logging.INFO, ("partition", "offset", "appended_ms", "shift_ms", "skipped_ms")
    ),
    events.GroupTypeChanged: _Line(logging.INFO, ("from_", "to")),
    events.TopicsChanged: _Line(logging.INFO, ("metadata_version",), ("topics", "gone")),
    events.SubscriptionChanged: _Line(logging.DEBUG, ("group_instance_id", "server_assignor"), ("topics",)),
    events.TargetAssigned: _Line(logging.INFO, ("assignment_epoch", "protocol_name"), ("assignments",)),
    events.MemberReconciled: _Line(logging.DEBUG, ("group_instance_id", "member_epoch")),
    events.MemberAway: _Line(logging.INFO, _INSTANCE),
}
# Refusals by which a client learns how it has to go on, as happens in every rebalance.
_ORDINARY = frozenset({Errors.REBALANCE_IN_PROGRESS, Errors.MEMBER_ID_REQUIRED})
_ORDINARY_OF_API = frozenset(
    {
        ("heartbeat", Errors.ILLEGAL_GENERATION),
        ("sync_group", Errors.ILLEGAL_GENERATION),
        ("describe_group", Errors.GROUP_ID_NOT_FOUND),
        ("consumer_group_describe", Errors.GROUP_ID_NOT_FOUND),
    }
)
_MAX_LENGTH = 1_000
"""Characters of one field. Ids are shorter, unless somebody made one up, or `max.id.length` is larger."""


class DecisionLog:
    """Writes lines of `level` (as in `log.level`) or above to `file`: if not given, stderr where it is used.

    May be shipped to another process as long as it has written nothing.
    """

    def __init__(self, level: str, form: str, file: BinaryIO | None = None) -> None:
        self._level: int = getattr(logging, level.upper())
        self._form = form
        self._file = file

    @cached_property
    def _logger(self) -> FilteringBoundLogger:
        logger: FilteringBoundLogger = structlog.wrap_logger(
            structlog.BytesLogger(self._file or sys.stderr.buffer),
            processors=[*line_processors(self._form), _encoded],
            wrapper_class=structlog.make_filtering_bound_logger(self._level),
            context_class=dict,
        ).bind()
        return logger

    def write(self, result: StepResult) -> None:
        """Tell of all that one call has decided; on a full disk, say, nothing is told."""
        # It is for people, and no reason to end the query.
        with suppress(OSError):
            self._write(result)

    def _write(self, result: StepResult) -> None:
        for event in result.events:
            line = _LINES[type(event)]
            if line.level >= self._level:
                self._event(event, line)
        if self._level <= logging.DEBUG:
            for reply in result.replies:
                self._logger.debug("request_answered", **_fields_of_reply(reply))
        if self._level <= logging.WARNING:
            self._refusals(result.replies)
            if result.rejections:
                self._rejections(result.rejections)

    def _event(self, event: Any, line: _Line) -> None:
        fields = {
            "member": getattr(event, "member_id", None),
            "request_id": event.request_id,
            "principal": event.principal,
            "generation": event.generation_id,
            "at_ms": event.at_ms,
            "event_id": event.event_id,
        }
        for name in line.fields:
            fields[name.rstrip("_")] = getattr(event, name)
        for name in line.sizes:
            fields[name] = len(getattr(event, name))
        tag = str(event.__struct_config__.tag)
        self._logger.log(line.level, tag, group=event.group_id, **_given(fields))

    def _refusals(self, replies: list[Reply]) -> None:
        """One line for each kind: whoever floods the coordinator must not fill its disk, too."""
        refused: dict[tuple[str, int], list[Reply]] = {}
        for reply in replies:
            # Most are heartbeats that are granted.
            if not (reply.response.error_code or getattr(reply.response, "members", None)):
                continue
            for error_code, member_id in _errors_in(reply):
                kind = _api(reply), error_code
                if error_code not in _ORDINARY and kind not in _ORDINARY_OF_API:
                    refused.setdefault(kind, []).append(reply._replace(member_id=member_id))
        for (_, error_code), (first, *others) in refused.items():
            fields = _fields_of_reply(first) | _given({"error_message": first.response.error_message})
            fields["error"] = Errors(error_code).name
            self._logger.warning("request_refused", **fields, count=1 + len(others))

    def _rejections(self, rejections: list[tuple[Record, Rejection]]) -> None:
        record, rejection = rejections[0]
        request_id = rejection.response.request_id if rejection.response else ""
        self._logger.warning(
            "record_rejected",
            group=(record.key or b"").decode(errors="replace")[:_MAX_LENGTH],
            **_given({"request_id": request_id}),
            at_ms=record.timestamp_ms,
            record=str(record),
            value_bytes=len(record.value or b""),
            count=len(rejections),
        )


def _encoded(_logger: WrappedLogger, _method: str, line: Any) -> bytes:
    encoded: bytes = line.encode()
    return encoded


def _errors_in(reply: Reply) -> Iterator[tuple[int, str]]:
    """What was refused, to which member; in one answer there may be several."""
    response = reply.response
    # A request that could not be read is told of once, as a record.
    if response.error_code and not isinstance(response, InvalidRequestResponse):
        yield response.error_code, reply.member_id
    if isinstance(response, LeaveGroupResponse | HeartbeatResponse | ConsumerGroupHeartbeatResponse):
        yield from ((each.error_code, each.member_id) for each in response.members or () if each.error_code)


def _fields_of_reply(reply: Reply) -> dict[str, Any]:
    response = reply.response
    fields = {
        "member": reply.member_id,
        "request_id": response.request_id,
        "client_id": response.client_id,
        "api": _api(reply),
        "error": response.error,
    }
    return {"group": (response.group_id or "")[:_MAX_LENGTH]} | _given(fields)


def _api(reply: Reply) -> str:
    return str(reply.response.__struct_config__.tag or "unreadable")


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value[:_MAX_LENGTH] if isinstance(value, str) else value
        for name, value in fields.items()
        if value not in (None, "", UNSET)
    }
