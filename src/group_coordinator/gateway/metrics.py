"""The metrics of a gateway for Prometheus.

No name of a group, topic or client is a label: there may be any number of them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from prometheus_client import Counter, Gauge, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway.apis import ALONE, Offer, Way
from group_coordinator.gateway.counters import Count, Durations
from group_coordinator.gateway.group_apis.table import GROUP_APIS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry, Metric

    from group_coordinator.gateway.limits import Pending
    from group_coordinator.gateway.local import Local

_PREFIX = "group_coordinator_gateway_"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class GatewayMetrics:
    """The metrics of one gateway, in `registry`."""

    def __init__(self, registry: CollectorRegistry, offer: Offer = ALONE) -> None:
        self.apis = offer.apis

        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(_PREFIX + name, documentation, labels, registry=registry)

        def gauge(name: str, documentation: str) -> Gauge:
            return Gauge(_PREFIX + name, documentation, registry=registry)

        self.connections = gauge("connections", "Clients that are connected.")
        self.connections_closed = counter("connections_closed", "Connections that have ended.", "reason")
        for reason in ("too many", "unfinished requests", "unread responses"):
            # Prometheus sees an increase only of what was there before, and an alert looks at these.
            self.connections_closed.labels(reason)
        self.requests = {key: Count() for key, api in offer.apis.items() if api.way is not Way.HIDDEN}
        """By API key."""
        self.received, self.sent = Count(), Count()
        """Bytes from clients and to them."""
        self.responses: defaultdict[tuple[int, int], Count] = defaultdict(Count)
        """By API key and error code, of which a message of Kafka's has few."""
        self.seconds = {key: Durations(_SECONDS) for key in GROUP_APIS}
        """From a request of a group to its response, by API key."""
        self.brokers_left_out = gauge("brokers_left_out", "Brokers that clients are not told of.")
        self.moving_seconds = gauge("moving_seconds", "How long the group has moved that has moved longest.")
        self.guards = counter("guards", "Guards at the brokers that were renewed, or not.", "result")
        for result in ("taken", "members", "failed"):
            self.guards.labels(result)
        self.frame_errors = counter("frame_errors", "Connections closed for what they have sent.")
        rights = counter("rights_probes", "Rights of clients that brokers were asked for.", "result")
        granted, denied = rights.labels("granted"), rights.labels("denied")
        self.right_answered = lambda is_granted: (granted if is_granted else denied).inc()
        self.upstream_errors = counter("upstream_errors", "Connections to brokers that were lost or refused.")
        self._elsewhere: Callable[[], Iterator[Metric]] = lambda: iter(())
        """The metrics of what is counted elsewhere."""
        registry.register(self)
        ProcessCollector(registry=registry)

    def answered(self, api_key: int, response: Any, seconds: float) -> None:
        """A request of a group has been answered, with Kafka's `response`."""
        self.answered_with(api_key, _first_error(response, GROUP_APIS[api_key].results), seconds)

    def answered_with(self, api_key: int, error_code: int, seconds: float) -> None:
        """A request of a group has been answered with this error code."""
        self.responses[api_key, error_code].inc()
        self.seconds[api_key].observe(seconds)

    def watch(self, local: Local, pending: Pending, clock: Callable[[], float]) -> None:
        """Tell of what these know, whenever somebody asks. `clock`: that of `local`, in seconds."""
        self._elsewhere = lambda: _counted_by(local, pending, clock())

    def collect(self) -> Iterator[Metric]:
        """Tell Prometheus of what passes, of what is answered, and of what is counted elsewhere."""
        requests = CounterMetricFamily(_PREFIX + "requests", "Requests of clients.", labels=["api", "way"])
        for key, count in self.requests.items():
            api = self.apis[key]
            requests.add_metric([api.name, api.way.name.lower()], count.total)
        yield requests
        passed = CounterMetricFamily(
            _PREFIX + "bytes", "Bytes from clients and to them.", labels=["direction"]
        )
        passed.add_metric(["from_clients"], self.received.total)
        passed.add_metric(["to_clients"], self.sent.total)
        yield passed
        responses = CounterMetricFamily(
            _PREFIX + "responses", "Responses of the gateway's own.", labels=["api", "error"]
        )
        # In one step: the event loop may count a new error meanwhile.
        for (key, code), count in list(self.responses.items()):
            responses.add_metric([self.apis[key].name, _name(code)], count.total)
        yield responses
        seconds = HistogramMetricFamily(
            _PREFIX + "request_seconds", "From a request of a group to its response.", labels=["api"]
        )
        for key, durations in self.seconds.items():
            seconds.add_metric([self.apis[key].name], durations.buckets, durations.total_s)
        yield seconds
        yield from self._elsewhere()


def _counted_by(local: Local, pending: Pending, now_s: float) -> Iterator[Metric]:
    waiting = GaugeMetricFamily(_PREFIX + "waiting", "Requests that wait for their answers.", labels=["api"])
    for key in GROUP_APIS:
        waiting.add_metric([GROUP_APIS[key].name], pending.by_api[key])
    yield waiting
    yield GaugeMetricFamily(
        _PREFIX + "connections_not_read",
        "Connections that may not ask, because too many of their requests wait.",
        len(pending.stopped),
    )
    silent_s = local.silent_s(now_s)
    yield GaugeMetricFamily(
        _PREFIX + "stream_silent_seconds", "How long somebody has waited in vain.", silent_s
    )
    for name, documentation, value in (
        ("beats", "Heartbeats of members.", local.beats.taken),
        ("beat_records", "Records that they have become.", local.beats.records),
        ("beats_answered_early", "Heartbeats answered before their verdict.", local.beats.answered_early),
        ("late_answers", "Answers that nobody waited for.", local.late_answers),
    ):
        yield CounterMetricFamily(_PREFIX + name, documentation, value)


def _name(code: int) -> str:
    try:
        return Errors(code).name
    except ValueError:
        return str(code)


def _first_error(part: Any, lists: tuple[str, ...]) -> int:
    """The first error in a response; 0 if there is none."""
    code: int = getattr(part, "error_code", 0) or 0
    if code or not lists:
        return code
    name, *rest = lists
    # OffsetFetch had no groups, and FindCoordinator no list, before some version.
    each_part = getattr(part, name, None)
    if each_part is None:
        return _first_error(part, tuple(rest))
    return next((found for each in each_part if (found := _first_error(each, tuple(rest)))), 0)
