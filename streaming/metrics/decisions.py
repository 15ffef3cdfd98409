"""Metrics of the stateful function's counts on the executors."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING, Any, get_args

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.coordinator_state.events import AnyEvent, RebalanceCause
from group_coordinator.coordinator_state.requests import AnyRequest
from group_coordinator.coordinator_state.states import GroupState
from group_coordinator.coordinator_state.step import REBALANCE_BOUNDS_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

__all__ = ["DecisionMetrics"]

_LE = [*(str(bound / 1000) for bound in REBALANCE_BOUNDS_MS), "+Inf"]


class DecisionMetrics(Collector):
    """Requests, answers and decisions. `counts` returns the sums so far, as `StepResult` has them.

    Labels that are known beforehand are there from the start, with 0: to Prometheus the first sample of a
    series is no increase.
    """

    def __init__(self, counts: Callable[[], Mapping[tuple[str, str, str], int]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the sums as they are now."""
        responses = CounterMetricFamily("group_coordinator_responses", "Responses.", labels=["api", "error"])
        sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
        details: defaultdict[str, Counter[str]] = defaultdict(Counter)
        buckets: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for (what, first, second), count in sorted(self._counts().items()):
            match what, first:
                case "responses", api:
                    responses.add_metric([api, second], count)
                case "rebalances_completed", cause:
                    buckets[cause][int(second)] = count
                case "events", event:
                    sums[what][event] += count
                    details[event][second] = count
                case _:
                    sums[what][first] = count
        removed, moves = details["member_removed"], details["state_changed"]
        yield _by("api", "requests", "Requests applied.", sums["requests"], _tags(AnyRequest))
        yield responses
        yield _total("requests_rejected", "Records that are no requests.", sums["rejected"][""])
        yield _by("event", "events", "Decisions.", sums["events"], _tags(AnyEvent))
        yield _by("to", "state_changes", "Moves of groups.", moves, GroupState)
        yield _by("cause", "rebalances", "Join phases begun.", sums["rebalances"], RebalanceCause)
        yield _rebalance_durations(buckets, sums["rebalance_ms"])
        yield _by("reason", "members_removed", "Members gone.", removed, ())
        yield _total("session_expirations", "Members that fell silent.", removed["session_expired"])
        yield _by(
            "change",
            "offsets",
            "Offsets committed and gone.",
            sums["offsets"],
            ("committed", "deleted", "expired"),
        )


def _tags(union: Any) -> list[str]:
    """What the structs of a union are called in JSON."""
    return [str(each.__struct_config__.tag) for each in get_args(union)]


def _total(name: str, documentation: str, count: int) -> Metric:
    return CounterMetricFamily(f"group_coordinator_{name}", documentation, count)


def _by(label: str, name: str, documentation: str, counts: dict[str, int], known: Iterable[str]) -> Metric:
    family = CounterMetricFamily(f"group_coordinator_{name}", documentation, labels=[label])
    for value, count in (dict.fromkeys(map(str, known), 0) | counts).items():
        family.add_metric([value], count)
    return family


def _rebalance_durations(buckets: Mapping[str, Counter[int]], sums_ms: Mapping[str, int]) -> Metric:
    family = HistogramMetricFamily(
        "group_coordinator_rebalance_duration_seconds",
        "Time by the log from the first join phase until the group was Stable.",
        labels=["cause"],
    )
    for cause in map(str, RebalanceCause):
        counts = accumulate(buckets[cause][number] for number in range(len(_LE)))
        family.add_metric([cause], list(zip(_LE, counts, strict=True)), sums_ms[cause] / 1000)
    return family
