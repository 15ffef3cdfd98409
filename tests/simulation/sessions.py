"""Who has to be in the group, and who must not be any more, by the log alone.

A member must not be put out by its session while its heartbeats are in the log in time, however late the
coordinator reads them; and it must be put out once its time is over. What counts as a sign of life is
written down here a second time, from the contract, and not taken from the coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.requests import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.config import GroupConfig
    from tests.simulation.history import History
    from tests.simulation.network import Entry
    from tests.simulation.phases import Phases


class Sessions:
    """The last signs of life of all members, in log time."""

    def __init__(
        self, history: History, phases: Phases, config: GroupConfig, longest_rebalance_ms: int
    ) -> None:
        self._history = history
        self._phases = phases
        self._config = config
        self._longest_rebalance_ms = longest_rebalance_ms
        self._timeouts_ms: dict[str, int] = {}
        # When a member gave its last sign of life, or was given an answer to begin anew with.
        self._signs: dict[str, int] = {}
        self._unused_since: int | None = None
        self._gone_by = -1

    def hear(self, entry: Entry, now: int) -> None:
        """A request is at this place of the log."""
        match request := entry.request:
            case JoinGroupRequest():
                self._timeouts_ms[entry.parked_as] = request.session_timeout_ms
            case HeartbeatRequest():
                self._beat(request, now)
            case SyncGroupRequest():
                if self._history.state is GroupState.STABLE and self._phases.is_current(request):
                    self._signs[request.member_id] = now
            case OffsetCommitRequest():
                if self._phases.may_commit(request):
                    self._signs[request.member_id] = now

    def _beat(self, request: HeartbeatRequest, now: int) -> None:
        history, member_id = self._history, request.member_id
        if member_id not in history.members:
            return
        # The answer to its join may be on its way: then a generation before is good enough.
        if request.generation_id == history.generation or member_id in self._phases.behind:
            self._signs[member_id] = now

    def tell(self, event: dict[str, Any]) -> None:
        """An event happened: to be called after the history was told."""
        at_ms = event["at_ms"]
        match event["event"]:
            case "generation_completed":
                self._begin_anew(set(event["members"]), at_ms)
            case "assignment_propagated":
                self._end_wait(at_ms)
            case "state_changed":
                if event["from"] == GroupState.COMPLETING_REBALANCE:
                    self._end_wait(at_ms)
            case "member_added":
                # It cannot beat before it is answered.
                patience_ms = self._config.new_member_join_timeout_ms
                patience_ms -= self._timeouts_ms[event["member_id"]]
                self._begin_anew({event["member_id"]}, at_ms + patience_ms)
            case "member_fenced":
                self._begin_anew({event["replaced_by"]}, at_ms)
            case "member_removed":
                sign, timeout_ms = self._signs[event["member_id"]], self._timeouts_ms[event["member_id"]]
                if event["reason"] == "session_expired":
                    assert at_ms >= sign + timeout_ms, f"it was heard of at {sign}: {event}"
                    assert at_ms == sign + timeout_ms, f"it was not heard of since {sign}: {event}"

    def _begin_anew(self, member_ids: set[str], at_ms: int) -> None:
        self._signs |= dict.fromkeys(member_ids, at_ms)

    def _end_wait(self, at_ms: int) -> None:
        """The sync phase is over: who has waited for that is answered, and begins anew."""
        self._begin_anew(self._history.in_generation - self._phases.unsynced, at_ms)

    def look(self, group: ClassicGroup | None, now: int, *, is_asked: bool) -> None:
        """Note by when something has to change, then see whether it has. `is_asked`: a request came."""
        self._gone_by = -1
        if group is None:
            self._unused_since = None
            return
        limits = [
            self._signs[member_id] + member.session_timeout_ms
            for member_id, member in group.members.items()
            # Who waits for an answer need not beat; the phase is limited instead. Not so at the first join.
            if member.is_new or (member.awaiting_join is None and member.awaiting_sync is None)
        ]
        if group.state is GroupState.PREPARING_REBALANCE:
            longest_ms = max(self._longest_rebalance_ms, self._config.group_initial_rebalance_delay_ms)
            limits.append(max(self._history.since + longest_ms, self._history.postponed_until))
        elif group.state is GroupState.COMPLETING_REBALANCE:
            limits.append(self._history.since + self._longest_rebalance_ms)
        interval_ms = self._config.offsets_retention_check_interval_ms
        if group.state is not GroupState.EMPTY or group.pending_members or group.offsets:
            self._unused_since = None
        else:
            if self._unused_since is None or is_asked:
                self._unused_since = now
            limits.append(self._unused_since + interval_ms)
        if group.state is GroupState.EMPTY and group.offsets:
            retention_ms = self._config.offsets_retention_minutes * 60_000
            limits.append(self._history.since + retention_ms + interval_ms)
        self._gone_by = min(limits, default=-1)
        self.check(now)

    def check(self, now: int) -> None:
        """Log time is `now`, and nothing has changed."""
        assert self._gone_by < 0 or now <= self._gone_by, f"something should have ended at {self._gone_by}"
