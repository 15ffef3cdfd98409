"""What must be true of members: who owns what, and who is put out. From records and members' notes."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from group_coordinator.coordinator_state.requests import JoinGroupRequest
from tests.faults.notes import Ended, Failed, GaveUp, Owned, Sent
from tests.faults.view import View, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.view import Event

__all__ = [
    "expired_though_beating",
    "failed",
    "one_owner_by_notes",
    "units_in",
]

_FOR_SILENCE = ("session_expired", "not_rejoined", "not_synced")
_FOREVER_MS = 2**63


# -- who owns what ---------------------------------------------------------------------------------------


class Ownership(NamedTuple):
    """A member believed that `units` were its own."""

    from_ms: int
    to_ms: int
    note: Owned


def one_owner_by_notes(view: View) -> Iterator[Violation]:
    """No two members believe that they own one unit; but who is put out may learn of it late."""
    gone = _gone(view)
    by_group: dict[str, list[Ownership]] = defaultdict(list)
    for ownership in _ownerships(view):
        by_group[ownership.note.group_id].append(ownership)
    for group_id, ownerships in by_group.items():
        ownerships.sort(key=lambda it: (it.note.generation_id, it.from_ms))
        for earlier, later in combinations(ownerships, 2):
            overlap = max(earlier.from_ms, later.from_ms) < min(earlier.to_ms, later.to_ms)
            shared = set(earlier.note.units) & set(later.note.units)
            if not overlap or not shared or earlier.note.client_id == later.note.client_id:
                continue
            went_ms, replaced_by = gone.get(earlier.note.member_id, (_FOREVER_MS, ""))
            same_generation = earlier.note.generation_id == later.note.generation_id
            if went_ms > later.from_ms or (same_generation and replaced_by != later.note.member_id):
                detail = f"{sorted(shared)} from {later.from_ms} on: {earlier} and {later}, gone at {went_ms}"
                yield Violation("a unit has two owners", group_id, detail)


def _ownerships(view: View) -> Iterator[Ownership]:
    open_: dict[str, Owned] = {}
    for note in view.history.notes:
        if isinstance(note, Owned | GaveUp | Ended) and (owned := open_.pop(note.client_id, None)):
            yield Ownership(owned.at_ms, note.at_ms, owned)
        if isinstance(note, Owned):
            open_[note.client_id] = note
    for owned in open_.values():
        yield Ownership(owned.at_ms, _FOREVER_MS, owned)


def _gone(view: View) -> dict[str, tuple[int, str]]:
    """Member id -> since when the group has gone on without it, and who has replaced it ("": nobody)."""
    gone = {}
    for events in view.events.values():
        for event in events:
            if event["event"] == "member_removed" and event["reason"] != "left":
                gone[event["member_id"]] = (event["at_ms"], "")
            elif event["event"] == "member_fenced":
                gone[event["member_id"]] = (event["at_ms"], event["replaced_by"])
    return gone


def units_in(assignment: bytes) -> list[str]:
    """What a member is given: units of a GroupMember, or partitions of a GroupConsumer."""
    if not assignment:
        return []
    if assignment.startswith(b"{"):
        units: list[str] = msgspec.json.decode(assignment)["units"]
        return units
    return [f"{it.topic}-{it.partition}" for it in ConsumerProtocolAssignment.decode(assignment).partitions()]


# -- who may be put out ----------------------------------------------------------------------------------


def expired_though_beating(view: View) -> Iterator[Violation]:
    """Nobody is put out for silence who has sent something all the time, whoever else was away meanwhile.

    All the time: with no gap of more than half a session, from a session before, or from the beginning of
    the phase in which it should have said something.
    """
    sent = defaultdict(list)
    for note in view.history.notes:
        if isinstance(note, Sent) and note.member_id:
            sent[note.member_id].append(note.at_ms)
    for group_id, events in view.events.items():
        sessions = _sessions(view, group_id)
        since_ms = 0
        for event in events:
            if event["event"] == "state_changed":
                since_ms = event["at_ms"]
            if event["event"] != "member_removed" or event["reason"] not in _FOR_SILENCE:
                continue
            times, until_ms = sent[event["member_id"]], event["at_ms"]
            session_ms = sessions.get(event["client_id"], 0)
            from_ms = until_ms - session_ms
            if event["reason"] != "session_expired":
                from_ms = min(from_ms, since_ms)
            heard = times[bisect_right(times, from_ms) : bisect_right(times, until_ms)]
            gaps = [after - before for before, after in pairwise([from_ms, *heard, until_ms])]
            if heard and max(gaps) <= session_ms / 2:
                detail = f"{_short(event)}, session {session_ms} ms; it sent something at {heard}"
                yield Violation("a member is put out although it beats", group_id, detail)


def _sessions(view: View, group_id: str) -> dict[str, int]:
    return {
        it.request.client_id: it.request.session_timeout_ms
        for it in view.asked.get(group_id, [])
        if isinstance(it.request, JoinGroupRequest)
    }


def _short(event: Event) -> str:
    return f"{event['event_id']} at {event['at_ms']}: {event['member_id']} {event['reason']}"


def failed(view: View) -> Iterator[Violation]:
    """The project's client gets over all of it."""
    for note in view.history.notes:
        if isinstance(note, Failed):
            yield Violation("a client failed", note.client_id, f"at {note.at_ms}: {note.error}")
