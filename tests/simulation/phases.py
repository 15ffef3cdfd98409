"""Who has joined and who has synced, by the log alone: whom a phase waits for, and who waits for its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.requests import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from tests.simulation.history import History
    from tests.simulation.network import Entry

IN_GENERATION = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class Phases:
    """The phases of a rebalance. Has to be told of an event before the history is."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.unsynced: set[str] = set()
        """Who has not asked what it owns in the newest generation."""
        self.behind: set[str] = set()
        """Who is in the newest generation and has not shown yet that it has heard of it."""
        self._joined: set[str] = set()
        self._asking = ""
        self._static: set[str] = set()
        # Ids that were given out, and until when they may be used.
        self._pending: dict[str, int] = {}

    def is_parked(self, member_id: str) -> bool:
        """Whether a member of an earlier generation waits for an answer, and so need not say anything."""
        history = self._history
        if member_id not in history.in_generation:
            return False
        if history.state is GroupState.PREPARING_REBALANCE:
            return member_id in self._joined
        return history.state is GroupState.COMPLETING_REBALANCE and member_id not in self.unsynced

    def is_current(self, request: SyncGroupRequest) -> bool:
        """Whether a member of the generation asks what it owns in it."""
        history = self._history
        is_in = request.member_id in history.in_generation and history.state in IN_GENERATION
        return is_in and request.generation_id == history.generation

    def may_commit(self, request: OffsetCommitRequest) -> bool:
        """Whether a member of the newest generation says how far it has come, and knows what it owns."""
        history = self._history
        is_current = request.member_id in history.members and request.generation_id == history.generation
        return is_current and history.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE)

    def hear(self, entry: Entry, now: int) -> None:
        """A request is at this place of the log."""
        history, self._asking = self._history, ""
        match request := entry.request:
            case JoinGroupRequest():
                if not entry.parked_as:
                    self._pending[entry.new_member_id] = now + request.session_timeout_ms
                self._asking = entry.parked_as
                if history.state is GroupState.PREPARING_REBALANCE:
                    self._joined.add(entry.parked_as)
            case SyncGroupRequest():
                if self.is_current(request):
                    self.unsynced.discard(request.member_id)
                    self.behind.discard(request.member_id)
            case HeartbeatRequest() | OffsetCommitRequest():
                if self._has_heard(request):
                    self.behind.discard(request.member_id)
            case LeaveGroupRequest():
                for leaving in request.members:
                    self._pending.pop(leaving.member_id, None)

    def _has_heard(self, request: HeartbeatRequest | OffsetCommitRequest) -> bool:
        """Whether the newest generation is told of, by somebody who is listened to."""
        if isinstance(request, OffsetCommitRequest):
            return self.may_commit(request)
        return request.generation_id == self._history.generation

    def tell(self, event: dict[str, Any]) -> None:
        """An event is about to count."""
        match event["event"]:
            case "state_changed" if event["to"] == GroupState.PREPARING_REBALANCE:
                # If a join is the reason, it is the first of the phase.
                is_by_deadline = "@" in event["event_id"]
                self._joined = set() if is_by_deadline else {self._asking}
            case "member_added":
                self._pending.pop(event["member_id"], None)
                if event["group_instance_id"] is not None:
                    self._static.add(event["member_id"])
            case "member_fenced":
                self._static.add(event["replaced_by"])
                self.unsynced.discard(event["member_id"])
                self.behind.discard(event["member_id"])
            case "member_removed":
                self._check_reason(event)
            case "generation_completed":
                absent = set(event["members"]) - self._joined
                assert absent <= self._static, f"not all have joined: {event}"
                assert event["leader"] in self._joined, f"the leader has not joined: {event}"
                self.unsynced, self.behind = set(event["members"]), set(event["members"])
            case "group_deleted":
                assert all(until <= event["at_ms"] for until in self._pending.values()), "somebody was coming"
                self._pending.clear()

    def _check_reason(self, event: dict[str, Any]) -> None:
        member_id, history = event["member_id"], self._history
        match event["reason"]:
            case "session_expired":
                assert not self.is_parked(member_id), f"it waits for an answer: {event}"
            case "not_rejoined":
                assert history.state is GroupState.PREPARING_REBALANCE
                assert member_id not in self._joined, f"it has joined: {event}"
                assert member_id not in self._static, f"it may yet come back: {event}"
            case "not_synced":
                assert history.state in IN_GENERATION
                assert member_id in self.unsynced, f"it has synced: {event}"
