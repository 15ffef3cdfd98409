"""Probes: small records that show which request partitions take requests.

A partition may take none for a while, although the clock's partition takes ticks. Members cannot send it
heartbeats then. So the coordinator writes a probe to each partition beside each tick, as a member would. The
query leaves them out. Time waits for probes as it waits for the reader (`timekeeper.py`). A partition that
does not take one for long stands still (`group_coordinator.coordinator_state.standstills`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from kafka.errors import AuthorizationError, KafkaError

from group_coordinator.streaming.probe_sender import WRITE_MS, ProbeSender
from group_coordinator.streaming.write_times import WriteTimes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from group_coordinator.streaming.settings import CoordinatorSettings

_log = logging.getLogger(__name__)

_LOOK_S = 0.2


class Probes:
    """Writes probes to the partitions of a topic, from a thread of its own, while the context is open.

    Args:
        topic: the request topic.
        partitions: how many are asked.
        client_config: for kafka-python.
        patience_ms: see `WriteTimes`.
    """

    def __init__(
        self, topic: str, partitions: int, client_config: Mapping[str, Any], patience_ms: int
    ) -> None:
        self._lock = threading.Lock()
        self._times = WriteTimes(range(partitions), patience_ms, _now_ms())
        self._sender = ProbeSender(topic, client_config, patience_ms)
        self._slow: set[int] = set()
        """The partitions that have not taken the newest probe as soon as they should."""
        self._futures: dict[int, Any] = {}
        self._stopping = False
        self._failure: Exception | None = None
        self._woken = threading.Event()
        self._ticks = False
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    @classmethod
    def of(cls, settings: CoordinatorSettings, partitions: int, client_config: Mapping[str, Any]) -> Self:
        """The probes of the coordinator with these settings."""
        return cls(
            settings.topics_requests,
            partitions if settings.probes_enabled else 0,
            client_config,
            # A tick is sent an interval later at most, and waited for as long as a gap.
            settings.clock_max_gap_ms + 2 * settings.clock_interval_ms,
        )

    def __enter__(self) -> Self:
        self._woken.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._woken.set()
        self._thread.join()
        self._sender.close()

    def ticks(self) -> None:
        """Take in that the clock writes a tick."""
        self._ticks = True
        self._woken.set()

    def ticked(self) -> None:
        """Take in that the tick is in the log."""
        with self._lock:
            self._times.ticked(_now_ms())

    def begin(self, standing: Collection[int]) -> None:
        """Take in that a query begins, for which these partitions stand still."""
        with self._lock:
            self._times.begin(standing)

    def unwritten_ms(self) -> float:
        """The time in ms since every partition has surely taken requests, without those that stand still."""
        with self._lock:
            return self._times.unwritten_ms(_now_ms())

    def unknown(self) -> set[int]:
        """The partitions of which it is not known yet whether they take requests."""
        self._check()
        with self._lock:
            return self._times.unknown()

    def silent(self) -> dict[int, float]:
        """The partitions that take no requests, as is not noted.

        With each is how long ago, in ms, the first probe was sent that it has not taken.
        """
        self._check()
        with self._lock:
            now_ms = _now_ms()
            return {partition: now_ms - asked_ms for partition, asked_ms in self._times.silent().items()}

    def healed(self) -> set[int]:
        """The partitions that stand still, as is noted, and take requests again."""
        self._check()
        with self._lock:
            return self._times.healed()

    def _check(self) -> None:
        """Raise what has ended the thread, if anything has: time would wait for ever."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._write()
        except AuthorizationError as error:
            _log.warning("not watching whether request partitions take requests: %s", error)
            with self._lock:
                self._times.forget_all()
        except Exception as error:  # noqa: BLE001 - raised where the coordinator looks
            self._failure = error

    def _write(self) -> None:
        while len(self._times) and not self._stopping:
            self._woken.wait(_LOOK_S)
            self._woken.clear()
            ticks, self._ticks = self._ticks, False
            self._take_in()
            with self._lock:
                due = self._times.due(ticks=ticks)
            for partition in due:
                # Each may wait for Kafka.
                if not self._stopping:
                    self._send(partition)

    def _take_in(self) -> None:
        for partition, future in list(self._futures.items()):
            if not future.is_done:
                continue
            del self._futures[partition]
            if future.succeeded():
                now_ms = _now_ms()
                with self._lock:
                    took_ms = self._times.taken(partition, now_ms)
                    if took_ms < WRITE_MS:
                        self._slow.discard(partition)
            else:
                self._slow.add(partition)
                self._lost(partition, future.exception)

    def _send(self, partition: int) -> None:
        # Before the producer looks for Kafka.
        with self._lock:
            self._times.sent(partition, _now_ms())
        try:
            future = self._sender.send(partition, is_slow=partition in self._slow)
        except KafkaError as error:
            self._lost(partition, error)
        else:
            self._futures[partition] = future
            # Somebody may wait for it. One that is refused is sent again at the next look, and not at once.
            future.add_callback(lambda _: self._woken.set())

    def _lost(self, partition: int, error: BaseException) -> None:
        """Take in that a probe was not taken. Raises `error` if nobody may write one."""
        if isinstance(error, AuthorizationError):
            raise error
        with self._lock:
            self._times.lost(partition)


def _now_ms() -> float:
    return time.monotonic() * 1000
