"""What must be true all the time: seen by an observer who reads the log and everything that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from group_coordinator.coordinator_state.events import (
    AssignmentPropagated,
    MemberFenced,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsExpired,
)
from tests.coordinator_state.model import Model
from tests.coordinator_state.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from group_coordinator.coordinator_state.clocks import Span
    from group_coordinator.coordinator_state.events import AnyEvent
    from group_coordinator.coordinator_state.log import Record
    from group_coordinator.coordinator_state.responses import GroupPicture
    from group_coordinator.coordinator_state.step import StepResult
    from tests.coordinator_state.model_time import Answer, TimedModel
    from tests.simulation.world import World

Unit = tuple[str, int]
"""A unit of work as it is committed: topic and partition."""


class Violation(AssertionError):  # noqa: N818 - not an error to be handled
    """Something happened that must not."""


class Checks:
    """Is told of every batch once, in order, and of everything that members come to own or have committed.

    `model` is that of the run's kind of group, beside which an observer looks at each batch.
    """

    def __init__(self, world: World, model: TimedModel) -> None:
        self._world = world
        self._observer = Observer(model)
        # (member id, generation, unit, offset): all that was ever granted.
        self._granted: set[tuple[str, int, Unit, int]] = set()
        self._progress: dict[Unit, int] = {}

    @property
    def group(self) -> Any:
        """The group after the last batch."""
        return self._observer.group

    @property
    def picture(self) -> GroupPicture | None:
        """The newest picture of the group; None after a tombstone."""
        return self._observer.picture

    @property
    def generation(self) -> int:
        """The newest generation."""
        return self._observer.model.generation

    @property
    def has_picture(self) -> bool:
        """Whether the newest picture of the group is one, and not a tombstone."""
        return self._observer.picture is not None

    def entered(self, start_ms: int, end_ms: int) -> None:
        """The group was found to be in a standstill that is over: so it begins with the group's time."""
        self._observer.model.clocks.entered.add((start_ms, end_ms))

    # -- the coordinator -----------------------------------------------------------------------------

    def stepped(
        self,
        state: bytes | None,
        records: Iterable[Record],
        watermark: int,
        result: StepResult,
        span: Span,
    ) -> list[Answer]:
        """A batch was run for the first time, from `state`; its answers are returned."""
        answers = self._observer.see(state, records, watermark, result, span)
        for event in self._observer.events:
            self._world.note("coordinator", "{}", event)
            self._tell(event)
        return answers

    def _tell(self, event: AnyEvent) -> None:
        match event:
            case MemberRemoved():
                self._world.removed(event)
            case OffsetsCommitted():
                self._committed(event)
            case OffsetsExpired():
                self._progress.clear()

    def _committed(self, event: OffsetsCommitted) -> None:
        """As long as no message overtakes another, progress never goes back."""
        for topic in event.topics:
            for each in topic.partitions:
                unit, offset = (topic.name, each.partition_index), each.committed_offset
                before = self._progress.get(unit, 0)
                if self._world.conditions.weather.in_order and offset < before:
                    raise Violation(f"progress of {unit} goes back from {before} to {offset}")
                self._progress[unit] = offset
                self._granted.add((event.member_id, event.generation_id, unit, offset))

    # -- the members ---------------------------------------------------------------------------------

    def acknowledged(self, member_id: str, generation: int, offsets: Mapping[Unit, int]) -> None:
        """A member was told that what it has committed is kept."""
        for unit, offset in offsets.items():
            if (member_id, generation, unit, offset) not in self._granted:
                raise Violation(f"{member_id} was told that {offset} of {unit} is kept, and it is not")


class ClassicChecks(Checks):
    """The same of a group of the classic protocol, in which members are told by a leader what they own."""

    def __init__(self, world: World) -> None:
        super().__init__(world, Model(world.conditions.config, world.outages))
        self._assigned: dict[tuple[str, int], bytes] = {}
        """(member id, generation) -> what was decided."""

    def _tell(self, event: AnyEvent) -> None:
        match event:
            case AssignmentPropagated():
                for each in event.assignments:
                    self._assigned[each.member_id, event.generation_id] = each.assignment
            case MemberFenced():
                old, new = event.member_id, event.replaced_by
                # In a Stable group it takes over what it had.
                if (assigned := self._assigned.get((old, event.generation_id))) is not None:
                    self._assigned[new, event.generation_id] = assigned
            case _:
                super()._tell(event)

    def owns(self, member_id: str, generation: int, assignment: bytes) -> None:
        """A member was told what it owns, and takes it over."""
        decided = self._assigned.get((member_id, generation))
        if decided is None:
            raise Violation(f"{member_id} was told of an assignment that generation {generation} never had")
        if decided != assignment:
            raise Violation(f"{member_id} was told {assignment!r} in generation {generation}, not {decided}")
