"""Programs that are members: what they have in common, whichever protocol they speak.

A program has two threads' worth of behaviour. The background one reads answers and handles timers at once,
however busy the user is. The user's one gives work up, joins and takes work over. It does so while the user
is in `poll`, and each of these may take long. It goes on from what is committed, works, and commits how far
it has come. A frozen program does neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tests.simulation.conditions import CALM_THINK_MS
from tests.simulation.network import Line, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.client.any_membership import AnyAnswer
    from tests.simulation.world import World

GROUP = "orders"
_LONG_MS = 300


class Program:
    """One life of one member, from its start to its crash or its leave. `membership`: its side of it all."""

    REPLACES: ClassVar[bool]
    """Whether a program that is started twice takes the place of the first. Else the first keeps it."""
    reply_partition: int
    """The partition of the responses that it reads."""

    def __init__(self, world: World, name: str, settings: Any, membership: Any) -> None:
        self._world = world
        self.name = name
        self.settings = settings
        self.membership = membership
        self.is_alive = True
        self.up_line, self.down_line = Line(world), Line(world)
        self.disturbed_at = world.now
        """When it last was not able to send heartbeats, or to get them to the log in time."""
        self.worked_until = 0
        """Until when it was last kept busy for long, and did not look at what it is told."""
        self.beats_since: int | None = None
        """Since when it sends heartbeats; None if it does not."""

        self._log_partition = world.rng.randrange(world.conditions.partitions)
        self._is_busy = False
        self._frozen_until = 0
        self._armed: int | None = None
        world.after(0, self._use)

    # -- what a protocol says --------------------------------------------------------------------------

    @property
    def _is_member(self) -> bool:
        """Whether it has heard that it is one, so that it sends heartbeats."""
        raise NotImplementedError

    def _has_heard(self, answer: AnyAnswer) -> None:
        """Its membership has taken an answer, or ignored it."""

    def _due_step(self) -> Callable[[], None] | None:
        """What the user's thread does next; None if it has nothing to do in `poll`."""
        raise NotImplementedError

    def _work(self) -> None:
        """Do some of the work that is its own."""
        raise NotImplementedError

    def _take_outcomes(self) -> None:
        """See what has come of commits and fetches."""
        raise NotImplementedError

    # -- mishaps -----------------------------------------------------------------------------------

    def crash(self) -> None:
        """Vanish without a word."""
        self._world.note(self.name, "crashes")
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

    # -- the background thread -----------------------------------------------------------------------

    def hear(self, answer: AnyAnswer) -> None:
        """An answer has arrived."""
        if not self._is_running(self.hear, answer):
            return
        if f"-{self.name}-" in answer.request_id:
            self._world.note(self.name, "hears {} {}", answer.request_id, answer.error)
        self.membership.receive(answer, self._world.now)
        self._has_heard(answer)
        self._send()
        self._take_outcomes()
        # Notified, as whoever waits in `poll`.
        self._poll()

    def _send(self) -> None:
        world = self._world
        if not self._is_member:
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

    def _think_ms(self) -> int:
        """How long the user's code takes for anything."""
        rng = self._world.rng
        longest = CALM_THINK_MS
        if not self._world.is_calm and rng.random() < 0.1:
            longest = rng.choice([300, 2_000, 8_000])
        return int(rng.random() * longest)
