"""How far the work has come: what was committed and is kept, by the log alone.

Whoever owns a unit goes on from what is committed and commits more, and what is said of a generation that has
ended does not count. So progress is not lost, and as long as no message overtakes another it never goes back.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import OffsetCommitRequest, OffsetFetchRequest
from group_coordinator.coordinator_state.responses import OffsetCommitResponse, OffsetFetchResponse
from tests.coordinator_state.invariants import committed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.responses import AnyResponse
    from tests.simulation.conditions import Conditions
    from tests.simulation.history import History
    from tests.simulation.network import Entry
    from tests.simulation.phases import Phases

Unit = tuple[str, int]
"""A unit of work as it is committed: topic and partition."""


class Progress:
    """What is committed. Has to be told of an event after the history was."""

    def __init__(self, history: History, phases: Phases, conditions: Conditions) -> None:
        self._history = history
        self._phases = phases
        self._retention_ms = conditions.config.offsets_retention_minutes * 60_000
        self._is_in_order = conditions.weather.in_order
        self._kept: dict[Unit, int] = {}
        self._answers: defaultdict[str, deque[Any]] = defaultdict(deque)
        # (member id, generation, unit, offset): all that was ever granted.
        self._granted: set[tuple[str, int, Unit, int]] = set()

    # -- the log -------------------------------------------------------------------------------------

    def answered(self, responses: Iterable[AnyResponse]) -> None:
        """These are the answers of a batch whose requests are about to be heard."""
        for response in responses:
            if isinstance(response, OffsetCommitResponse | OffsetFetchResponse):
                self._answers[response.request_id].append(response)

    def hear(self, entry: Entry) -> None:
        """A request is at this place of the log."""
        request = entry.request
        if not isinstance(request, OffsetCommitRequest | OffsetFetchRequest):
            return
        assert self._answers[request.request_id], f"{request.request_id} was not answered at once"
        answer = self._answers[request.request_id].popleft()
        if isinstance(request, OffsetFetchRequest):
            self._check_fetch(request, answer)
        else:
            self._commit(request, answer)

    def _commit(self, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
        is_granted = answer.error_code == Errors.NONE
        if is_granted and not self._phases.may_commit(request):
            raise AssertionError(f"{request.request_id} is of a generation that has ended, and was granted")
        assert is_granted == self._phases.may_commit(request), f"{request.request_id} got {answer.error}"
        for topic in request.topics if is_granted else ():
            for each in topic.partitions:
                unit, offset = (topic.name, each.partition_index), each.committed_offset
                if self._is_in_order:
                    before = self._kept.get(unit, 0)
                    assert offset >= before, f"progress of {unit} goes back from {before} to {offset}"
                self._kept[unit] = offset
                self._granted.add((request.member_id, request.generation_id, unit, offset))

    def _check_fetch(self, request: OffsetFetchRequest, answer: OffsetFetchResponse) -> None:
        told = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }
        asked = [(topic.name, each) for topic in request.topics or () for each in topic.partition_indexes]
        expected = {unit: self._kept.get(unit, -1) for unit in asked}
        assert told == expected, f"{request.request_id} was told {told}, committed is {expected}"

    def tell(self, event: dict[str, Any]) -> None:
        """An event happened."""
        match event["event"]:
            case "offsets_expired":
                gone = {(topic["name"], it) for topic in event["topics"] for it in topic["partition_indexes"]}
                assert gone == self._kept.keys(), f"not all or more has expired: {event}"
                assert self._history.state is GroupState.EMPTY, f"it was in use: {event}"
                assert event["at_ms"] >= self._history.since_log_ms + self._retention_ms, f"too soon: {event}"
                self._kept.clear()
            case "offsets_deleted":
                raise AssertionError(f"nobody has asked for that: {event}")

    def check(self, group: ClassicGroup | None) -> None:
        """Compare with the group that is stored after a batch."""
        stored = {unit: each.offset for unit, each in committed(group).items()}
        assert stored == self._kept, f"stored is {stored}, committed was {self._kept}"

    # -- the members ---------------------------------------------------------------------------------

    def acknowledged(self, member_id: str, generation: int, offsets: Mapping[Unit, int]) -> None:
        """A member was told that what it has committed is kept."""
        for unit, offset in offsets.items():
            is_granted = (member_id, generation, unit, offset) in self._granted
            assert is_granted, f"{member_id} was told that {offset} of {unit} is kept, and it is not"
