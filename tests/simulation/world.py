"""A run: time, chance, a storm, and the calm after it in which everything has to come right.

All that happens is decided by one `random.Random`, so a seed is a run of each kind of group. Nothing may
depend on the order of sets or on the hash of a string.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from heapq import heappop, heappush
from traceback import extract_tb
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.step import step
from tests.coordinator_state.observer import Step
from tests.simulation.checks import Violation
from tests.simulation.conditions import (
    CALM_BATCH_MS,
    DIFFER_MS,
    GAP_MS,
    LARGEST_SETBACK_MS,
    LONGEST_BEGIN_MS,
    LONGEST_DELAY_MS,
    LONGEST_RESTART_MS,
    LOOK_MS,
    NOTICED_MS,
    TICK_MS,
    Conditions,
)
from tests.simulation.coordinator import Coordinator
from tests.simulation.network import Log
from tests.simulation.plays import CLASSIC, PLAYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.events import MemberRemoved
    from group_coordinator.coordinator_state.outages import Outage
    from tests.coordinator_state.model_time import Answer
    from tests.simulation.programs import Program

START_MS = 1_000_000
REPLY_PARTITIONS = 8


class Note(NamedTuple):
    """One line of the trace, put together only when it is read."""

    at: int
    who: str
    template: str
    values: tuple[object, ...]

    def __str__(self) -> str:
        return f"{(self.at - START_MS) / 1000:9.3f}  {self.who:12} {self.template.format(*self.values)}"


class Outcome(NamedTuple):
    """What a run was. `calm_ms`: how long it took to come right; `allowed_ms`: how long it might have."""

    seed: int
    kind: str
    requests: int
    batches: int
    restarts: int
    reruns: int
    corrections: int
    """Of clocks that were wrong, or are right again."""
    standstills: int
    generations: int
    """Of consumer groups, epochs."""
    calm_ms: int
    allowed_ms: int


class Failed(AssertionError):  # noqa: N818 - not an error to be handled
    """A run went wrong. `world` is as it was left."""

    def __init__(self, world: World, cause: BaseException) -> None:
        place = extract_tb(cause.__traceback__)[-1]
        super().__init__(
            f"seed {world.seed}: {cause!r}\nin {place.name}: {place.line}\n{world.tail(60)}\n"
            f"All of it: python -m tests.simulation --trace {world.seed}{world.option}"
        )
        self.world = world


class World:
    """One run, of a group of one kind. `step` is the coordinator's function; a test may give a faulty one."""

    def __init__(self, seed: int, step: Step = step, *, kind: str = CLASSIC) -> None:
        self.seed, self.kind = seed, kind
        self.rng = random.Random(seed)
        self.now = START_MS
        self.is_calm = False
        self.notes: list[Note] = []
        self._agenda: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self._entries = 0

        self.clients: list[Program] = []
        """All that are alive."""
        self.outages: list[Outage] = []
        """When there was no coordinator, in log time."""
        self.play = PLAYS[kind](self)
        self.conditions: Conditions = self.play.conditions
        self.storm_ends = START_MS + self.conditions.storm_ms
        self.log = Log(self, self.conditions.partitions)
        self.checks = self.play.checks()
        self.coordinator = Coordinator(self, step)
        self._slots: list[Program | None] = [None] * len(self.conditions.members)
        self._homes: dict[str, int] = {}
        """Name of a client -> its slot, in which another one may have taken its place."""
        self._lives = 0
        self._starting = 0

    @property
    def option(self) -> str:
        """What the command line needs besides the seed to play this run again."""
        return "" if self.kind == CLASSIC else f" --kind {self.kind}"

    # -- time and what happens in it -----------------------------------------------------------------

    def at(self, time: int, do: Callable[..., None], *what: object) -> None:
        """Do something at a certain time."""
        self._entries += 1
        heappush(self._agenda, (time, self._entries, do, what))

    def after(self, ms: int, do: Callable[..., None], *what: object) -> None:
        """Do something in so many ms."""
        self.at(self.now + ms, do, *what)

    def note(self, who: str, template: str, *values: object) -> None:
        """Add to the trace. Values must not change afterwards."""
        self.notes.append(Note(self.now, who, template, values))

    def _run_until(self, end: int) -> None:
        agenda = self._agenda
        while agenda[0][0] <= end:
            self.now, _, do, what = heappop(agenda)
            do(*what)
        self.now = end

    # -- the run -------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run, or raise `Failed`."""
        try:
            self._storm()
            return self._calm()
        except Exception as error:
            self.note("simulation", "ends: {!r}", error)
            raise Failed(self, error) from error

    def _storm(self) -> None:
        self.note("simulation", "{}", self.conditions)
        for slot in range(len(self._slots)):
            self.after(self.rng.randrange(3_000), self._mishap, slot)
        self.after(0, self._weather_changes)
        self.play.begin()
        # Often the end of the storm finds the group in a rebalance, with messages of it lost.
        self.at(self.storm_ends - self.rng.randrange(6_000), self._rebalance)
        self._run_until(self.storm_ends)

    def _calm(self) -> Outcome:
        self.is_calm = True
        self.log.put_right()
        self.play.calm_down()
        for client in list(self.clients):
            if self.rng.random() < self.conditions.parting:
                self._end(client)
        self._slots = [client if client in self.clients else None for client in self._slots]
        self.note("simulation", "calm: {} survive", [client.name for client in self.clients])
        # What the storm has sent may still arrive, and disturb.
        self._run_until(self.storm_ends + LONGEST_DELAY_MS + LOOK_MS)
        # One that has just ended may be about to be started again.
        if self.clients or self._starting:
            allowed = self.play.settling_ms(self.lateness_ms())
            right_after = self._wait_for(
                self._what_is_not_right, allowed, 2 * self.conditions.slowest.session_ms
            )
        else:
            allowed = self.play.settling_ms(self.lateness_ms()) + self._deletion_ms()
            right_after = self._wait_for(self._what_is_left, allowed, 0)
        if self.conditions.partitions == 1:
            self.coordinator.replay()
        return Outcome(
            seed=self.seed,
            kind=self.kind,
            requests=len(self.log.records),
            batches=self.coordinator.batches,
            restarts=self.coordinator.restarts,
            reruns=self.coordinator.reruns,
            corrections=self.coordinator.corrections,
            standstills=len(self.coordinator.standstills),
            generations=self.checks.generation,
            calm_ms=right_after,
            allowed_ms=allowed,
        )

    def _wait_for(self, what_is_wrong: Callable[[], str | None], allowed_ms: int, hold_ms: int) -> int:
        """Run until nothing is wrong, and stays so; return how long after the storm that began.

        In the calm nothing changes any more: nobody is put out, and nobody joins again.
        """
        begin, generation = self.now, self.checks.generation
        while True:
            wrong = what_is_wrong()
            if wrong is None and generation != self.checks.generation:
                wrong = "there is one rebalance after the other"
            if wrong is not None:
                begin, generation = self.now, self.checks.generation
                if self.now > self.storm_ends + allowed_ms:
                    raise Violation(f"{allowed_ms} ms after the storm: {wrong}")
            elif self.now >= begin + hold_ms:
                self.note("simulation", "all is as it should be")
                return begin - self.storm_ends
            self._run_until(self.now + 500)

    # -- mishaps -------------------------------------------------------------------------------------

    def _weather_changes(self) -> None:
        if self.is_calm:
            return
        if self.conditions.has_setbacks and self.rng.random() < 0.5:
            self.log.set_back()
        if self.conditions.smallest_jump_ms is not None and self.rng.random() < 0.5:
            self.log.jump(self.conditions.smallest_jump_ms)
        longest_ms = self.conditions.longest_standstill_ms
        if longest_ms is not None and self.log.stuck_since is None and self.rng.random() < 0.5:
            self.log.stick()
            self.after(self.rng.randrange(longest_ms), self._unstick)
        self.play.change_work()
        self.after(self.rng.randint(500, 20_000), self._weather_changes)

    def _unstick(self) -> None:
        if self.log.stuck_since is not None:
            self.log.unstick()

    def _rebalance(self) -> None:
        if self.clients:
            self.rng.choice(self.clients).change_subscription()

    def _mishap(self, slot: int) -> None:
        """Something happens to one member, or it comes back."""
        if self.is_calm:
            return
        client, rng = self._slots[slot], self.rng
        longest = rng.choice([2_000, 10_000, 40_000])
        left = self.storm_ends - self.now
        if client is None:
            self._slots[slot] = self._start(slot)
        else:
            match rng.randrange(8):
                case 0 | 1:
                    self._end(client)
                    self._slots[slot] = None
                case 2:
                    client.freeze(min(rng.randrange(longest), left))
                    # Somebody takes it for dead and starts another one.
                    if rng.random() < 0.3:
                        self._slots[slot] = self._start(slot)
                case 3 | 4:
                    client.stall(min(rng.randrange(longest), left))
                case 5 | 6:
                    client.cut_off(min(rng.randrange(longest), left))
                case _:
                    client.change_subscription()
        self.after(rng.randrange(2 * self.conditions.mishap_pause_ms), self._mishap, slot)

    def _start(self, slot: int) -> Program:
        self._lives += 1
        rng = self.rng
        client_id = "c" if self.conditions.shares_client_id else f"c{slot}"
        if rng.random() < 0.2:
            client_id = f"{client_id}-{self._lives}"
        instance_id = f"i{slot}" if self.conditions.static[slot] else None
        client = self.play.client(
            f"{slot}#{self._lives}",
            client_id,
            self.conditions.members[slot],
            instance_id,
            sum(client_id.encode()) % REPLY_PARTITIONS,
        )
        self.clients.append(client)
        self._homes[client.name] = slot
        self.note(client.name, "starts as {}", client_id)
        return client

    def ended(self, client: Program) -> None:
        """A program has ended by itself: it is started again, if it is not running elsewhere."""
        self.clients.remove(client)
        slot = self._homes[client.name]
        others = [it for it in self.clients if self._homes[it.name] == slot]
        if others and not client.REPLACES:
            self._slots[slot] = others[0]
        is_only_one = self._slots[slot] in (client, None)
        if is_only_one and not (self.is_calm and self.conditions.nobody_survives):
            self._slots[slot] = None
            self._starting += 1
            self.after(self.rng.randrange(LONGEST_RESTART_MS), self._start_again, slot)

    def _start_again(self, slot: int) -> None:
        self._starting -= 1
        if self._slots[slot] is None and not (self.is_calm and self.conditions.nobody_survives):
            self._slots[slot] = self._start(slot)

    def _end(self, client: Program) -> None:
        if self.rng.random() < 0.5:
            client.crash()
        else:
            client.leave()
        self.clients.remove(client)

    # -- what others tell ----------------------------------------------------------------------------

    def answer(self, answer: Answer) -> None:
        """The coordinator has written an answer: everybody who reads as that client hears of it."""
        for client in self.clients:
            if (client.settings.client_id, client.reply_partition) == (
                answer.response.client_id,
                answer.partition,
            ):
                client.down_line.carry(client.hear, answer.response)

    def removed(self, event: MemberRemoved) -> None:
        """The coordinator has put a member out: not one that works, and whose requests all arrive."""
        conditions = self.conditions
        if conditions.has_setbacks or not conditions.weather.is_reliable:
            return
        for client in self.clients:
            if client.membership.member_id != event.member_id or client.beats_since is None:
                continue
            works_since = max(client.beats_since, client.disturbed_at)
            allowed_ms = self.play.allowed_ms(event, client)
            if allowed_ms is None:
                continue
            if event.reason != "session_expired":
                # It hears of it with a heartbeat, and looks at once unless it is busy.
                works_since = max(works_since, client.worked_until)
                if conditions.longest_standstill_ms is not None or conditions.room is not None:
                    # So long time goes on, or requests before it wait, and so long it takes to hear.
                    continue
            if conditions.smallest_jump_ms is not None:
                allowed_ms += DIFFER_MS + conditions.clock_slack_ms
            if works_since < event.at_ms - allowed_ms:
                raise Violation(f"{client.name} was put out although it works: {event}")

    # -- the calm ------------------------------------------------------------------------------------

    def _deletion_ms(self) -> int:
        """How long an Empty group may stay: it is looked at again if an id was pending or an offset kept."""
        config = self.conditions.config
        interval, retention = config.offsets_retention_check_interval_ms, config.offsets_retention_minutes
        kept = 2 * interval + retention * 60_000
        return kept + self.conditions.slowest.session_ms + self.lateness_ms()

    def lateness_ms(self) -> int:
        """How far log time may lie behind."""
        late = LARGEST_SETBACK_MS + self.conditions.clock_slack_ms + TICK_MS + 3 * CALM_BATCH_MS
        if self.conditions.longest_standstill_ms is not None:
            late += NOTICED_MS + 3 * LONGEST_BEGIN_MS
        if self.conditions.smallest_jump_ms is None:
            return late
        # Each partition's clock is found to be right again.
        return late + GAP_MS + self.conditions.partitions * LONGEST_BEGIN_MS

    def _what_is_not_right(self) -> str | None:
        if self._starting:
            return "a program is being started again"
        return self.play.what_is_not_right(self.checks.group)

    def _what_is_left(self) -> str | None:
        if (group := self.checks.group) is not None:
            return f"there is still a group, {group.state} and with {list(group.members)}"
        return "its picture is still there" if self.checks.has_picture else None

    # -- the trace -----------------------------------------------------------------------------------

    def digest(self) -> str:
        """A fingerprint of everything that happened."""
        digest = hashlib.sha256()
        for line in self.lines():
            digest.update(line.encode())
        digest.update(self.coordinator.state or b"")
        return digest.hexdigest()

    def lines(self) -> Iterable[str]:
        """The whole trace."""
        return map(str, self.notes)

    def show(self) -> None:
        """Print the whole trace."""
        for line in self.lines():
            print(line)

    def tail(self, count: int) -> str:
        """The end of the trace."""
        return "\n".join(map(str, self.notes[-count:]))
