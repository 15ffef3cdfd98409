"""The watcher's loop: it reads pictures of groups, asks brokers, and writes to groups."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafka.errors import KafkaError

from group_coordinator.client.messages import message_of
from group_coordinator.jobs.topic_answers import MalformedAnswerError
from group_coordinator.jobs.topic_questions import Asking
from group_coordinator.streaming.watching.patterns import PatternWatch
from group_coordinator.streaming.watching.pictures import Pictures
from group_coordinator.streaming.watching.watch import Watch
from group_coordinator.streaming.watching.writing import Writing

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping
    from contextlib import ExitStack

    from group_coordinator.streaming.settings import CoordinatorSettings
    from group_coordinator.streaming.watching.names import Part
    from group_coordinator.streaming.watching.report import Report

_LOOK_MS = 500
_LOOK_WHILE_BUSY_MS = 100
_ROUND_S = 10.0
"""In one round brokers that do not answer are asked about other topics for so long."""


class Session:
    """Watches with clients that `stack` closes. One is made at once, and the others when they are needed.

    Args:
        settings: of the coordinator.
        client_config: for kafka-python.
        is_active: whether it is this coordinator's turn.
        stopping: set when all is to end.
        report: is told how it goes.
        stack: closes clients.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        client_config: Mapping[str, Any],
        is_active: Callable[[], bool],
        stopping: threading.Event,
        report: Report,
        stack: ExitStack,
    ) -> None:
        self._settings, self._client_config, self._stack = settings, client_config, stack
        self._is_active, self._stopping, self._report = is_active, stopping, report
        self._pictures = stack.enter_context(closing(Pictures(settings.topics_groups, client_config)))
        most_bytes = settings.group.max_body_bytes
        interval_s = settings.topics_watch_interval_ms / 1_000
        self._watch = Watch(interval_s, most_bytes)
        self._patterns = PatternWatch(interval_s, most_bytes, settings.all_topics)
        self._asking: Asking | None = None
        self._writing: Writing | None = None

    def run(self) -> None:
        """Watch until it is stopped. Raises a KafkaError or an `UnreachableError`."""
        watches = False
        while not self._stopping.is_set():
            timeout_ms = _LOOK_WHILE_BUSY_MS if watches and self._watch.has_more else _LOOK_MS
            is_known = self._pictures.read(
                self._watch, self._patterns, min(timeout_ms, self._settings.topics_watch_interval_ms)
            )
            if not self._is_active():
                watches = False
                self._report.ended()
                continue
            if not is_known:
                continue
            if not watches:
                watches = True
                self._watch.begin(time.monotonic())
                self._patterns.begin(time.monotonic())
                self._report.begun(self._watch)
            self._look()

    def _look(self) -> None:
        if self._writing is not None:
            self._report.wrote(self._writing.written())
        due = self._watch.due(time.monotonic())
        if due.begins_round:
            problem = self._ask(due.parts)
            unwritten = None if self._writing is None else self._writing.problem
            self._report.looked(self._watch, problem or unwritten)
        if self._patterns.wants_list(time.monotonic()):
            self._list()
        records = [*due.records, *self._patterns.records(time.monotonic())]
        if records:
            if self._writing is None:
                self._writing = self._stack.enter_context(
                    closing(
                        Writing(
                            self._settings.topics_requests,
                            self._client_config,
                            self._settings.group.max_request_record_bytes,
                        )
                    )
                )
            self._writing.write(records)

    @property
    def _asker(self) -> Asking:
        if self._asking is None:
            self._asking = self._stack.enter_context(closing(Asking(self._client_config)))
        return self._asking

    def _list(self) -> None:
        """Ask for all topics, and match patterns with them."""
        try:
            self._patterns.listed(self._asker.ask(None))
        except (KafkaError, MalformedAnswerError) as error:
            self._report.cannot_list(message_of(error) if isinstance(error, KafkaError) else str(error))
        else:
            self._report.cannot_list(None)
        self._report.has_untold(self._patterns.untold)

    def _ask(self, parts: Iterable[Part]) -> str | None:
        """Ask about all parts. Returns the first problem, if there is one."""
        problem = None
        end_s = time.monotonic() + _ROUND_S
        for part in parts:
            if self._stopping.is_set() or (problem is not None and time.monotonic() > end_s):
                self._watch.missed(part)
                continue
            try:
                self._watch.told(part, self._asker.ask(part.names))
            except (KafkaError, MalformedAnswerError) as error:
                self._watch.missed(part)
                problem = problem or (message_of(error) if isinstance(error, KafkaError) else str(error))
        if self._asking is not None:
            self._asking.next_round()
        return problem
