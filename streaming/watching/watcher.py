"""The watcher of topics in the coordinator's process, in a thread of its own.

While it cannot watch, groups go on with what they know, and a metric says since when.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from kafka.errors import KafkaError

from group_coordinator.client.messages import message_of
from group_coordinator.jobs.connection import UnreachableError
from group_coordinator.jobs.threads import Background
from group_coordinator.streaming.watching.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from group_coordinator.streaming.settings import CoordinatorSettings
    from group_coordinator.streaming.watching.report import Report

_AGAIN_S = 2.0


class TopicWatcher(Background):
    """Watches while the context is open, and only while `is_active`, that is, this is the active coordinator.

    `client_config`: for kafka-python.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        client_config: Mapping[str, Any],
        report: Report,
        is_active: Callable[[], bool],
    ) -> None:
        super().__init__("topic-watcher")
        self._settings, self._client_config = settings, client_config
        self._report = report
        self._is_active = is_active

    def __enter__(self) -> Self:
        return super().__enter__() if self._settings.topics_watch_interval_ms else self

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._watch()
            except (KafkaError, UnreachableError, OSError) as error:
                # The last is about files of TLS and logins.
                self._report.has_problem(message_of(error) if isinstance(error, KafkaError) else str(error))
                self._stopping.wait(_AGAIN_S)

    def _watch(self) -> None:
        with ExitStack() as clients:
            session = Session(
                self._settings,
                self._client_config,
                self._is_active,
                self._stopping,
                self._report,
                clients,
            )
            session.run()
