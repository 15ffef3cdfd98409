"""The page as a part of a process: `ui` is nothing else, and `run` may have it beside its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from group_coordinator.client.admin import AdminClient
from group_coordinator.deploy.extras import missing
from group_coordinator.jobs.hosts import host_of, written
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.jobs.settings import SettingsError
from group_coordinator.page.answers import Side
from group_coordinator.page.app import App
from group_coordinator.page.at_brokers import GroupsAtBrokers
from group_coordinator.page.lags import Lags
from group_coordinator.page.live import Live
from group_coordinator.page.live_lag import LiveLag
from group_coordinator.page.questions import Questions, Sources
from group_coordinator.page.server import hosts_of, listen
from group_coordinator.page.sides import Sides

if TYPE_CHECKING:
    from group_coordinator.history.reader import HistoryReader
    from group_coordinator.page.settings import PageSettings

_BOOTSTRAP_MS = 3_000
_TIMEOUT_MS = 10_000
"""Longest wait for the coordinator's next answer: then the page says that there is none."""


@contextmanager
def serving(settings: PageSettings, say: Callable[[str], None]) -> Iterator[Sequence[Live]]:
    """Serve the page while the context is open, and tell `say` where.

    The context is what reads the topics of each side, or nothing if `ui.port` is -1: then there is no page.
    Neither Kafka nor the topics need to be there yet. Raises `SettingsError`.
    """
    if settings.ui_port < 0:
        yield []
        return
    with ExitStack() as stack:
        sources, lives = zip(*(_sources(stack, each) for each in settings.sides), strict=True)
        app = App(Sides(*map(Questions, sources)), hosts_of(settings.ui_host))
        port = stack.enter_context(listen(settings.ui_host, settings.ui_port, app))
        for live in lives:
            stack.enter_context(live)
        stack.enter_context(app.streaming())
        host = host_of(settings.ui_host) or "localhost"
        say(f"the page is at http://{written(host)}:{port}/")
        yield lives


def _sources(stack: ExitStack, settings: PageSettings) -> tuple[Sources, Live]:
    """The sources of one side, with what is to read its topics. Lag is read while `stack` is open."""
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    is_of_brokers = settings.of == "brokers"
    past = _past(settings)
    live = Live(
        settings.topics_groups,
        settings.topics_events,
        None if is_of_brokers else settings.topics_clock,
        client_config,
        max_gap=timedelta(milliseconds=settings.clock_max_gap_ms),
        writer=settings.writer,
    )

    def connect() -> AdminClient | GroupsAtBrokers:
        if is_of_brokers:
            return GroupsAtBrokers(
                lambda: live.memory,
                request_timeout_ms=_TIMEOUT_MS,
                bootstrap_timeout_ms=_BOOTSTRAP_MS,
                **client_config,
            )
        return AdminClient(
            request_timeout_ms=_TIMEOUT_MS,
            request_topic=settings.topics_requests,
            response_topic=settings.response_topics,
            groups_topic=settings.topics_groups,
            bootstrap_timeout_ms=_BOOTSTRAP_MS,
            **client_config,
        )

    live_lag = stack.enter_context(LiveLag(settings.topics_lag, client_config))
    side: Side = "brokers" if is_of_brokers else "coordinator"
    servers = settings.bootstrap_servers
    return Sources(live, Lags(connect), past, lambda: live_lag.measurements, servers, side), live


def _past(settings: PageSettings) -> Callable[[], HistoryReader] | None:
    """What opens the tables of the history, as they are then."""
    path, name = settings.history_path, settings.named("history.path")
    if not path:
        return None
    if advice := missing("history", "deltalake", "pyarrow"):
        raise SettingsError(f"{name} cannot be read: {advice}; or unset {name}")
    from group_coordinator.history.reader import HistoryReader

    return lambda: HistoryReader(path)
