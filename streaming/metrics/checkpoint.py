"""Metrics of the checkpoint's room on a disk."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from group_coordinator.checkpoints.disk import room_of
from group_coordinator.jobs.threads import Background

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from group_coordinator.checkpoints.disk import Room

_log = logging.getLogger(__name__)

_LOOK_S = 60.0
_PREFIX = "group_coordinator_checkpoint_"


class CheckpointMetrics(Background, Collector):
    """Measures the checkpoint every `look_s` seconds, in a thread, since a disk may take long to answer.

    There are no samples of one that is not on a disk of this machine, and before it is there.
    """

    def __init__(self, checkpoint: str, look_s: float = _LOOK_S) -> None:
        # Nobody waits for the thread: a disk that is away would keep the process.
        super().__init__("checkpoint-watch", end_s=0)
        self._checkpoint, self._look_s = checkpoint, look_s
        self._room: Room | None = None

    def collect(self) -> Iterator[Metric]:
        """Make the metrics from the newest look."""
        room = self._room
        if room is None:
            return
        for name, documentation, value in (
            ("bytes", "Bytes of the disk that the checkpoint takes, as du counts them.", room.taken),
            ("files", "Files of the checkpoint.", room.files),
            ("free_bytes", "Bytes that are free on the disk of the checkpoint.", room.free),
        ):
            yield GaugeMetricFamily(_PREFIX + name, documentation, value)

    def _run(self) -> None:
        while True:
            try:
                self._room = room_of(self._checkpoint)
            except OSError as error:
                # The figures of before stand.
                _log.debug("the checkpoint's room cannot be measured, trying again: %s", error)
            if self._stopping.wait(self._look_s):
                return
