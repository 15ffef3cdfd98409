"""Members as programs have them: the real `Membership`, driven as `GroupMember` drives it.

A client has two threads' worth of behaviour. The background one reads answers and handles timers at once,
however busy the user is. The user's one gives up work, joins, leads and takes work over; it does so while
the user is in `poll`, and each of these may take long. It goes on from what is committed, works, and commits
how far it has come. A frozen client does neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from kafka.structs import TopicPartition

from group_coordinator.client.membership import MemberSettings, Membership
from group_coordinator.client.offsets import checked_offsets
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.requests import Protocol
from tests.simulation.checks import Violation
from tests.simulation.conditions import CALM_THINK_MS, LOOK_MS
from tests.simulation.network import Line, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.client.membership import AnyAnswer, Generation
    from group_coordinator.coordinator_state.classic.group import ClassicGroup
    from group_coordinator.coordinator_state.responses import JoinGroupMember
    from tests.simulation.conditions import Timeouts
    from tests.simulation.world import World

GROUP = "orders"
PROTOCOL_TYPE = "units"
_LONG_MS = 300


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


class Client:
    """One life of one member, from its start to its crash or its leave."""

    def __init__(self, world: World, name: str, settings: MemberSettings, reply_partition: int) -> None:
        self._world = world
        self.name = name
        self.settings = settings
        self.membership = Membership(settings, name, reply_partition)
        self.is_alive = True
        self.up_line, self.down_line = Line(world), Line(world)
        self.disturbed_at = world.now
        """When it last was not able to send heartbeats, or to get them to the log in time."""
        self.worked_until = 0
        """Until when it was last kept busy for long, and did not look at what it is told."""
        self.beats_since: int | None = None
        """Since when it sends heartbeats; None if it does not."""
        self.owned: tuple[int, ...] = ()
        self.assigned_in: Generation | None = None
        self.positions: dict[int, int] | None = None
        """How far each unit that it owns has come; None until it was told what is committed."""

        self._log_partition = world.rng.randrange(world.conditions.partitions)
        self._last_owned: tuple[int, ...] = ()
        self._look_at = 0
        self._units_known = 0
        self._is_busy = False
        self._is_fetching = False
        self._is_fenced = False
        self._frozen_until = 0
        self._armed: int | None = None
        world.after(0, self._use)

    # -- mishaps -----------------------------------------------------------------------------------

    def crash(self) -> None:
        """Vanish without a word."""
        self._world.note(self.name, "crashes")
        self.is_alive = False

    def leave(self) -> None:
        """Go politely; a static member mostly keeps its place."""
        self._world.note(self.name, "leaves")
        self._commit()
        self.owned, self.assigned_in = (), None
        self.membership.close("it is told to", leave=self._world.rng.choice([None, None, True, False]))
        self._send()
        self.is_alive = False

    def stall(self, ms: int) -> None:
        """Keep the user's thread busy, with the work that it is there for."""
        if not self._is_busy:
            self._world.note(self.name, "works for {} ms", ms)
            self._take(ms)

    def freeze(self, ms: int) -> None:
        """Stop both threads."""
        self._world.note(self.name, "freezes for {} ms", ms)
        self._frozen_until = max(self._frozen_until, self._world.now + ms)
        self.disturbed_at = max(self.disturbed_at, self._frozen_until)

    def cut_off(self, ms: int) -> None:
        """Cut the way to the log, the way back, or both."""
        until = self._world.now + ms
        lines = self._world.rng.choice(
            [(self.up_line,), (self.down_line,), (self.up_line, self.down_line)],
        )
        for line in lines:
            line.cut(until)
        self.disturbed_at = max(self.disturbed_at, until)
        self._world.note(self.name, "is cut off for {} ms ({} lines)", ms, len(lines))

    def change_subscription(self) -> None:
        """Want to join again."""
        self._world.note(self.name, "changes its subscription")
        self.membership.request_rejoin("the subscription has changed")

    # -- the background thread -----------------------------------------------------------------------

    def hear(self, answer: AnyAnswer) -> None:
        """An answer has arrived."""
        if not self._is_running(self.hear, answer):
            return
        if f"-{self.name}-" in answer.request_id:
            self._world.note(self.name, "hears {} {}", answer.request_id, answer.error)
        self._is_fenced |= answer.error_code == Errors.FENCED_INSTANCE_ID
        self.membership.receive(answer, self._world.now)
        self._send()
        self._take_outcomes()
        # Notified, as whoever waits in `poll`.
        self._poll()

    def _send(self) -> None:
        world = self._world
        if self.membership.generation is None:
            self.beats_since = None
        elif self.beats_since is None:
            self.beats_since = world.now
        for request in self.membership.take_requests():
            kind, value = type(request).__name__, encode(request)
            copies = self.up_line.carry(world.log.append, self._log_partition, request, value)
            world.note(self.name, "sends {} {} ({} arrive)", request.request_id, kind, copies)
        self._arm()

    def _arm(self) -> None:
        timer = self.membership.next_timer()
        if timer != self._armed:
            self._armed = timer
            if timer is not None:
                self._world.at(max(timer, self._world.now), self._ring, timer)

    def _ring(self, timer: int) -> None:
        if timer == self._armed and self._is_running(self._ring, timer):
            self._armed = None
            self.membership.handle_timer(self._world.now)
            self._send()
            self._take_outcomes()

    def _is_running(self, again: Callable[..., None], *what: object) -> bool:
        """Whether there is a process to do it; a frozen one does it once it thaws."""
        if self.is_alive and self._world.now < self._frozen_until:
            self._world.at(self._frozen_until, again, *what)
            return False
        return self.is_alive

    # -- the user's thread ---------------------------------------------------------------------------

    def _use(self) -> None:
        """Poll, work a little, and so on."""
        if self._is_running(self._use):
            self._poll()
            if not self._is_busy:
                self._work()
                self._take(self._think_ms())
            self._world.after(300 + int(self._world.rng.random() * 900), self._use)

    def _take(self, ms: int, then: Callable[[], None] | None = None) -> None:
        """Be busy for so long, though not when the storm is over; then go on."""
        assert not self._is_busy
        self._is_busy = True
        ms = min(ms, max(self._world.storm_ends - self._world.now, CALM_THINK_MS))
        if ms > _LONG_MS:
            self.worked_until = self._world.now + ms
        self._world.after(ms, self._go_on, then)

    def _go_on(self, then: Callable[[], None] | None) -> None:
        if self._is_running(self._go_on, then):
            self._is_busy = False
            if then is not None:
                then()
            self._poll()

    def _poll(self) -> None:
        """What `GroupMember.poll` does, as far as it gets without waiting."""
        if self._is_busy or not self._is_running(self._poll):
            return
        self.membership.poll(self._world.now)
        self._send()
        while self.is_alive and not self._is_busy and (step := self._due_step()) is not None:
            step()

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
        units = self._units_known = world.units
        shares = divide([member.member_id for member in members], units)
        self._look_at = world.now + LOOK_MS
        if generation is self.membership.generation:
            world.units_divided[generation.generation_id].add(units)
        self.membership.assign(generation, shares, world.now)
        self._send()

    def _take_over(self) -> None:
        generation, assignment = self.membership.generation, self.membership.assignment
        if generation is None or assignment is None:
            return
        self.assigned_in, self.positions, self._is_fetching = generation, None, False
        if generation.watched:
            self._units_known = self._world.units
        self.owned = self._last_owned = units_in(assignment)
        self._world.note(self.name, "owns {} in generation {}", self.owned, generation.generation_id)
        self._world.checks.owns(generation.member_id, generation.generation_id, assignment)
        self._take(self._think_ms())

    def _has_to_look(self) -> bool:
        assigned_in = self.assigned_in
        return assigned_in is not None and assigned_in.is_leader and self._world.now >= self._look_at

    def _look(self) -> None:
        self._look_at = self._world.now + LOOK_MS
        if self._units_known != self._world.units:
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

    def _think_ms(self) -> int:
        """How long the user's code takes for anything."""
        rng = self._world.rng
        longest = CALM_THINK_MS
        if not self._world.is_calm and rng.random() < 0.1:
            longest = rng.choice([300, 2_000, 8_000])
        return int(rng.random() * longest)

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
