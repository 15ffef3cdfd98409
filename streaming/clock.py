"""The clock: small records at a steady pace, because without them the watermark, and so time, stops.

`schedule.py` says when the next one is due.

Each tick says how far log time (`log_time.py`) may come, as `timekeeper.py` decides. A coordinator that is
down makes no ticks, and so expires nobody. Neither must a clock that goes on after its process stood still or
Kafka was away. So it stops for good after a tick that was late. It does so as well when batches do not end,
or another coordinator begins (`ticks.py`). A new clock begins, and with it an outage is over.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka.errors import KafkaError

from group_coordinator.streaming.log_time import LogTime, Moment
from group_coordinator.streaming.schedule import Schedule
from group_coordinator.streaming.ticks import TickReader, TickWriter
from group_coordinator.streaming.timekeeper import Timekeeper
from group_coordinator.streaming.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from group_coordinator.streaming.probes import Probes
    from group_coordinator.streaming.schedule import Pace
    from group_coordinator.streaming.ticks import Beginning

_CLOSE_S = 2
_LOOK_S = 0.1
_LOOK_WHILE_READ_S = 0.02
_ALL = 1 << 62
"""Later than any offset."""


class ClockStoppedError(Exception):
    """The clock does not tick any more; the message says why."""


class Progress(NamedTuple):
    """The clock ticks for a query, and this tells how that goes on.

    `stalled`: why batches are of no use any more, if so. Then the clock stops: nobody could be answered.
    `caught_up`: the offset of the first tick of which it is not sure that all requests before it were read;
    without it all are. `timers`: the deadlines that are known. `is_quiet`: whether no requests come, so that
    ticks need not come as often. `probes`: written beside ticks; time waits for them as well.
    """

    stalled: Callable[[], str | None] = lambda: None
    caught_up: Callable[[], int] = lambda: _ALL
    timers: Timers | None = None
    is_quiet: Callable[[], bool] = lambda: False
    probes: Probes | None = None


class Clock:
    """Writes ticks to a topic from a thread of its own while the context is open.

    The first tick is written when the context is entered. It tells an earlier writer of this topic to stop.
    Raises `KafkaError` if it cannot be written. From `resume` on time counts.

    Args:
        topic: of one partition, with LogAppendTime.
        pace: of the ticks.
        client_config: for kafka-python.
        coordinator: who writes; no two processes may have the same.
        progress: how the query goes on that the clock is for.
        reached_ms: the latest log time that is known.
        alive_at: as ticks tell it.
    """

    def __init__(
        self,
        topic: str,
        pace: Pace,
        client_config: Mapping[str, Any],
        coordinator: str,
        progress: Progress | None = None,
        reached_ms: int = 0,
        alive_at: str | None = None,
    ) -> None:
        self._pace = pace
        progress = progress or Progress()
        self._stalled, self._caught_up = progress.stalled, progress.caught_up
        self._is_quiet, self._probes = progress.is_quiet, progress.probes
        self._first_offset = 0
        self._log_time = LogTime(pace.max_gap_ms, reached_ms)
        self._schedule = Schedule(pace, Timers() if progress.timers is None else progress.timers)
        self._keeper = Timekeeper(pace)
        self._says_farewell = True
        self._failure: ClockStoppedError | None = None
        self._stopping = threading.Event()
        self._reader = TickReader(topic, client_config)
        self._writer = TickWriter(topic, client_config, coordinator, alive_at, pace.max_gap_ms)
        self._thread = threading.Thread(target=self._run, name="clock", daemon=True)

    def __enter__(self) -> Self:
        try:
            self._reader.__enter__()
            self._write()
        except BaseException as error:
            self._failure = ClockStoppedError(str(error))
            self._close()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self.failure is None:
            self._thread.join()
        if self.failure is None and self._says_farewell:
            try:
                self._write(last=True)
            except KafkaError as error:
                self._failure = ClockStoppedError(f"a tick was not written: {error}")
        self._close()

    @property
    def newest_ms(self) -> int:
        """The time of the newest tick, in ms of log time.

        Raises `ClockStoppedError` if the clock has stopped: that was long ago then, perhaps.
        """
        if self.failure is not None:
            raise self.failure
        assert self._keeper.newest_ms is not None, "an open clock has ticked"  # noqa: S101
        return self._keeper.newest_ms

    @property
    def now_ms(self) -> int:
        """Log time now. Raises `ClockStoppedError` if the clock has stopped."""
        if self.failure is not None:
            raise self.failure
        return self._log_time.at(_now())

    @property
    def ahead_of_driver_ms(self) -> int:
        """Milliseconds by which log time is ahead of this machine's wall clock now."""
        now = _now()
        return self._log_time.at(now) - round(now.wall_ms)

    @property
    def skew_ms(self) -> int:
        """Milliseconds by which the clock of the ticks' broker is ahead of log time, by the newest tick."""
        return self._log_time.skew_ms

    @property
    def broker_is_off(self) -> bool:
        """Whether that is more than clocks may differ by. Log time goes on without that broker then."""
        return self._log_time.broker_is_off

    def hold(self, at_ms: int) -> int:
        """Let time come up to `at_ms`, and stand still there; return `now_ms`."""
        self._keeper.hold(at_ms)
        return self.now_ms

    def resume(self) -> int:
        """Let time count from now on; return `now_ms`."""
        now_ms = self.now_ms
        self._keeper.resume(now_ms)
        self._schedule.resume()
        return now_ms

    def stop(self) -> None:
        """End the ticks. Another clock of this coordinator follows, so nobody needs to take over."""
        self._says_farewell = False
        self._stopping.set()

    @property
    def look_from(self) -> int:
        """The offset from which on another coordinator may have begun."""
        begun = self._begun()
        return self._reader.position if begun is None else begun.offset

    @property
    def failure(self) -> ClockStoppedError | None:
        """The reason why the clock has stopped; None while it ticks."""
        waits_ms = self._writer.waits_ms
        if self._failure is None and waits_ms > self._pace.max_gap_ms:
            self._failure = ClockStoppedError(f"Kafka has not taken a tick for {waits_ms} ms")
        return self._failure

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s()) and self._failure is None:
            try:
                if self._due_in_ms() <= 0:
                    self._tick()
            except KafkaError as error:
                self._failure = ClockStoppedError(f"a tick was not written: {error}")
            except ClockStoppedError as error:
                self._failure = error

    def _due_in_ms(self) -> int:
        # The newest tick may have been written before it became quiet.
        is_quiet = self._keeper.has_leeway and self._is_quiet()
        due_ms = self._schedule.next_ms(self._caught_up(), is_quiet=is_quiet)
        return due_ms - self._log_time.at(_now())

    def _pause_s(self) -> float:
        # Deadlines may become known meanwhile.
        look_s = _LOOK_WHILE_READ_S if self._schedule.waits else _LOOK_S
        return min(max(self._due_in_ms(), 0) / 1000, look_s)

    def _tick(self) -> None:
        if (reason := self._stalled()) is not None:
            raise ClockStoppedError(reason)
        self._reader.poll(0)
        begun = self._begun()
        if begun is not None:
            raise ClockStoppedError(f"another coordinator of these topics has begun, {begun.coordinator}")
        self._write()
        if self._keeper.late is not None:
            raise ClockStoppedError(self._keeper.late)

    def _begun(self) -> Beginning | None:
        """Of somebody else, after this clock."""
        newest = self._reader.newest_beginning
        return newest if newest is not None and newest.offset > self._first_offset else None

    def _write(self, *, last: bool = False) -> None:
        """Write a tick, and wait until it is appended."""
        leeway_ms = self._pace.leeway_ms if self._is_quiet() else 0
        if self._probes is not None:
            self._probes.ticks()
        sent = _now()
        # Log time begins with the first tick, which lets no time pass.
        is_first = self._keeper.newest_ms is None
        at_ms, time_ms = 0, 0
        if not is_first:
            at_ms = self._log_time.at(sent)
            unwritten_ms = 0 if self._probes is None else round(self._probes.unwritten_ms())
            time_ms = self._keeper.coming_ms(at_ms, self._caught_up(), unwritten_ms, is_quiet=leeway_ms > 0)
        appended = self._writer.write(time_ms, leeway_ms, last=last)
        known = _now()
        self._log_time.appended(sent, appended.timestamp, known)
        if is_first:
            self._first_offset = appended.offset
            at_ms = self._log_time.at(known)
        self._schedule.ticked(at_ms, appended.offset, self._caught_up())
        self._keeper.ticked(at_ms, appended.offset, leeway_ms)
        if self._probes is not None:
            self._probes.ticked()

    def _close(self) -> None:
        self._writer.close(patiently=self._failure is None)
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)
        self._reader.close()


def _now() -> Moment:
    # Where there is a clock that goes on while the machine sleeps: what it misses is an outage.
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    monotonic_s = time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)
    return Moment(monotonic_s * 1000, time.time() * 1000)
