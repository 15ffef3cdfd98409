"""Writes ticks to the clock topic, one after the other, and waits until each is appended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec
from kafka import KafkaProducer

from group_coordinator.jobs.lookups import SOON
from group_coordinator.jobs.producers import close_producer
from group_coordinator.streaming.ticks import Tick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka.producer.future import RecordMetadata

__all__ = ["TickWriter"]

_FIRST_TICK_S = 20


class TickWriter:
    """Writes the ticks of one clock.

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
