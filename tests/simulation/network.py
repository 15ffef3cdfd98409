"""The request log, and the network that lies before and behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.log import Record
from tests.simulation.conditions import (
    CALM_DELAY_MS,
    DIFFER_MS,
    LARGEST_SETBACK_MS,
    LONGEST_DELAY_MS,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.coordinator_state.requests import AnyRequest
    from tests.simulation.world import World

TOPIC = "requests"


class Log:
    """The request topic: records in the order of their arrival, with the time of their broker."""

    def __init__(self, world: World, partitions: int) -> None:
        self._world = world
        self.records: list[Record] = []
        self._offsets = [0] * partitions
        self._setbacks_ms = [0] * partitions
        self._jumps_ms = [0] * partitions
        self._jumped_from_ms = [0] * partitions
        self.stuck_since: int | None = None
        """Since when nobody can read what is appended."""
        self._held: list[Record] = []

    def stick(self) -> None:
        """Let nobody read what is appended from now on."""
        self.stuck_since = self._world.now
        self._world.note("broker", "does not replicate any more")

    def unstick(self) -> None:
        """Let everybody read what is there."""
        self.stuck_since = None
        self.records += self._held
        self._held.clear()
        self._world.note("broker", "replicates again")
        self._world.coordinator.probe_taken()

    def set_back(self) -> None:
        """Set some broker's clock back, or put it right again."""
        rng = self._world.rng
        partition = rng.randrange(len(self._setbacks_ms))
        self._setbacks_ms[partition] = setback = rng.choice([0, rng.randint(1, LARGEST_SETBACK_MS)])
        self._world.note("broker", "partition {} is {} ms behind", partition, setback)

    def jump(self, smallest_ms: int) -> None:
        """Let some broker's clock jump, or put it right again."""
        rng = self._world.rng
        partition = rng.randrange(len(self._jumps_ms))
        jump = rng.choice([0, 1, -1]) * (smallest_ms + rng.randrange(rng.choice([4_000, 60_000])))
        if rng.random() < 0.3:
            jump = rng.randrange(DIFFER_MS)
        # Neither from where it is, nor from where it was: one batch may have requests of all three times.
        near = (self._jumps_ms[partition], self._jumped_from_ms[partition])
        if any(DIFFER_MS < abs(jump - it) < smallest_ms for it in near):
            jump = 0
        self._jumped_from_ms[partition], self._jumps_ms[partition] = self._jumps_ms[partition], jump
        self._world.note("broker", "partition {} is {} ms ahead", partition, jump)

    def put_right(self) -> None:
        """Put all brokers' clocks right."""
        self._setbacks_ms = [0] * len(self._setbacks_ms)
        self._jumps_ms = [0] * len(self._jumps_ms)
        if self.stuck_since is not None:
            self.unstick()

    def append(self, partition: int, request: AnyRequest, value: bytes) -> None:
        """What a broker does with a request that has arrived."""
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        time_ms = self._world.now - self._setbacks_ms[partition] + self._jumps_ms[partition]
        key = request.group_id.encode()
        records = self.records if self.stuck_since is None else self._held
        records.append(Record(TOPIC, partition, offset, time_ms, key, value))
        self._world.note("log", "{}-{} holds {} at {}", partition, offset, request.request_id, time_ms)


class Line:
    """One direction of one client's connection: delays, loses, repeats and reorders, or is cut."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._weather = world.conditions.weather
        self._cut_until = 0
        self._last_arrival = 0
        self._carried = self._newest = 0
        self.is_disordered = False
        """Whether a message has come after one that was sent later."""

    def cut(self, until: int) -> None:
        """Let nothing through until then."""
        self._cut_until = max(self._cut_until, until)

    def carry(self, deliver: Callable[..., None], *what: object) -> int:
        """Deliver something some time, once, twice or never; how often is returned."""
        world, weather = self._world, self._weather
        random = world.rng.random
        self._carried += 1
        if world.is_calm:
            self._carry_once(deliver, what)
            return 1
        lost = random() < weather.loss or (world.now < self._cut_until and not weather.keeps)
        copies = 0 if lost else 2 if random() < weather.repeat else 1
        for _ in range(copies):
            self._carry_once(deliver, what)
        return copies

    def _carry_once(self, deliver: Callable[..., None], what: tuple[object, ...]) -> None:
        world = self._world
        random = world.rng.random
        longest = CALM_DELAY_MS
        if not world.is_calm and random() < self._weather.slow:
            longest = world.rng.choice([200, 1_000, 3_000, LONGEST_DELAY_MS])
        arrival = max(world.now, self._cut_until) + 1 + int(random() * longest)
        if self._weather.in_order:
            arrival = self._last_arrival = max(arrival, self._last_arrival)
        world.at(arrival, self._deliver, self._carried, deliver, what)

    def _deliver(self, number: int, deliver: Callable[..., None], what: tuple[object, ...]) -> None:
        self.is_disordered |= number < self._newest
        self._newest = max(self._newest, number)
        deliver(*what)


def encode(request: AnyRequest) -> bytes:
    """A request as it travels."""
    return msgspec.json.encode(request)
