"""The choice of the active coordinator among those with the same topics. The others wait or give up."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from kafka.errors import AuthorizationError, KafkaError, SaslAuthenticationFailedError

from group_coordinator.checkpoints.topics import read_topics
from group_coordinator.jobs.health import Activity
from group_coordinator.jobs.kafka_config import python_client_config
from group_coordinator.streaming.errors import CoordinatorError
from group_coordinator.streaming.lifeline import Watcher, refuses
from group_coordinator.streaming.ticks import TickReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from group_coordinator.jobs.signals import StopEvent
    from group_coordinator.streaming.clock import Clock
    from group_coordinator.streaming.metrics import Vitals
    from group_coordinator.streaming.settings import CoordinatorSettings
    from group_coordinator.streaming.ticks import Tick
    from group_coordinator.streaming.warmth import Warmth

_LOOK_S = 0.2
_SILENT_S = 2.0
"""For so long a process on this machine has not ticked if it has died. Most that live tick twice in it,
or once while no requests come, when it is longer."""
_BOOTSTRAP_MS = 3_000
_FINAL = (AuthorizationError, SaslAuthenticationFailedError)
"""No wait mends these."""


def check_alone(settings: CoordinatorSettings) -> None:
    """Raise `CoordinatorError` if another coordinator of these topics runs. The look takes up to 4 s.

    A coordinator that stands by need not be alone. If Kafka does not answer, nothing is raised.
    """
    if settings.standby:
        return
    client_config = python_client_config(settings.bootstrap_servers, settings.kafka)
    client_config["bootstrap_timeout_ms"] = _BOOTSTRAP_MS
    with suppress(KafkaError):
        if settings.topics_clock not in read_topics(client_config, [settings.topics_clock]):
            return
        with TickReader(settings.topics_clock, client_config) as ticks:
            while (rival := ticks.running(_quiet_s(settings))) is not None:
                if ticks.is_live:
                    raise _is_running(rival)
                ticks.poll(_LOOK_S)


def _quiet_s(settings: CoordinatorSettings) -> float:
    """How long no tick of a coordinator that runs is read, at most: one that is later does not count."""
    return (settings.clock_max_gap_ms + settings.clock_slack_ms) / 1000


def _is_running(rival: Tick) -> CoordinatorError:
    return CoordinatorError(
        f"another coordinator of these topics is running, {rival.coordinator}: stop it first, or "
        "start this one with --standby, to go on when that one ends"
    )


class Leadership:
    """Waits for the turn of the process called `coordinator`, by the ticks and lifelines of others.

    `check_jvm` raises if Spark's JVM has died, without which nobody could take over. `warmth` is kept up
    meanwhile.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        coordinator: str,
        vitals: Vitals,
        check_jvm: Callable[[], object],
        warmth: Warmth,
        alive_at: str | None,
        say: Callable[[str], None],
        stopping: StopEvent,
    ) -> None:
        self.coordinator = coordinator
        self._bootstrap_servers = settings.bootstrap_servers
        self._quiet_s = _quiet_s(settings)
        self._stands_by = settings.standby
        self._stands_by_for = ""
        """The coordinator that is active, once it is known that this one stands by."""
        self._vitals = vitals
        self._check_jvm = check_jvm
        self._warmth = warmth
        self.alive_at = alive_at
        self._watcher = Watcher()
        self._say = say
        self.stopping = stopping
        self._clock: Clock | None = None
        """While this is the active coordinator."""

    @contextmanager
    def leading(self, clock: Clock) -> Iterator[None]:
        """Take in that this is the active coordinator while the context is open, and that clock ticks."""
        self._clock = clock
        try:
            yield
        finally:
            self._clock = None

    def is_active(self) -> bool:
        """Whether this is the active coordinator: another one may have taken over, as its clock finds out."""
        clock = self._clock
        return clock is not None and clock.failure is None

    def await_turn(self, ticks: TickReader) -> None:
        """Return when no other coordinator of these topics runs, or when asked to stop.

        Raises `CoordinatorError` if one runs and this one is not to stand by.
        """
        try:
            self._await_turn(ticks)
        finally:
            self._warmth.end()
            self._watcher.close()

    def _await_turn(self, ticks: TickReader) -> None:
        self._stands_by_for = ""
        # Spark has taken longer to start than a tick takes to come.
        look_s = 0.0
        while not self.stopping.is_set():
            with self.waiting_for_kafka(lambda: bool(self._stands_by_for)):
                ticks.poll(look_s)
                look_s = _LOOK_S
                if (rival := self._rival(ticks)) is None:
                    break
                self._look_at(rival, ticks)
        if self._stands_by_for and not self.stopping.is_set():
            self._vitals.health.does(Activity.STARTING)
            self._vitals.metrics.standby.set(0)
            self._say(f"{self._stands_by_for} has ended: taking over")

    def _look_at(self, rival: Tick, ticks: TickReader) -> None:
        """Stand by if the rival goes on, and this one may."""
        if ticks.is_live and not self._stands_by:
            raise _is_running(rival)
        if ticks.is_live and self._stands_by_for != rival.coordinator:
            self._stands_by_for = rival.coordinator
            self._vitals.metrics.standby.set(1)
            self._warmth.begin(lambda: ticks.position)
            self._say(f"standing by: {rival.coordinator} is the coordinator of these topics")
        if self._stands_by_for:
            self._check_jvm()
            self._vitals.health.does(Activity.WARM if self._warmth.is_warm else Activity.STANDING_BY)

    @contextmanager
    def waiting_for_kafka(self, was_there: Callable[[], bool]) -> Iterator[None]:
        """Wait for a moment if Kafka is away, and `was_there` before: so it will be again.

        Raises the `KafkaError` if not, because it may be the wrong one, or if no wait can mend it.
        """
        try:
            yield
        except KafkaError as error:
            if isinstance(error, _FINAL) or not was_there():
                raise
            self._say(f"waiting for Kafka at {self._bootstrap_servers}: {error}")
            self._vitals.health.does(Activity.WAITING_FOR_KAFKA)
            self.stopping.wait(_LOOK_S)

    def _rival(self, ticks: TickReader) -> Tick | None:
        """The newest tick of another coordinator that runs; None if none does."""
        rival = ticks.running(self._quiet_s)
        if rival is None or rival.coordinator == self.coordinator or self._has_ended(rival, ticks):
            return None
        return rival

    def _has_ended(self, rival: Tick, ticks: TickReader) -> bool:
        if rival.alive_at is None:
            return False
        if self._stands_by and self._watcher.has_ended(rival.alive_at):
            return True
        was_here = self._is_here(rival.coordinator, rival.alive_at)
        return was_here and ticks.running(_SILENT_S) is None and refuses(rival.alive_at)

    def _is_here(self, coordinator: str, alive_at: str) -> bool:
        """Whether these are of this machine, which refuses the address if the process has ended.

        Both the name and the address have to be: containers elsewhere may share either.
        """
        if self.alive_at is None:
            return False
        return (_host(coordinator), _host(alive_at)) == (_host(self.coordinator), _host(self.alive_at))


def _host(name: str) -> str:
    """Without what comes after it: a process id or a port."""
    return name.rpartition(":")[0]
