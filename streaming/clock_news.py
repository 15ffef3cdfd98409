"""The news of brokers' clocks that are wrong, for people."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from group_coordinator.streaming.wrong_clocks import WrongClocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.streaming.clock import Clock
    from group_coordinator.streaming.counts import Counts
    from group_coordinator.streaming.metrics import JobMetrics

__all__ = ["ClockNews"]


class ClockNews:
    """Tells it, each once. `clock_topic`: its leader is one of those brokers."""

    def __init__(
        self, clock_topic: str, metrics: JobMetrics, counts: Counts, say: Callable[[str], None]
    ) -> None:
        self._topic = clock_topic
        self._metrics = metrics
        self._counts = counts
        self._say = say
        self._clocks = WrongClocks()
        self._broker_is_off = False
        """Whether it was told that the clock of the ticks' broker is wrong."""

    def look(self, clock: Clock) -> None:
        """Tell what is new."""
        self._metrics.clock_skew.set(clock.skew_ms / 1000)
        if clock.broker_is_off is not self._broker_is_off:
            self._broker_is_off = clock.broker_is_off
            if self._broker_is_off:
                self._say(
                    f"the clock of the leader of topic {self._topic} differs from log time by "
                    f"{clock.skew_ms / 1000:+.1f} s: log time goes on without it"
                )
            else:
                self._say(f"the clock of the leader of topic {self._topic} is right again")
        for partition, is_wrong, ahead_s in self._clocks.look(self._counts, time.monotonic()):
            if is_wrong:
                self._say(
                    f"the clock of request partition {partition}'s leader is wrong by {ahead_s:+.1f} s: "
                    "its requests count as of now"
                )
            else:
                self._say(f"the clock of request partition {partition}'s leader is right again")
