"""Ending the query between two batches.

`StreamingQuery.stop()` interrupts the batch that is running. Nothing is lost by that, because the batch runs
again at the next start. But that repeats its answers, and a planned stop should not. Spark has no public call
for it. Its stream thread looks at one flag between batches, and that is set here. But the thread also looks
at the flag after it has planned a batch, and then interrupts itself. So the flag is set while a batch's job
is running: then the next look is the one after the commit.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)


def stop_after_batch(spark: SparkSession, query: StreamingQuery, timeout_s: float) -> bool:
    """End `query` when a batch is committed: the next one, or the running one if that takes long.

    True if that worked within `timeout_s`; otherwise the batch is interrupted, as by `query.stop()`, or has
    failed. Then it runs again at the next start.
    """
    deadline = time.monotonic() + timeout_s
    try:
        # Read off Spark 4.2's StreamExecution; elsewhere this may not exist. Looked up before the wait,
        # because each look-up takes time and the job will not wait for it.
        session: Any = spark
        runtime = session._jvm.org.apache.spark.sql.execution.streaming.runtime  # noqa: SLF001
        terminated = getattr(getattr(runtime, "TERMINATED$"), "MODULE$")
        execution = query._jsq.streamingQuery()  # noqa: SLF001
        state, thread = execution.state(), execution.queryExecutionThread()
        _await_job(spark, query, deadline)
        state.set(terminated)
        # With the flag set, the query calls itself ended, although its thread may still run.
        thread.join(max(int((deadline - time.monotonic()) * 1000), 1))
        if not thread.isAlive():
            return query.exception() is None
    except (Py4JError, TypeError, AttributeError) as error:
        _log.warning("cannot wait for the running batch with this Spark, so it is interrupted: %s", error)
    else:
        _log.warning("the running batch took longer than %s s and is interrupted; it runs again", timeout_s)
    query.stop()
    return False


def _await_job(spark: SparkSession, query: StreamingQuery, deadline: float) -> None:
    """Wait until a batch's job has begun. Ticks bring one every clock interval; without Kafka none comes.

    A job that runs already may end before the flag is set, so the next one is better; but one that takes half
    of the time there is will have to do.
    """
    tracker = spark.sparkContext.statusTracker()
    pause = threading.Event()
    earlier = set(tracker.getActiveJobsIds())
    half_time = (time.monotonic() + deadline) / 2
    while query.isActive and (now := time.monotonic()) < deadline:
        running = set(tracker.getActiveJobsIds())
        if running - earlier or (running and now > half_time):
            return
        pause.wait(0.005)
