"""Events as lines for people: time (UTC), group, and what happened in words."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any

import msgspec

from group_coordinator.commands.times import utc_text
from group_coordinator.coordinator_state.consumer_protocol import partitions_of
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    ClockCorrected,
    GenerationCompleted,
    GenerationWrapped,
    GroupCreated,
    GroupDeleted,
    GroupTypeChanged,
    MemberAdded,
    MemberAway,
    MemberFenced,
    MemberReconciled,
    MemberRejoined,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    PartitionsOfTopic,
    RebalanceCause,
    RebalancePostponed,
    RequestLate,
    SessionNearlyExpired,
    StateChanged,
    SubscriptionChanged,
    TargetAssigned,
    TopicsChanged,
)
from group_coordinator.coordinator_state.naming import some_of
from group_coordinator.coordinator_state.responses import KnownPattern
from group_coordinator.history.rows import read_event, time_of
from group_coordinator.jobs.printable import printable_label, printable_name, with_short_ids

_HEAD = ("event_id", "event", "group_id", "at_ms")
_MOST_NAMED = 3
_REMOVED = {
    "left": "left",
    "session_expired": "expired: no heartbeat came in its session",
    "not_rejoined": "was removed: it did not join again in time",
    "not_synced": "was removed: it did not sync in time",
    "group_full": "was removed: the group is full",
    "not_revoked": "was removed: it did not give up in time what another one is to have",
}


def line_of(event: dict[str, Any]) -> str:
    """Return the line of an event, as it is in the topic. Of a kind that is not known it has all fields."""
    known = read_event(msgspec.json.encode(event))
    told = _fields(event) if known is None else with_short_ids(f"{_words(known)}{_by(known)}")
    at = utc_text(time_of(event["at_ms"]))
    return f"{at}  {printable_name(event['group_id'])}  {printable_label(told)}"


def _words(event: AnyEvent) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each kind of event
    match event:
        case GroupCreated():
            return "group created"
        case GroupDeleted():
            return "group deleted"
        case StateChanged():
            took = "" if event.rebalance_ms is None else f" after {_seconds(event.rebalance_ms)}"
            known = "cause unknown" if event.cause == RebalanceCause.UNKNOWN else event.cause
            move = f"{event.from_} -> {event.to}" if event.from_ else event.to
            return f"{move}{took}: {event.reason}{f' ({known})' if known else ''}"
        case MemberAdded():
            place = f" from {event.client_host}" if event.client_host else ""
            return f"{_member(event)} joined{place}{_why(event.client_reason)}"
        case MemberRejoined():
            after = f", {_seconds(event.join_phase_ms)} after the first" if event.join_phase_ms else ""
            return f"{_member(event)} joined again{after}{_why(event.client_reason)}"
        case MemberRemoved():
            return f"{_member(event)} {_REMOVED.get(event.reason) or _went(event)}{_why(event.client_reason)}"
        case SessionNearlyExpired():
            left, session = _seconds(event.remaining_ms), _seconds(event.session_timeout_ms)
            end = f"its session of {session} would have expired"
            return f"{_member(event)} showed a sign of life {left} before {end}"
        case MemberFenced():
            place = f" at {event.client_host}" if event.client_host else ""
            how = "is back" if event.replaced_by == event.member_id else "restarted"
            name = "" if event.replaced_by == event.member_id else f", as {event.replaced_by}"
            return f"{_member(event)} {how}{place}{name}{_why(event.client_reason)}"
        case GenerationCompleted():
            return (
                f"generation {event.generation_id}: {_count(len(event.members), 'member')}, led by "
                f"{event.leader}, {event.protocol_name}"
            )
        case GenerationWrapped():
            return "generations begin again with 1"
        case RebalancePostponed():
            return f"waiting for static members until {utc_text(time_of(event.until_ms))}"
        case AssignmentPropagated():
            return f"generation {event.generation_id}: {_count(len(event.assignments), 'assignment')}"
        case OffsetsCommitted():
            return _committed(event)
        case OffsetsDeleted():
            went = "were deleted" if event.cause is msgspec.UNSET else "were deleted or have expired"
            return f"offsets {went}: {_named(_partitions(event.topics))}{_why(event.client_reason or None)}"
        case OffsetsExpired():
            return f"offsets have expired: {_named(_partitions(event.topics))}"
        case RequestLate():
            late_ms = event.at_ms - event.appended_ms
            return f"request {event.offset} of partition {event.partition} was {_seconds(late_ms)} late"
        case ClockCorrected():
            return (
                f"clock of partition {event.partition} counts {_seconds(event.shift_ms)} later from request "
                f"{event.offset} on"
            )
        case GroupTypeChanged():
            return f"the members' protocol changes: {event.from_} -> {event.to}"
        case TopicsChanged():
            topics = (f"{each.name} has {_count(each.partitions, 'partition')}" for each in event.topics)
            gone = (f"{name} is gone" for name in event.gone)
            return _named([*topics, *gone, *map(_matched, event.patterns or ())])
        case SubscriptionChanged():
            assignor = f", assignor {event.server_assignor}" if event.server_assignor else ""
            by = f", by pattern {event.subscribed_topic_regex}" if event.subscribed_topic_regex else ""
            return f"{_member(event)} reads {_named(event.topics) or 'nothing'}{by}{assignor}"
        case TargetAssigned():
            members = _count(len(event.assignments), "member")
            by = f", by {event.protocol_name}" if event.protocol_name else ""
            return f"epoch {event.assignment_epoch}: other partitions for {members}{by}"
        case MemberReconciled():
            held = _named(_assigned(event.assignment)) or "nothing"
            given_up = _named(_assigned(event.revoking))
            return f"{_member(event)} has {held}{f', and is to give up {given_up}' if given_up else ''}"
        case MemberAway():
            return f"{_member(event)} left for a while, and keeps its own"


def _assigned(assignment: bytes) -> list[str]:
    try:
        return [f"{topic}-{partition}" for topic, partition in partitions_of(assignment)]
    except struct.error:
        return ["what cannot be read"]


_OfMember = (
    MemberAdded
    | MemberAway
    | MemberFenced
    | MemberReconciled
    | MemberRejoined
    | MemberRemoved
    | SessionNearlyExpired
    | SubscriptionChanged
)


def _member(event: _OfMember) -> str:
    # Only one that never joined has no id; it has a client id.
    name = event.member_id or getattr(event, "client_id", "")
    return f"{name} (static, {event.group_instance_id})" if event.group_instance_id else name


def _matched(pattern: KnownPattern) -> str:
    return f"{pattern.pattern} matches {_count(len(pattern.topics or ()), 'topic')}"


def _went(event: MemberRemoved) -> str:
    """The end of a member at the brokers, of which nobody knows why."""
    session = event.session_timeout_ms
    known = [] if session is msgspec.UNSET else [f"its session is {_seconds(session)}"]
    if event.last_commit_ms is not msgspec.UNSET:
        known.append(f"its last commit was {_seconds(event.last_commit_ms)} before")
    return f"went, the cause is {event.reason}{''.join(f'; {each}' for each in known)}"


def _committed(event: OffsetsCommitted) -> str:
    # Members commit while they work. Others set the group to a place.
    did, at = ("set", "to") if event.member_id == "" else ("committed", "at")
    offsets = _named(
        f"{topic.name}-{each.partition_index} {at} {each.committed_offset}"
        for topic in event.topics
        for each in topic.partitions
    )
    who = event.member_id or event.client_id or "somebody"
    return f"{who} {did} {offsets}{_why(event.client_reason or None)}"


def _partitions(topics: Iterable[PartitionsOfTopic]) -> Iterable[str]:
    return (f"{topic.name}-{each}" for topic in topics for each in topic.partition_indexes)


def _named(names: Iterable[str]) -> str:
    """Some names, and the number of the others."""
    return some_of(list(names), _MOST_NAMED)


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _by(event: AnyEvent) -> str:
    return f" [{event.principal}]" if event.principal else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _seconds(ms: int) -> str:
    return f"{ms / 1_000:g} s"


def _fields(event: dict[str, Any]) -> str:
    """The kind and all other fields; of a list how long it is."""
    fields = [
        f"{name}={len(value) if isinstance(value, list) else _quoted(value)}"
        for name, value in event.items()
        if name not in _HEAD and value not in (None, "")
    ]
    return " ".join([event["event"], *fields])


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or '"' in text else text
