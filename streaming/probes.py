"""Probes: small records that show which request partitions take requests.

A partition may take none for a while, although the clock's partition takes ticks. Members cannot send it
heartbeats then. So the coordinator writes a probe to each partition at a steady pace, as a member would. The
query leaves them out. Time waits for probes as it waits for the reader (`clock.py`). A partition that does
not take one for long stands still (`group_coordinator.coordinator_state.standstills`).

Those for the partitions of one broker go there in one request. The broker answers the requests of one
connection in their order, and a request for several partitions when it knows of all of them. So a partition
that takes nothing would hold up the others. The broker is to wait for half a second only. After that it says
which were written. A second producer asks a partition that was not from then on. Brokers may take as long for
its requests as is of use, because the partition may be slow and nothing worse.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Self

from kafka import KafkaProducer
from kafka.errors import AuthorizationError, KafkaError
from kafka.net.compat import KafkaNetClient

from group_coordinator.coordinator_state.log import PROBE
from group_coordinator.jobs.producers import close_producer
from group_coordinator.streaming.schedule import Pace

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from group_coordinator.jobs.settings import Settings

__all__ = ["Probes", "WriteTimes"]

_log = logging.getLogger(__name__)

_LOOK_S = 0.2
_RECONNECT_MS = 1_000
_LINGER_MS = 5
"""For the probes of one moment. They are sent one after the other."""
_WRITE_MS = 500
"""The time that a broker has to write a probe. Longer would hold up others until they are in doubt."""
_SETTLING_MS = 20_000
"""The least time between a restart because of partitions that are stuck and one that is not urgent."""


class WriteTimes:
    """The times at which partitions took probes. Times are in ms, of one monotonic clock.

    Time waits for a partition that has not taken a probe for `harmless_ms`. If it takes one after that, its
    members were without it for too long. So it stays in doubt, and time waits, until a query begins for which
    that time is an outage. While no requests come probes are as seldom as ticks are. Then a partition is in
    doubt only after the leeway that these have (`Tick.leeway_ms`).

    Args:
        partitions: their numbers. All of them are in doubt at first.
        interval_ms: between two probes of a partition.
        harmless_ms: how far time goes on without a probe.
        patience_ms: a partition that has not taken a probe for longer stands still.
        now_ms: the time.
    """

    def __init__(
        self,
        partitions: Collection[int],
        interval_ms: float,
        harmless_ms: float,
        patience_ms: float,
        now_ms: float,
    ) -> None:
        self._interval_ms, self._harmless_ms, self._patience_ms = interval_ms, harmless_ms, patience_ms
        self._leeway_ms = 0.0
        self._written_ms = dict.fromkeys(partitions, now_ms)
        """When the newest probe that was taken was sent."""
        self._harmless_until_ms = dict.fromkeys(partitions, now_ms + harmless_ms)
        """When the next one is to be taken."""
        self._doubted_ms = dict(self._written_ms)
        """Since when a partition is in doubt."""
        self._sent_ms: dict[int, float] = {}
        """When the probe that is on its way was sent."""
        self._asked_ms = dict(self._written_ms)
        """When the first probe since then was sent. Each is asked at once."""
        self._standing: dict[int, float] = {}
        """The partitions that stand still, as is noted, and since when."""
        self._harmed: set[int] = set()
        """Those in doubt that took requests only after longer than `patience_ms`."""
        self._patient_from_ms = now_ms
        self._restarted_ms = now_ms - _SETTLING_MS

    def __len__(self) -> int:
        """The number of partitions that are asked."""
        return len(self._written_ms)

    def due(self, now_ms: float, *, ticks: bool = False) -> list[int]:
        """The partitions to which a probe is to be sent.

        `ticks`: the clock writes now. A probe beside a tick makes no batch more, so it may come much earlier.
        """
        interval_ms = self._interval_ms + self._leeway_ms
        if ticks:
            # With leeway the next tick may be too late.
            interval_ms = 0 if self._leeway_ms else self._interval_ms / 4
        return [
            it
            for it, written_ms in self._written_ms.items()
            if it not in self._sent_ms and (it in self._asked_ms or now_ms - written_ms >= interval_ms)
        ]

    def ticks(self, leeway_ms: float) -> None:
        """Take in that the clock writes a tick, which gives the next one so much leeway."""
        self._leeway_ms = leeway_ms

    def sent(self, partition: int, now_ms: float) -> None:
        """Take in that a probe was sent."""
        self._sent_ms[partition] = now_ms
        self._asked_ms.setdefault(partition, now_ms)

    def taken(self, partition: int, now_ms: float) -> float:
        """Take in that the probe that was on its way is in the log, for all to read.

        Returns the time that it took.
        """
        if now_ms > self._harmless_until_ms[partition]:
            self._doubted_ms.setdefault(partition, self._written_ms[partition])
        if self._is_silent(partition, now_ms):
            self._harmed.add(partition)
        sent_ms = self._written_ms[partition] = self._sent_ms.pop(partition)
        self._harmless_until_ms[partition] = sent_ms + self._harmless_ms + self._leeway_ms
        del self._asked_ms[partition]
        return now_ms - sent_ms

    def lost(self, partition: int) -> None:
        """Take in that the probe that was on its way was not taken."""
        del self._sent_ms[partition]

    def forget_all(self) -> None:
        """Ask no partition any more, because nobody may."""
        for times in (self._written_ms, self._doubted_ms, self._sent_ms, self._asked_ms):
            times.clear()

    def settle(self, standing: Collection[int], now_ms: float) -> dict[int, float] | None:
        """Return the partitions that take no requests besides `standing`; None as long as it is not known.

        With each is how long ago it was sent the first probe that it has not taken. The others take requests.
        They are in doubt no more, because a query begins, and until then is an outage.
        """
        self._standing = {it: self._standing.get(it, now_ms) for it in standing}
        silent = self._silent(now_ms)
        known = silent | set(self._standing)
        unknown = self._written_ms.keys() - known
        if any(now_ms > self._harmless_until_ms[it] for it in unknown):
            return None
        if unknown & self._asked_ms.keys() & self._doubted_ms.keys():
            return None
        self._doubted_ms = {it: at for it, at in self._doubted_ms.items() if it in known}
        self._harmed &= known
        return {it: now_ms - self._asked_ms[it] for it in silent}

    def be_patient(self, now_ms: float) -> None:
        """Take in that all of Kafka may have been away until now."""
        self._patient_from_ms = now_ms

    def begin(self, standing: Collection[int], now_ms: float) -> None:
        """Take in that a query begins, for which these partitions stand still."""
        self._standing = {it: self._standing.get(it, now_ms) for it in standing}
        self.be_patient(now_ms)

    def unwritten_ms(self, now_ms: float) -> float:
        """The time since every partition has surely taken requests, without those that stand still."""
        return max(
            (
                now_ms - self._doubted_ms.get(it, at)
                for it, at in self._written_ms.items()
                if it not in self._standing
            ),
            default=0,
        )

    def restarted(self, now_ms: float) -> None:
        """Take in that the query restarts because of partitions that were stuck."""
        self._restarted_ms = now_ms

    def stuck(self, now_ms: float) -> set[int]:
        """The partitions that took no requests for too long, or take none still. It is not noted yet.

        Time waits for those that were away for no longer than `patience_ms`. So if the query has restarted
        lately they can wait. Requests of others move the time of their groups, and members would expire.
        """
        answered = self._doubted_ms.keys() - self._asked_ms.keys() - self._standing.keys()
        if now_ms - self._restarted_ms < _SETTLING_MS:
            answered &= self._harmed
        return answered | self._silent(now_ms)

    def answers(self, now_ms: float) -> bool:
        """Whether every partition takes probes as soon as it should, but for those that stand still."""
        return all(
            now_ms - asked_ms <= _WRITE_MS
            for it, asked_ms in self._asked_ms.items()
            if it not in self._standing
        )

    def healed(self) -> set[int]:
        """The partitions that stand still, as is noted, and have taken a probe since."""
        return {
            it for it, since_ms in self._standing.items() if self._written_ms.get(it, since_ms + 1) > since_ms
        }

    def _silent(self, now_ms: float) -> set[int]:
        """The partitions that have not taken a probe for too long, and of which it is not noted yet."""
        return {it for it in self._asked_ms if self._is_silent(it, now_ms)}

    def _is_silent(self, partition: int, now_ms: float) -> bool:
        since_ms = max(self._asked_ms[partition], self._patient_from_ms)
        return partition not in self._standing and now_ms - since_ms > self._patience_ms


class Probes:
    """Writes probes to the partitions of a topic, from a thread of its own, while the context is open.

    Args:
        topic: the request topic.
        partitions: how many it has.
        client_config: for kafka-python.
        interval_ms: between two probes of a partition; 0: none are written.
        harmless_ms: see `WriteTimes`.
        patience_ms: see there. A clock that cannot tick, because Kafka is away, has to stop sooner.
    """

    def __init__(
        self,
        topic: str,
        partitions: int,
        client_config: Mapping[str, Any],
        interval_ms: int,
        harmless_ms: int,
        patience_ms: int,
    ) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        numbers = range(partitions) if interval_ms else ()
        self._times = WriteTimes(numbers, interval_ms, harmless_ms, patience_ms, _now_ms())
        self._config = {
            **client_config,
            "acks": "all",
            "linger_ms": _LINGER_MS,
            # Twice is as good as once, and the next one is new.
            "enable_idempotence": False,
            "retries": 0,
            "reconnect_backoff_max_ms": _RECONNECT_MS,
            "bootstrap_timeout_ms": patience_ms,
            "max_block_ms": patience_ms,
            # Which includes that of waiting for a connection.
            "delivery_timeout_ms": 2 * patience_ms,
        }
        self._patience_ms = patience_ms
        self._producers: dict[int, KafkaProducer] = {}
        """By the time that a broker has to write what they send."""
        self._slow: set[int] = set()
        """The partitions that have not taken the newest probe as soon as they should."""
        self._futures: dict[int, Any] = {}
        self._is_restarting = False
        self._stopping = False
        self._failure: Exception | None = None
        self._woken = threading.Event()
        self._ticks = False
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    @classmethod
    def of(cls, settings: Settings, partitions: int, client_config: Mapping[str, Any]) -> Self:
        """The probes of the coordinator with these settings."""
        return cls(
            settings.topics_requests,
            partitions,
            client_config,
            settings.probe_interval_ms,
            Pace.of(settings).most_ahead_ms,
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
        for producer in self._producers.values():
            close_producer(producer)

    def tick(self, leeway_ms: int) -> None:
        """Take in that the clock writes a tick, which gives the next one so much leeway."""
        with self._lock:
            self._times.ticks(leeway_ms)
        self._ticks = True
        self._woken.set()

    def clock_begins(self) -> None:
        """Take in that a clock begins. Kafka may have been away, unless it begins because of `stuck`."""
        if not self._is_restarting:
            with self._lock:
                self._times.be_patient(_now_ms())
        self._is_restarting = False

    def begin(self, standing: Collection[int]) -> None:
        """Take in that a query begins, for which these partitions stand still."""
        with self._lock:
            self._times.begin(standing, _now_ms())

    def unwritten_ms(self) -> float:
        """The time in ms since every partition has surely taken requests, without those that stand still."""
        with self._lock:
            return self._times.unwritten_ms(_now_ms())

    def answers(self) -> bool:
        """Whether every partition takes probes as soon as it should, but for those that stand still."""
        with self._lock:
            return self._times.answers(_now_ms())

    def settle(self, standing: Collection[int]) -> dict[int, float] | None:
        """The partitions that take no requests, besides `standing`. See `WriteTimes`."""
        self._check()
        with self._lock:
            return self._times.settle(standing, _now_ms())

    def stuck(self) -> set[int]:
        """The partitions that took no requests for too long, as is not noted. See `WriteTimes`."""
        self._check()
        with self._lock:
            return self._times.stuck(_now_ms())

    def restarted(self) -> None:
        """Take in that the query restarts because of `stuck`."""
        with self._lock:
            self._times.restarted(_now_ms())
        self._is_restarting = True

    def healed(self) -> set[int]:
        """The partitions that stand still, as is noted, and take requests again."""
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
                due = self._times.due(_now_ms(), ticks=ticks)
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
                    if took_ms < _WRITE_MS:
                        self._slow.discard(partition)
            else:
                self._slow.add(partition)
                self._lost(partition, future.exception)

    def _send(self, partition: int) -> None:
        # Before the producer looks for Kafka.
        with self._lock:
            self._times.sent(partition, _now_ms())
        try:
            producer = self._producer(self._patience_ms if partition in self._slow else _WRITE_MS)
            future = producer.send(self._topic, PROBE, partition=partition)
        except KafkaError as error:
            self._lost(partition, error)
        else:
            self._futures[partition] = future
            # Somebody may wait for it. One that is refused is sent again at the next look, and not at once.
            future.add_callback(lambda _: self._woken.set())

    def _producer(self, write_ms: int) -> KafkaProducer:
        """The one whose requests brokers may take so long for."""
        if write_ms not in self._producers:
            with ExitStack() as stack:

                def client(**config: Any) -> KafkaNetClient:
                    # A connection is closed later than that, or the answer would never come.
                    config["request_timeout_ms"] = write_ms + self._patience_ms
                    # Which kafka-python 3.0.12 leaves open if Kafka is not found.
                    return stack.enter_context(closing(KafkaNetClient(**config)))

                self._producers[write_ms] = KafkaProducer(
                    **self._config, request_timeout_ms=write_ms, kafka_client=client
                )
                stack.pop_all()
        return self._producers[write_ms]

    def _lost(self, partition: int, error: BaseException) -> None:
        """Take in that a probe was not taken. Raises `error` if nobody may write one."""
        if isinstance(error, AuthorizationError):
            raise error
        with self._lock:
            self._times.lost(partition)


def _now_ms() -> float:
    return time.monotonic() * 1000
