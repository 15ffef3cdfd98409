"""The health of a job: whether only a restart would help, and whether it does its work.

Only what a restart mends makes it ill. To wait for Kafka, for a turn or for a long first batch is no illness:
a job that is killed over it waits from the beginning.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from group_coordinator.jobs.batches import BatchWatch

_STANDSTILL_S = 120
"""Longer than any call of Kafka, Spark or the checkpoint's storage takes that comes to an end."""
_START_S = 1_800
"""Longer than Spark takes to start, also if it fetches its jars by a slow line."""


class Activity(Enum):
    """The activities of a job; the values are for people."""

    STARTING = "starting"
    STANDING_BY = "standing by: another coordinator runs"
    WARM = "standing by, and warm: another coordinator runs"
    CATCHING_UP = "catching up with the log"
    COORDINATING = "coordinating"
    WRITING_HISTORY = "writing the history"
    OBSERVING = "watching groups at the brokers"
    RESTARTING = "restarting the query"
    WAITING_FOR_KAFKA = "waiting for Kafka"
    STOPPING = "stopping"


_AT_WORK = (Activity.COORDINATING, Activity.WRITING_HISTORY, Activity.OBSERVING)
_AS_GOOD = (Activity.STANDING_BY, Activity.WARM)
"""One that is not warm takes over as well, and answers some seconds later."""
_HAS_BATCHES = (*_AT_WORK, Activity.CATCHING_UP)


class Verdict(NamedTuple):
    """The answer to a probe, and the reason in one line."""

    good: bool
    why: str


def moving(silent_s: float, why: str) -> Verdict:
    """Whether a loop moves that came round last so many seconds ago; `why` it is well if it does."""
    if silent_s > _STANDSTILL_S:
        return Verdict(False, f"has stood still for {silent_s:.0f} s")
    return Verdict(True, why)


class Health:
    """The health of a job, from the activities that it tells and from its batches.

    `stall_ms`: a batch that takes longer is no work any more.
    """

    def __init__(self, batches: BatchWatch, stall_ms: float) -> None:
        self._batches = batches
        self._stall_ms = stall_ms
        self._patience_ms = stall_ms
        self._activity = Activity.STARTING
        self._may_be_silent_s = _START_S
        self._said_at = time.monotonic()

    def does(self, activity: Activity, patience_ms: float | None = None) -> None:
        """The job is alive, and does this. `patience_ms`: how long it waits for the end of a batch."""
        self._activity = activity
        self._patience_ms = self._stall_ms if patience_ms is None else patience_ms
        self._may_be_silent_s = _STANDSTILL_S
        self._said_at = time.monotonic()

    def is_live(self) -> Verdict:
        """Whether all that should move moves: if not, only a restart helps."""
        silent_s = time.monotonic() - self._said_at
        if silent_s > self._may_be_silent_s:
            return Verdict(False, f"has stood still for {silent_s:.0f} s: {self._activity.value}")
        if self._activity in _HAS_BATCHES:
            # The coordinator itself restarts the query when its patience is over.
            is_young = self._batches.silent_ms <= self._patience_ms + _STANDSTILL_S * 1000
            return Verdict(is_young, self._newest_batch())
        return Verdict(True, self._activity.value)

    def is_ready(self) -> Verdict:
        """Whether its work is done, such as answering requests, or will be as soon as it is its turn."""
        live = self.is_live()
        if not live.good:
            return live
        if self._activity in _AT_WORK:
            is_young = self._batches.silent_ms <= self._stall_ms
            return Verdict(self._batches.groups is not None and is_young, live.why)
        return Verdict(self._activity in _AS_GOOD, live.why)

    def _newest_batch(self) -> str:
        seconds = self._batches.silent_ms / 1000
        if self._batches.groups is None:
            return f"{self._activity.value}: the first batch has been running for {seconds:.1f} s"
        return f"{self._activity.value}: a batch has ended {seconds:.1f} s ago"
