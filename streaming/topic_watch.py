"""A watch over the topics that are read: they must stay the ones that the checkpoint is about.

Spark reads topics by their names. If a topic is deleted and created again, Spark goes on somewhere in the new
one, and skips requests without a word. So a coordinator stops then, as it refuses to start with such topics.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka.errors import KafkaError

from group_coordinator.checkpoints.errors import CheckpointError
from group_coordinator.jobs.threads import Background

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

_LOOK_S = 10.0


class TopicWatch(Background):
    """Calls `check` every `look_s` seconds in a thread, because Kafka may take long to answer.

    `check` raises `CheckpointError` if a topic is another one. `failure` is that error then.
    """

    def __init__(self, check: Callable[[], None], look_s: float = _LOOK_S) -> None:
        super().__init__("topic-watch")
        self.failure: CheckpointError | None = None
        self._check, self._look_s = check, look_s

    def _run(self) -> None:
        while self.failure is None and not self._stopping.wait(self._look_s):
            try:
                self._check()
            except CheckpointError as error:
                self.failure = error
            except KafkaError as error:
                # The clock notices as well, and the coordinator says so.
                _log.debug("the topics' ids cannot be read: %s", error)
