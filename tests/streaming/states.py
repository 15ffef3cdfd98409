"""The state of a group, as Spark gives it to a stateful function."""

from __future__ import annotations

from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import Row, StructType

__all__ = ["group_state"]


def group_state(
    value: bytes | None,
    watermark_ms: int,
    *,
    timed_out: bool = False,
    planned_ms: int = 0,
    timeout: GroupStateTimeout = GroupStateTimeout.EventTimeTimeout,
) -> GroupState:
    """A GroupState as a Python worker makes it from what the JVM sends."""
    return GroupState(
        optionalValue=Row(value),
        batchProcessingTimeMs=planned_ms,
        eventTimeWatermarkMs=watermark_ms,
        timeoutConf=timeout,
        hasTimedOut=timed_out,
        watermarkPresent=timeout is GroupStateTimeout.EventTimeTimeout,
        defined=value is not None,
        updated=False,
        removed=False,
        timeoutTimestamp=GroupState.NO_TIMESTAMP,
        keyAsUnsafe=b"",
        valueSchema=StructType(),
    )
