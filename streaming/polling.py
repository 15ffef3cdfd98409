"""The query asks Kafka less often whether there is something to read, while nothing comes.

Spark asks every 10 ms (`spark.sql.streaming.pollingDelay`). When nobody says anything that takes a twentieth
of a core in the driver, and as much in a broker. No setting lets it ask less often then.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_FIELD = "pollingDelayMs"


class Pause(IntEnum):
    """The least time in ms between two polls."""

    NONE = 0
    """As Spark polls."""
    SHORT = 50
    """When nothing has come lately that other requests may follow."""
    LONG = 100
    """When nothing has come for a while: members of a group would have sent heartbeats."""
    LONGEST = 250
    """When nothing has come for a minute: nobody may use it."""


class Polling:
    """Makes a query poll at its own pace, or less often.

    With a Spark in which that cannot be changed it stays as it is, and a warning is logged.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._pause = Pause.NONE

    def set(self, pause: Pause) -> None:
        """Let as much time pass between two polls from now on, or more if the query's own pace is slower."""
        if pause is not self._pause:
            self._pause = pause
            if self._delay is not None:
                field, execution, own_ms = self._delay
                field.setLong(execution, max(own_ms, pause.value))

    @cached_property
    def _delay(self) -> tuple[Any, Any, int] | None:
        """The field, the object that has it, and its value at first. Queries that catch up never need it."""
        try:
            # Read off Spark 4.2's StreamExecution, which takes the setting when the query starts.
            execution = self._query._jsq.streamingQuery()  # noqa: SLF001
            of = execution.getClass()
            while of.getSimpleName() != "StreamExecution":
                of = of.getSuperclass()
            field = of.getDeclaredField(_FIELD)
            field.setAccessible(True)
            return field, execution, field.getLong(execution)
        except (Py4JError, TypeError, AttributeError) as error:
            _log.warning("this Spark cannot be made to poll less often while nothing comes: %s", error)
            return None
