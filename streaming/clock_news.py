"""The news of brokers' clocks that are wrong, for people."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from group_coordinator.streaming.counts import Counts
    from group_coordinator.streaming.metrics import JobMetrics

_EVERY_S = 60.0
"""Each group shows it with its next request. So there may be many that tell the same, one after the other."""


class ClockNews:
    """Tells it, once in a while. `clock_topic`: its leader is one of those brokers."""

    def __init__(
        self, clock_topic: str, metrics: JobMetrics, counts: Counts, say: Callable[[str], None]
    ) -> None:
        self._topic = clock_topic
        self._metrics = metrics
        self._counts = counts
        self._say = say
        self._broker_is_off = False
        """Whether it was told that the clock of the ticks' broker is wrong."""
        self._seen: Counter[tuple[int, int]] = Counter()
        """The corrections of requests' clocks that were counted until the last look."""
        self._quiet_until_s: dict[tuple[int, bool], float] = {}
        """When it is told again of a request partition that its clock is wrong, or right again."""

    def look(self, skew_ms: int, now_s: float, *, broker_is_off: bool) -> None:
        """Tell what is new, at that time of a clock that nobody sets. The rest: as `Clock` has it."""
        self._metrics.clock_skew.set(skew_ms / 1000)
        if broker_is_off is not self._broker_is_off:
            self._broker_is_off = broker_is_off
            if broker_is_off:
                self._say(
                    f"the clock of the leader of topic {self._topic} differs from log time by "
                    f"{skew_ms / 1000:+.1f} s: log time goes on without it"
                )
            else:
                self._say(f"the clock of the leader of topic {self._topic} is right again")
        new, self._seen = self._counts.clocks - self._seen, self._counts.clocks
        tenths: dict[tuple[int, bool], Counter[int]] = {}
        for (partition, ahead), count in new.items():
            tenths.setdefault((partition, ahead != 0), Counter())[ahead] += count
        for (partition, is_wrong), by_size in tenths.items():
            self._requests_show(partition, by_size, now_s, is_wrong=is_wrong)

    def _requests_show(self, partition: int, tenths: Counter[int], now_s: float, *, is_wrong: bool) -> None:
        """Requests were corrected since the last look, by so many tenths of a second each."""
        if now_s < self._quiet_until_s.get((partition, is_wrong), now_s):
            return
        self._quiet_until_s[partition, is_wrong] = now_s + _EVERY_S
        # That it has changed is news at once.
        self._quiet_until_s.pop((partition, not is_wrong), None)
        if is_wrong:
            ahead_s = sum(it * tenths[it] for it in tenths) / tenths.total() / 10
            self._say(
                f"the clock of request partition {partition}'s leader is wrong by {ahead_s:+.1f} s: "
                "its requests count as of now"
            )
        else:
            self._say(f"the clock of request partition {partition}'s leader is right again")
