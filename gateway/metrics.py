"""The metrics of a gateway for Prometheus, and its health for probes.

No name of a group, topic or client is a label: there may be any number of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from group_coordinator.gateway.apis import APIS
from group_coordinator.jobs.health import Verdict

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from group_coordinator.gateway.local import Local

__all__ = ["GatewayHealth", "GatewayMetrics"]

_PREFIX = "group_coordinator_gateway_"
_STANDSTILL_S = 120.0
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class GatewayMetrics:
    """The metrics of one gateway, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, documentation: str, *labels: str) -> Counter:
            return Counter(_PREFIX + name, documentation, labels, registry=registry)

        def gauge(name: str, documentation: str) -> Gauge:
            return Gauge(_PREFIX + name, documentation, registry=registry)

        self.connections = gauge("connections", "Clients that are connected.")
        self.connections_closed = counter("connections_closed", "Connections that have ended.", "reason")
        requests = counter("requests", "Requests of clients.", "api", "way")
        self.requests = {key: requests.labels(api.name, api.way.name.lower()) for key, api in APIS.items()}
        """By API key."""
        seconds = Histogram(
            _PREFIX + "request_seconds",
            "From a request of a group to its response.",
            ["api"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.request_seconds = {key: seconds.labels(api.name) for key, api in APIS.items()}
        """By API key."""
        self.frame_errors = counter("frame_errors", "Connections closed for what they have sent.")
        rights = counter("rights_probes", "Rights of clients that brokers were asked for.", "result")
        granted, denied = rights.labels("granted"), rights.labels("denied")
        self.right_answered = lambda is_granted: (granted if is_granted else denied).inc()
        self.upstream_errors = counter("upstream_errors", "Connections to brokers that were lost or refused.")
        self._registry_gauge = gauge

    def watch(self, local: Local) -> None:
        """Tell of what `local` knows, whenever somebody asks."""
        self._registry_gauge("waiting", "Requests that wait for the coordinator.").set_function(
            lambda: local.waiting
        )
        self._registry_gauge("stream_silent_seconds", "How long somebody has waited in vain.").set_function(
            lambda: local.silent_s(time.monotonic())
        )
        self._registry_gauge("late_answers", "Answers that nobody waited for.").set_function(
            lambda: local.late_answers
        )
        self._registry_gauge(
            "beats_answered_early", "Heartbeats answered before their verdict."
        ).set_function(lambda: local.beats_answered_early)


class GatewayHealth:
    """Whether the event loop moves, and whether clients can be served."""

    def __init__(self) -> None:
        self._moved_s = time.monotonic()
        self._state = "starting"
        self._local: Local | None = None

    def moves(self) -> None:
        """The event loop has come round."""
        self._moved_s = time.monotonic()

    def serves(self, local: Local) -> None:
        """Clients can connect."""
        self._state, self._local = "serving clients", local

    def stops(self) -> None:
        """No more clients are accepted."""
        self._state, self._local = "stopping", None

    def is_live(self) -> Verdict:
        """Whether all that should move moves: if not, only a restart helps."""
        silent_s = time.monotonic() - self._moved_s
        if silent_s > _STANDSTILL_S:
            return Verdict(False, f"has stood still for {silent_s:.0f} s")
        return Verdict(True, self._state)

    def is_ready(self) -> Verdict:
        """Whether clients can be served. While the coordinator is away they are: they wait."""
        if self._local is None:
            return Verdict(False, self._state)
        silent_s = self._local.silent_s(time.monotonic())
        if silent_s > 0:
            return Verdict(True, f"{self._state}; the coordinator has not answered for {silent_s:.0f} s")
        return Verdict(True, self._state)
