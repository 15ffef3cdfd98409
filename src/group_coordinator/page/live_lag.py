"""The lag as it is measured, read from its topic in a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from group_coordinator.client.channel import WITHOUT_GROUP
from group_coordinator.client.lag_log import assign_since
from group_coordinator.client.messages import message_of
from group_coordinator.client.since import has_read_to
from group_coordinator.history.rows import ms_of
from group_coordinator.jobs.threads import Background
from group_coordinator.page.measurements import Measurements

log = logging.getLogger(__name__)

_POLL_MS = 500
_AGAIN_S = 2.0
_BOOTSTRAP_MS = 3_000
_END_S = 1.0
_BACK = timedelta(hours=6)
_MOST_RECORDS = 20_000
"""Measurements of groups, all together, that are read of the time before the page was started."""


class LiveLag(Background):
    """Reads while the context is open. It begins some hours back in the topic, if that is not too much.

    A topic that is not there, and brokers that are away, are waited for. Nothing is known then.
    """

    def __init__(self, topic: str, client_config: Mapping[str, Any]) -> None:
        super().__init__("ui-lag-topic", end_s=_END_S)
        self._topic = topic
        self._config = {"bootstrap_timeout_ms": _BOOTSTRAP_MS, **client_config, **WITHOUT_GROUP}
        self.measurements = Measurements()

    def __enter__(self) -> Self:
        return super().__enter__() if self._topic else self

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._read()
            except KafkaError as error:
                log.debug("topic %s cannot be read: %s", self._topic, message_of(error))
            self._stopping.wait(_AGAIN_S)

    def _read(self) -> None:
        with closing(KafkaConsumer(**self._config)) as consumer:
            since_ms = ms_of(datetime.now(UTC) - _BACK)
            ends = assign_since(consumer, self._topic, since_ms, _MOST_RECORDS)
            while ends is None and not self._stopping.wait(_AGAIN_S):
                ends = assign_since(consumer, self._topic, since_ms, _MOST_RECORDS)
            # Others go on with what was known before until as much is known again.
            measurements = Measurements()
            while ends is not None and not self._stopping.is_set():
                for records in consumer.poll(timeout_ms=_POLL_MS).values():
                    for record in records:
                        measurements.take(record)
                if self.measurements is not measurements and has_read_to(consumer, ends):
                    self.measurements = measurements
