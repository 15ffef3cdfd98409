"""Members of the classic protocol: the real `Membership`, driven as `GroupMember` drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from kafka.structs import TopicPartition

from group_coordinator.client.member_settings import MemberSettings
from group_coordinator.client.membership import Membership
from group_coordinator.client.offsets import checked_offsets
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import Protocol
from tests.simulation.checks import Violation
from tests.simulation.conditions import LOOK_MS
from tests.simulation.programs import GROUP, Program

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.client.any_membership import AnyAnswer
    from group_coordinator.client.membership import Generation
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.responses import JoinGroupMember
    from tests.simulation.conditions import Timeouts
    from tests.simulation.world import World

PROTOCOL_TYPE = "units"


def settings_of(client_id: str, timeouts: Timeouts, instance_id: str | None) -> MemberSettings:
    """The settings of a member; what members are known by and wait for is decided here alone."""
    return MemberSettings(
        group_id=GROUP,
        client_id=client_id,
        client_host="host",
        group_instance_id=instance_id,
        session_timeout_ms=timeouts.session_ms,
        max_poll_interval_ms=timeouts.rebalance_ms,
        request_timeout_ms=timeouts.request_ms,
    )


def divide(members: list[str], units: int) -> dict[str, bytes]:
    """What a leader decides: units dealt out in turn, as lists of their numbers."""
    return {
        member_id: b" ".join(b"%d" % unit for unit in range(i, units, len(members)))
        for i, member_id in enumerate(sorted(members))
    }


def partition_of(unit: int) -> TopicPartition:
    """Where the progress of a unit is committed."""
    return TopicPartition("units", unit)


class Sent(NamedTuple):
    """What a commit, or with `positions` None a fetch, was sent for."""

    generation: Generation
    positions: dict[int, int] | None


def units_in(assignment: bytes) -> tuple[int, ...]:
    """The units of an assignment."""
    return tuple(map(int, assignment.split()))


class Client(Program):
    """A program that leads, or is told its share."""

    REPLACES = True

    def __init__(self, world: World, name: str, settings: MemberSettings, reply_partition: int) -> None:
        super().__init__(world, name, settings, Membership(settings, name, reply_partition))
        self.reply_partition = reply_partition
        self.owned: tuple[int, ...] = ()
        self.assigned_in: Generation | None = None
        self.positions: dict[int, int] | None = None
        """How far each unit that it owns has come; None until it was told what is committed."""

        self._last_owned: tuple[int, ...] = ()
        self._look_at = 0
        self._units_known = 0
        self._is_fetching = False
        self._is_fenced = False

    # -- mishaps -----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Go politely; a static member mostly keeps its place."""
        self._world.note(self.name, "leaves")
        self._commit()
        self.owned, self.assigned_in = (), None
        self.membership.close("it is told to", leave=self._world.rng.choice([None, None, True, False]))
        self._send()
        self.is_alive = False

    def change_subscription(self) -> None:
        """Want to join again."""
        self._world.note(self.name, "changes its subscription")
        self.membership.request_rejoin("the subscription has changed")

    # -- the background thread -----------------------------------------------------------------------

    @property
    def _is_member(self) -> bool:
        return self.membership.generation is not None

    def _has_heard(self, answer: AnyAnswer) -> None:
        self._is_fenced |= answer.error_code == Errors.FENCED_INSTANCE_ID

    # -- the user's thread ---------------------------------------------------------------------------

    def _due_step(self) -> Callable[[], None] | None:
        membership = self.membership
        if membership.failure is not None:
            return self._end
        if membership.needs_join:
            return self._give_up if self.assigned_in is not None else self._join
        if membership.leadership is not None:
            return self._lead
        if membership.assignment is not None and membership.generation is not self.assigned_in:
            return self._take_over
        if self.assigned_in is not None and self.positions is None and not self._is_fetching:
            return self._fetch
        return self._look if self._has_to_look() else None

    def _end(self) -> None:
        """A program that was refused for good ends, which only one that runs twice may be."""
        if not self._is_fenced or self.settings.group_instance_id is None:
            raise Violation(f"{self.name} was refused for good: {self.membership.failure}")
        self._world.note(self.name, "ends, because it is fenced")
        self.is_alive = False
        self._world.ended(self)

    def _give_up(self) -> None:
        self._commit()
        self.assigned_in = self.positions = None
        self._take(self._think_ms(), self._given_up)

    def _given_up(self) -> None:
        self.owned = ()
        self._join()

    def _join(self) -> None:
        if self.membership.needs_join:
            metadata = msgspec.json.encode(self._last_owned)
            protocols = [Protocol("sticky", metadata), Protocol("range", b"")]
            self.membership.join(PROTOCOL_TYPE, protocols, self._world.now)
            self._send()

    def _lead(self) -> None:
        generation, members = self.membership.generation, self.membership.leadership
        if generation is not None and members is not None:
            self._take(self._think_ms(), lambda: self._assign(generation, list(members)))

    def _assign(self, generation: Generation, members: list[JoinGroupMember]) -> None:
        world = self._world
        units = self._units_known = world.play.units
        shares = divide([member.member_id for member in members], units)
        self._look_at = world.now + LOOK_MS
        if generation is self.membership.generation:
            world.play.units_divided[generation.generation_id].add(units)
        self.membership.assign(generation, shares, world.now)
        self._send()

    def _take_over(self) -> None:
        generation, assignment = self.membership.generation, self.membership.assignment
        if generation is None or assignment is None:
            return
        self.assigned_in, self.positions, self._is_fetching = generation, None, False
        if generation.watched:
            self._units_known = self._world.play.units
        self.owned = self._last_owned = units_in(assignment)
        self._world.note(self.name, "owns {} in generation {}", self.owned, generation.generation_id)
        self._world.checks.owns(generation.member_id, generation.generation_id, assignment)
        self._take(self._think_ms())

    def _has_to_look(self) -> bool:
        assigned_in = self.assigned_in
        return assigned_in is not None and assigned_in.is_leader and self._world.now >= self._look_at

    def _look(self) -> None:
        self._look_at = self._world.now + LOOK_MS
        if self._units_known != self._world.play.units:
            self.membership.request_rejoin("there is more or less to share")

    # -- progress ------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        """Ask where to go on."""
        assert self.assigned_in is not None
        self._is_fetching = True
        ends_at = self._world.now + self.settings.request_timeout_ms
        token = Sent(self.assigned_in, None)
        self.membership.offset_calls.fetch(map(partition_of, self.owned), token, ends_at)
        self._send()

    def _work(self) -> None:
        if self.positions is not None and self.assigned_in is self.membership.generation:
            done = int(self._world.rng.random() * 10)
            self.positions = {unit: position + done for unit, position in self.positions.items()}
            if done < 2:
                self._commit()

    def _commit(self) -> None:
        if self.positions and self.assigned_in is not None:
            offsets = {partition_of(unit): position for unit, position in self.positions.items()}
            self.membership.commit(checked_offsets(offsets), Sent(self.assigned_in, self.positions))
            self._send()
            self._take_outcomes()

    def _take_outcomes(self) -> None:
        for outcome in self.membership.offset_calls.take_outcomes():
            generation, positions = outcome.token
            if positions is not None and outcome.error is None:
                committed = {partition_of(unit): position for unit, position in positions.items()}
                checks = self._world.checks
                checks.acknowledged(generation.member_id, generation.generation_id, committed)
            elif positions is None and generation is self.assigned_in:
                self._is_fetching = False
                if outcome.offsets is not None:
                    told = {each.partition: it.offset if it else 0 for each, it in outcome.offsets.items()}
                    self._world.note(self.name, "goes on from {}", told)
                    self.positions = told

    # -- what it believes ------------------------------------------------------------------------------

    @property
    def leads_anew(self) -> bool:
        """Whether it leads since it was started again, and so cannot know what was divided."""
        return self.assigned_in is not None and bool(self.assigned_in.watched)

    def what_is_not_right(self, group: ClassicGroup) -> str | None:
        """Whether it believes the same as the group, and sees no reason to join again."""
        generation = self.membership.generation
        if self.membership.state is not MemberState.STABLE or self.membership.needs_join:
            return f"{self.name} is {self.membership.state}"
        if generation is None or generation is not self.assigned_in:
            return f"{self.name} has not taken over its share"
        if self.positions is None or self.positions.keys() != set(self.owned):
            return f"{self.name} does not know where to go on"
        if generation.generation_id != group.generation_id:
            return f"{self.name} is in {generation}, the group in {group.generation_id}"
        if self.owned != units_in(group.members[generation.member_id].assignment):
            return f"{self.name} believes that it owns {self.owned}"
        return None
