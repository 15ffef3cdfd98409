"""The query asks Kafka less often whether there is something to read, while nothing comes.

Spark asks every 10 ms (`spark.sql.streaming.pollingDelay`). When nobody says anything that takes a twentieth
of a core in the driver, and as much in a broker. No setting lets it ask less often then.
"""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Polling"]

_log = logging.getLogger(__name__)

_SELDOM_MS = 50
_FIELD = "pollingDelayMs"


class Polling:
    """Makes a query poll at its own pace, or less often.

    With a Spark in which that cannot be changed it stays as it is, and a warning is logged.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._is_often = True

    def set(self, *, often: bool) -> None:
        """Poll at the query's own pace from now on, or less often."""
        if often is not self._is_often:
            self._is_often = often
            if self._delay is not None:
                field, execution, often_ms = self._delay
                field.setLong(execution, often_ms if often else max(often_ms, _SELDOM_MS))

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
