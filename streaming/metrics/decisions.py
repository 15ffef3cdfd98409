"""Metrics of the stateful function's counts on the executors."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, get_args

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState
from group_coordinator.coordinator_state.events import AnyEvent, RebalanceCause
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.streaming.counts import REBALANCE_BOUNDS_MS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

    from group_coordinator.streaming.counts import Counts

_CAUSES = [each for each in RebalanceCause if each is not RebalanceCause.UNKNOWN]
"""The coordinator knows why its own groups rebalance."""
_STATES = dict.fromkeys((*GroupState, *ConsumerState))
_LE = [*(str(bound / 1000) for bound in REBALANCE_BOUNDS_MS), "+Inf"]


class DecisionMetrics(Collector):
    """Requests, answers and decisions. `counts` returns the sums so far.

    Labels that are known beforehand are there from the start, with 0: to Prometheus the first sample of a
    series is no increase.
    """

    def __init__(self, counts: Callable[[], Counts]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the sums as they are now."""
        counts = self._counts()
        yield _by("api", "requests", "Requests applied.", counts.requests, _tags(AnyRequest))
        yield _responses(counts.responses)
        yield _total("requests_rejected", "Records that are no requests.", counts.rejected)
        yield _by("event", "events", "Decisions.", counts.events, _tags(AnyEvent))
        yield _by("to", "state_changes", "Moves of groups.", counts.state_changes, _STATES)
        yield _by("cause", "rebalances", "Rebalances begun.", counts.rebalances, _CAUSES)
        yield _rebalance_durations(counts.rebalance_durations, counts.rebalance_ms)
        yield _by("reason", "members_removed", "Members gone.", counts.members_removed, ())
        expired = counts.members_removed["session_expired"]
        yield _total("session_expirations", "Members that fell silent.", expired)
        changes = ("committed", "deleted", "expired")
        yield _by("change", "offsets", "Offsets committed and gone.", counts.offsets, changes)


def _tags(union: Any) -> list[str]:
    """What the structs of a union are called in JSON."""
    return [str(each.__struct_config__.tag) for each in get_args(union)]


def _total(name: str, documentation: str, count: int) -> Metric:
    return CounterMetricFamily(f"group_coordinator_{name}", documentation, count)


def _responses(counts: Mapping[tuple[str, str], int]) -> Metric:
    family = CounterMetricFamily("group_coordinator_responses", "Responses.", labels=["api", "error"])
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _by(label: str, name: str, documentation: str, counts: dict[str, int], known: Iterable[str]) -> Metric:
    family = CounterMetricFamily(f"group_coordinator_{name}", documentation, labels=[label])
    for value, count in (dict.fromkeys(map(str, known), 0) | counts).items():
        family.add_metric([value], count)
    return family


def _rebalance_durations(buckets: Counter[tuple[str, int]], sums_ms: Counter[str]) -> Metric:
    family = HistogramMetricFamily(
        "group_coordinator_rebalance_duration_seconds",
        "Time by the log from when the group began to rebalance until it was Stable.",
        labels=["cause"],
    )
    for cause in map(str, _CAUSES):
        counts = accumulate(buckets[cause, number] for number in range(len(_LE)))
        family.add_metric([cause], list(zip(_LE, counts, strict=True)), sums_ms[cause] / 1000)
    return family
