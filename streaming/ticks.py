"""The clock topic: its ticks, and what they tell of coordinators.

Only one coordinator of the same topics is active: the one that began last. Two would answer every request
twice, and differently. One that starts looks at the clock topic: if somebody's ticks go on, it gives up, or
waits until they end. A running coordinator reads the topic that it writes. It stops if another one begins
after it. Both may have started in the same moment, or the first one was taken for dead. The first one may
have written a tick since then. That tick counts for nothing, because another coordinator is active.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from kafka import TopicPartition

from group_coordinator.client.ask_offsets import ends_of
from group_coordinator.coordinator_state.foreign import ForeignJson, Ms
from group_coordinator.jobs.lookups import consumer_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Beginning", "Tick", "TickReader", "read_tick"]

_ANYBODY = ""
_WAIT_MS = 100


class Tick(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record of the clock topic, as JSON. `tick`: its number, beginning with 1."""

    tick: int
    coordinator: str = _ANYBODY
    """The coordinator that wrote it: host and process id."""
    time_ms: int = 0
    """This tick lets log time come up to then. One without it lets no time pass."""
    leeway_ms: Ms = 0
    """The next one may be later than `clock.max.gap.ms` by so much, because no requests come."""
    alive_at: str | None = None
    """Where this coordinator's Java process listens for as long as it lives (`lifeline.py`)."""
    last: bool = False
    """Whether this is the last tick of this coordinator."""


class Beginning(NamedTuple):
    """A coordinator has begun: the place of its first tick."""

    offset: int
    coordinator: str


class TickReader:
    """Reads ticks of the clock topic from one on, and all that come while the context is open.

    `first` is the offset of the one to begin with: the newest, if not given.
    """

    def __init__(self, topic: str, client_config: Mapping[str, Any], first: int | None = None) -> None:
        self._partition = TopicPartition(topic, 0)
        self._first = first
        # A broker answers a connection's requests in turn, and a fetch waits for a tick.
        config = {**client_config, "fetch_max_wait_ms": _WAIT_MS}
        self._consumer, begins = consumer_of(config, [self._partition])
        (self._begin,) = begins.values()
        self._newest: Tick | None = None
        self._heard_at = time.monotonic()
        self._end = 0
        self.position = 0
        """The offset of the tick to read next."""
        self.is_live = False
        """Whether a tick has come since the context was entered, which means that a coordinator runs."""
        self.newest_beginning: Beginning | None = None
        """The beginnings of coordinators in the ticks that were read."""

    def __enter__(self) -> Self:
        partition = self._partition
        self._consumer.assign([partition])
        (self._end,) = ends_of(self._consumer, [partition]).values()
        first = self._end - 1 if self._first is None else self._first
        self._consumer.seek(partition, max(self._begin, first))
        self.position = self._consumer.position(partition)
        while self.position < self._end:
            self.poll(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the reading, even before the context ends."""
        self._consumer.close()

    def poll(self, timeout_s: float) -> None:
        """Take in the ticks that have come, or wait for one."""
        for records in self._consumer.poll(timeout_ms=round(timeout_s * 1000)).values():
            for record in records:
                self._take(record.offset, read_tick(record.value))
        self.position = self._consumer.position(self._partition)

    def _take(self, offset: int, tick: Tick) -> None:
        begun = self.newest_beginning
        if tick.tick == 1:
            self.newest_beginning = Beginning(offset, tick.coordinator)
        elif begun is not None and tick.coordinator not in {begun.coordinator, _ANYBODY}:
            return
        self._newest = tick
        self._heard_at = time.monotonic()
        self.is_live = self.is_live or offset >= self._end

    def running(self, quiet_s: float) -> Tick | None:
        """The newest tick, if more may follow: it was not the last, and came less than `quiet_s` ago.

        The leeway that it gives the next one is added to that. A tick that is there and was not read yet,
        because this process itself stood still, counts as well.
        """
        newest = self._newest
        if newest is None or newest.last:
            return None
        silent_s = time.monotonic() - self._heard_at - newest.leeway_ms / 1000
        return newest if silent_s <= quiet_s or self._is_behind() else None

    def _is_behind(self) -> bool:
        (end,) = ends_of(self._consumer, [self._partition]).values()
        return bool(self.position < end)


def read_tick(value: bytes | None) -> Tick:
    """A tick; one that cannot be read has no number."""
    # Of a version to come, or anybody's: it is a sign of life either way.
    return _ticks.read_or_none(value) or Tick(tick=0)


_ticks = ForeignJson[Tick](Tick)
