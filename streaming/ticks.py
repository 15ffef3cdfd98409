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
from kafka import KafkaProducer, TopicPartition

from group_coordinator.client.ask_offsets import ends_of
from group_coordinator.coordinator_state.foreign import ForeignJson, Ms
from group_coordinator.jobs.lookups import SOON, consumer_of
from group_coordinator.jobs.producers import close_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka.producer.future import RecordMetadata

_ANYBODY = ""
_WAIT_MS = 100
_FIRST_TICK_S = 20


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


class TickWriter:
    """Writes the ticks of one clock, one after the other, and waits until each is appended.

    Args:
        topic: of one partition, with LogAppendTime.
        client_config: for kafka-python.
        coordinator: who writes; no two processes may have the same.
        alive_at: as ticks tell it.
        longest_ms: a tick that takes longer is of no use, but for the first one.
    """

    def __init__(
        self,
        topic: str,
        client_config: Mapping[str, Any],
        coordinator: str,
        alive_at: str | None,
        longest_ms: int,
    ) -> None:
        self._topic = topic
        self._coordinator = coordinator
        self._alive_at = alive_at
        self._longest_ms = longest_ms
        self._number = 0
        self._since: float | None = None
        self._producer = KafkaProducer(
            max_block_ms=_FIRST_TICK_S * 1000,
            request_timeout_ms=longest_ms,
            delivery_timeout_ms=longest_ms,
            acks="all",
            linger_ms=0,
            **SOON,
            **client_config,
        )

    @property
    def waits_ms(self) -> int:
        """The time, in ms, for which it has waited until now for a tick, but for the first one."""
        since = self._since
        return 0 if since is None else round((time.monotonic() - since) * 1000)

    def write(self, time_ms: int, leeway_ms: int, *, last: bool = False) -> RecordMetadata:
        """Write one; see `Tick` for what it says. Returns its offset and its time by the broker's clock.

        Raises `KafkaError` if it takes too long, or cannot be.
        """
        self._number += 1
        is_first = self._number == 1
        self._since = None if is_first else time.monotonic()
        tick = Tick(
            tick=self._number,
            coordinator=self._coordinator,
            time_ms=time_ms,
            leeway_ms=leeway_ms,
            alive_at=self._alive_at,
            last=last,
        )
        future = self._producer.send(self._topic, msgspec.json.encode(tick))
        appended: RecordMetadata = future.get(timeout=_FIRST_TICK_S if is_first else self._longest_ms / 1000)
        self._since = None
        return appended

    def close(self, *, patiently: bool) -> None:
        """Close the connections. `patiently`: what is on its way may still arrive."""
        close_producer(self._producer, patiently=patiently)


def read_tick(value: bytes | None) -> Tick:
    """A tick; one that cannot be read has no number."""
    # Of a version to come, or anybody's: it is a sign of life either way.
    return _ticks.read_or_none(value) or Tick(tick=0)


_ticks = ForeignJson[Tick](Tick)
