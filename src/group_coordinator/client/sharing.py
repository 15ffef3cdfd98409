"""The steps that a member of either protocol takes in its group, in the thread of its program."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from kafka.errors import KafkaError

from group_coordinator.client.any_membership import AnyMembership
from group_coordinator.client.clock import now_ms
from group_coordinator.client.driver import Driver
from group_coordinator.client.listeners import RebalanceListener

M = TypeVar("M", bound=AnyMembership)
W = TypeVar("W")
Steps: TypeAlias = tuple[tuple[bool, Callable[[W], None]], ...]
log = logging.getLogger(__name__)


class Sharing(ABC, Generic[M, W]):
    """One member's share of the work, and its way to it. Only one thread at a time may be in here."""

    def __init__(self, driver: Driver[M]) -> None:
        self.assignment: frozenset[Any] = frozenset()
        """The work of the member."""
        self.assigned_in: object = None
        """The newest assignment that the listener was told; None if none, or it was given up."""

        self._driver = driver
        self._group_id = driver.settings.group_id
        self._work: W | None = None
        self._listener: RebalanceListener | None = None
        self._no_look_up_before = 0

    @property
    def is_subscribed(self) -> bool:
        """Whether there is anything to share."""
        return self._work is not None

    @property
    @abstractmethod
    def generation_id(self) -> int:
        """The generation or epoch that `assignment` is of, -1 while there is none."""

    @property
    @abstractmethod
    def is_leader(self) -> bool:
        """Whether this member divides the work."""

    @property
    @abstractmethod
    def may_work(self) -> bool:
        """Whether `assignment` is still this member's, as far as is known."""

    def subscribe(self, work: W, listener: RebalanceListener | None) -> None:
        """Share `work` from now on. Raises ValueError if that is another kind of work."""
        if self._work is not None and type(self._work) is not type(work):
            raise ValueError("a member cannot change between topics and units: close it and make another")
        self._listener = listener
        self._share(work)

    @abstractmethod
    def _share(self, work: W) -> None:
        """Have this work shared."""

    def due_step(self, membership: M, now: int) -> Callable[[], None] | None:
        """The step that is to be taken now, if any. It is called without the lock of the membership."""
        if (work := self._work) is None:
            return None
        if (failure := self._driver.failure) is not None:
            return partial(self._fail, failure)
        steps = self._steps(membership, work, now)
        return next((partial(step, work) for is_due, step in steps if is_due), None)

    @abstractmethod
    def _steps(self, membership: M, work: W, now: int) -> Steps[W]:
        """Whether each step is due, the most urgent first."""

    @abstractmethod
    def give_up(self) -> None:
        """Give up all, revoked or lost already, and tell the listener."""

    def _fail(self, failure: Exception) -> None:
        self.give_up()
        raise failure

    def _may_look_up(self, now: int) -> bool:
        return now >= self._no_look_up_before

    def _retry_look_up(self, error: KafkaError) -> None:
        if not error.retriable:
            raise error
        log.warning("group %s: cannot look up partitions, trying again: %s", self._group_id, error)
        self._no_look_up_before = now_ms() + self._driver.settings.retry_backoff_ms
