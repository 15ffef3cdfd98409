"""Probes: small records that show which request partitions take requests.

A partition may take none for a while, although the clock's partition takes ticks. Members cannot send it
heartbeats then. So the coordinator writes a probe to each partition at a steady pace, as a member would. The
query leaves them out. Time waits for probes as it waits for the reader (`clock.py`). A partition that does
not take one for long stands still (`group_coordinator.coordinator_state.standstills`).

Each partition has a producer of its own. A broker answers the requests of one connection in their order, and
a request for several partitions when all of them are written. So one that takes nothing would hold up others.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaProducer
from kafka.errors import AuthorizationError, KafkaError

from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.streaming.producers import close_producer

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from group_coordinator.jobs.settings import Settings

__all__ = ["Probes", "WriteTimes"]

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_SETTLING_S = 60
"""The least time between two restarts because of partitions that have begun to stand still."""
_RECONNECT_MS = 1_000


class WriteTimes:
    """The times at which partitions took probes. Times are in ms, of one monotonic clock.

    Args:
        partitions: their numbers.
        interval_ms: between two probes of a partition.
        patience_ms: a partition that has not taken a probe for longer stands still.
        now_ms: the time. Until then each of them took requests, as far as anybody knows.
    """

    def __init__(
        self, partitions: Collection[int], interval_ms: float, patience_ms: float, now_ms: float
    ) -> None:
        self._interval_ms, self._patience_ms = interval_ms, patience_ms
        self._written_ms = dict.fromkeys(partitions, now_ms)
        """When the newest probe that was taken was sent."""
        self._sent_ms: dict[int, float] = {}
        """When the probe that is on its way was sent."""
        self._asked_ms: dict[int, float] = {}
        """When the first probe since then was sent."""
        self._standing: dict[int, float] = {}
        """The partitions that stand still, as is noted, and since when."""
        self._patient_from_ms = now_ms

    def __len__(self) -> int:
        """The number of partitions that are asked."""
        return len(self._written_ms)

    def due(self, now_ms: float) -> list[int]:
        """The partitions to which a probe is to be sent."""
        return [
            it
            for it, written_ms in self._written_ms.items()
            if it not in self._sent_ms and (it in self._asked_ms or now_ms - written_ms >= self._interval_ms)
        ]

    def sent(self, partition: int, now_ms: float) -> None:
        """Take in that a probe was sent."""
        self._sent_ms[partition] = now_ms
        self._asked_ms.setdefault(partition, now_ms)

    def taken(self, partition: int) -> None:
        """Take in that the probe that was on its way is in the log, for all to read."""
        self._written_ms[partition] = self._sent_ms.pop(partition)
        del self._asked_ms[partition]

    def lost(self, partition: int) -> None:
        """Take in that the probe that was on its way was not taken."""
        del self._sent_ms[partition]

    def forget(self, partition: int) -> None:
        """Ask this partition no more, because nobody may."""
        del self._written_ms[partition]
        self._sent_ms.pop(partition, None)
        self._asked_ms.pop(partition, None)

    def begin(self, standing: Collection[int], now_ms: float) -> None:
        """Take in that a query begins, for which these partitions stand still.

        Patience begins again, because all of Kafka may have been away.
        """
        self._standing = {it: self._standing.get(it, now_ms) for it in standing}
        self._patient_from_ms = now_ms

    def unwritten_ms(self, now_ms: float) -> float:
        """The time since every partition has surely taken requests, without those that stand still."""
        return max(
            (now_ms - at for it, at in self._written_ms.items() if it not in self._standing), default=0
        )

    def stuck(self, now_ms: float) -> set[int]:
        """The partitions that have not taken a probe for too long, and of which it is not noted yet."""
        return {
            it
            for it, asked_ms in self._asked_ms.items()
            if it not in self._standing and now_ms - max(asked_ms, self._patient_from_ms) > self._patience_ms
        }

    def unanswered(self) -> set[int]:
        """The partitions that have not taken the newest probe, or not yet."""
        return set(self._asked_ms)

    def healed(self) -> set[int]:
        """The partitions that stand still, as is noted, and have taken a probe since."""
        return {
            it for it, since_ms in self._standing.items() if self._written_ms.get(it, since_ms + 1) > since_ms
        }


class Probes:
    """Writes probes to the partitions of a topic, from a thread of its own, while the context is open.

    Args:
        topic: the request topic.
        partitions: how many it has.
        client_config: for kafka-python.
        interval_ms: between two probes of a partition; 0: none are written.
        patience_ms: see `WriteTimes`. A clock that cannot tick, because Kafka as a whole is away, has to stop
            sooner.
    """

    def __init__(
        self,
        topic: str,
        partitions: int,
        client_config: Mapping[str, Any],
        interval_ms: int,
        patience_ms: int,
    ) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._times = WriteTimes(
            range(partitions) if interval_ms else (), interval_ms, patience_ms, _now_ms()
        )
        self._config = {
            **client_config,
            "acks": "all",
            "linger_ms": 0,
            # Twice is as good as once.
            "enable_idempotence": False,
            "reconnect_backoff_max_ms": _RECONNECT_MS,
            "max_block_ms": patience_ms,
            "request_timeout_ms": patience_ms,
            "delivery_timeout_ms": patience_ms,
        }
        self._producers: dict[int, KafkaProducer] = {}
        self._futures: dict[int, Any] = {}
        self._restarted_s = -float(_SETTLING_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    @classmethod
    def of(cls, settings: Settings, partitions: int, client_config: Mapping[str, Any]) -> Self:
        """The probes of the coordinator with these settings."""
        return cls(
            settings.topics_requests,
            partitions,
            client_config,
            settings.probe_interval_ms,
            # A tick is sent an interval later at most, and waited for as long as a gap.
            settings.clock_max_gap_ms + 2 * settings.clock_interval_ms,
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for producer in self._producers.values():
            close_producer(producer)

    def begin(self, standing: Collection[int]) -> None:
        """Take in that a query begins, for which these partitions stand still."""
        with self._lock:
            self._times.begin(standing, _now_ms())

    def unwritten_ms(self) -> float:
        """The time in ms since every partition has surely taken requests, without those that stand still."""
        with self._lock:
            return self._times.unwritten_ms(_now_ms())

    def stuck(self) -> set[int]:
        """The partitions that have begun to stand still; none shortly after others have."""
        with self._lock:
            stuck = self._times.stuck(_now_ms())
        return stuck if time.monotonic() - self._restarted_s >= _SETTLING_S else set()

    def unanswered(self) -> set[int]:
        """The partitions that have not taken the newest probe, or not yet."""
        with self._lock:
            return self._times.unanswered()

    def restarted(self) -> None:
        """Take in that the query restarts because of `stuck`."""
        self._restarted_s = time.monotonic()

    def healed(self) -> set[int]:
        """The partitions that stand still, as is noted, and take requests again."""
        with self._lock:
            return self._times.healed()

    def _run(self) -> None:
        # Nothing is to be looked at where no partition is asked, which is the default.
        while len(self._times) and not self._stopping.wait(_LOOK_S):
            self._take_in()
            with self._lock:
                due = self._times.due(_now_ms())
            for partition in due:
                self._send(partition)

    def _take_in(self) -> None:
        for partition, future in list(self._futures.items()):
            if not future.is_done:
                continue
            del self._futures[partition]
            with self._lock:
                if future.succeeded():
                    self._times.taken(partition)
                elif isinstance(future.exception, AuthorizationError):
                    self._may_not(partition, future.exception)
                else:
                    self._times.lost(partition)

    def _send(self, partition: int) -> None:
        # Before the producer looks for Kafka.
        with self._lock:
            self._times.sent(partition, _now_ms())
        try:
            producer = self._producers.get(partition)
            if producer is None:
                producer = self._producers[partition] = KafkaProducer(**self._config)
            self._futures[partition] = producer.send(self._topic, PROBE, partition=partition)
        except KafkaError as error:
            with self._lock:
                if isinstance(error, AuthorizationError):
                    self._may_not(partition, error)
                else:
                    self._times.lost(partition)

    def _may_not(self, partition: int, error: BaseException) -> None:
        _log.warning("not watching whether request partition %s takes requests: %s", partition, error)
        self._times.forget(partition)


def _now_ms() -> float:
    return time.monotonic() * 1000
