"""The query asks Kafka less often whether there is something to read, while nothing comes.

Spark asks every 10 ms (`spark.sql.streaming.pollingDelay`). When nobody says anything that takes a twentieth
of a core in the driver, and as much in a broker. No setting lets it ask less often then.
"""

from __future__ import annotations

import logging
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
        self._is_often = True
        self._field: Any = None
        try:
            # Read off Spark 4.2's StreamExecution, which takes the setting when the query starts.
            self._execution = query._jsq.streamingQuery()  # noqa: SLF001
            of = self._execution.getClass()
            while of.getSimpleName() != "StreamExecution":
                of = of.getSuperclass()
            field = of.getDeclaredField(_FIELD)
            field.setAccessible(True)
            self._often_ms = field.getLong(self._execution)
            self._field = field
        except (Py4JError, TypeError, AttributeError) as error:
            _log.warning("this Spark cannot be made to poll less often while nothing comes: %s", error)

    def set(self, *, often: bool) -> None:
        """Poll at the query's own pace from now on, or less often."""
        if self._field is not None and often is not self._is_often:
            self._is_often = often
            delay_ms = self._often_ms if often else max(self._often_ms, _SELDOM_MS)
            self._field.setLong(self._execution, delay_ms)
