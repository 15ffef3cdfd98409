"""What the events tell, step by step: they must make one consistent story, and it must be the group's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.classic.states import GroupState

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.classic.group import ClassicGroup


class History:
    """A group as its events tell it.

    `life`: how many groups of this id there have been, since generations begin anew with each. `since`: when
    the state was entered; `since_log_ms` is the same in log time.
    """

    def __init__(self) -> None:
        self.life = 0
        self.state = GroupState.DEAD
        self.since = 0
        self.since_log_ms = 0
        self.generation = 0
        self.members: set[str] = set()
        self.in_generation: set[str] = set()
        self.assignments: dict[tuple[str, int], tuple[int, str]] = {}
        """(member id, generation) -> (life, base64 assignment): all that was ever decided."""
        self.first_ids: dict[str, str] = {}
        """Member id of a static member that was started again -> the one it had at first."""
        self.postponed_until = 0
        """Until when the phase was prolonged."""
        self._is_assigned = False
        self._ids: set[str] = set()

    @property
    def exists(self) -> bool:
        """Whether there is a group."""
        return self.state is not GroupState.DEAD

    def add(self, event: dict[str, Any]) -> None:
        """Go on with the story."""
        assert event["event_id"] not in self._ids, f"an event came twice: {event}"
        self._ids.add(event["event_id"])
        match event["event"]:
            case "group_created":
                assert not self.exists
                assert not self.members
                self.life += 1
                self.state, self.generation = GroupState.EMPTY, 0
                self.since, self.since_log_ms = event["at_ms"], event["log_ms"]
            case "state_changed":
                assert event["from"] == self.state, event
                self.state = GroupState(event["to"])
                self.since, self.since_log_ms = event["at_ms"], event["log_ms"]
                self.postponed_until = 0
            case "member_added" | "member_removed" | "member_fenced":
                self._change_members(event)
            case "rebalance_postponed":
                assert self.state is GroupState.PREPARING_REBALANCE, event
                self.postponed_until = event["until_ms"]
            case "generation_completed":
                assert event["generation_id"] > self.generation, f"generations only grow: {event}"
                assert set(event["members"]) == self.members, event
                assert event["leader"] in self.members, event
                self.generation, self._is_assigned = event["generation_id"], False
                self.in_generation = set(self.members)
            case "assignment_propagated":
                # Two assignments in one generation could give one unit two owners.
                assert (event["generation_id"], self._is_assigned) == (self.generation, False), event
                self._is_assigned = True
                assert {each["member_id"] for each in event["assignments"]} == self.members, event
                for each in event["assignments"]:
                    place = (each["member_id"], self.generation)
                    self.assignments[place] = (self.life, each["assignment"])
            case "group_deleted":
                assert not self.exists
                assert not self.members

    def _change_members(self, event: dict[str, Any]) -> None:
        member_id = event["member_id"]
        assert (event["event"] == "member_added") == (member_id not in self.members), event
        match event["event"]:
            case "member_added":
                self.members.add(member_id)
            case "member_removed":
                self.members.remove(member_id)
                self.in_generation.discard(member_id)
            case _:
                self._replace(member_id, event["replaced_by"])

    def _replace(self, old: str, new: str) -> None:
        """A static member goes on under another id."""
        assert new not in self.members
        self.members = self.members - {old} | {new}
        if old in self.in_generation:
            self.in_generation = self.in_generation - {old} | {new}
        self.first_ids[new] = self.first_ids.get(old, old)
        if self.state is GroupState.STABLE:
            # It takes over what it had.
            self.assignments[new, self.generation] = self.assignments[old, self.generation]

    def check(self, group: ClassicGroup | None) -> None:
        """Compare the story with the group that is stored."""
        if group is None:
            assert not self.exists, "there is no group, and nothing tells why"
            return
        told = (self.state, self.members, self.since_log_ms)
        assert told == (group.state, set(group.members), group.state_timestamp_ms), "untold changes"
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            assert group.generation_id == self.generation
