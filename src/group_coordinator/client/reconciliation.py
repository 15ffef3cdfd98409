"""`Reconciliation`: what the program's thread does in a group of the consumer protocol, and what it owns."""

from __future__ import annotations

import logging
from typing import Any

from kafka.errors import KafkaError

from group_coordinator.client.clock import now_ms
from group_coordinator.client.consumer_membership import ConsumerMembership
from group_coordinator.client.consumer_requests import MemberPartition
from group_coordinator.client.consumer_work import ConsumerWork
from group_coordinator.client.driver import Driver
from group_coordinator.client.listeners import tell_gone
from group_coordinator.client.sharing import Sharing, Steps

log = logging.getLogger(__name__)


class Reconciliation(Sharing[ConsumerMembership, ConsumerWork]):
    """One member's way to what the coordinator assigns to it.

    Its listener is told differences alone: what it gets, gives up and has lost.
    """

    is_leader = False
    """The coordinator divides the work."""
    assigned_in: int | None
    """The number of the newest assignment that the listener was told; None while nothing is owned."""

    def __init__(self, driver: Driver[ConsumerMembership]) -> None:
        super().__init__(driver)
        self._said: tuple[str, ...] | None = None
        """The names that the coordinator was told, or is about to be."""
        self._assignments = 0
        self._last_epoch = -1

    @property
    def generation_id(self) -> int:
        """The member's epoch; that of what it has lost until the listener has heard, and then -1."""
        with self._driver.held() as membership:
            if membership.epoch is not None:
                self._last_epoch = membership.epoch
        return self._last_epoch

    @property
    def may_work(self) -> bool:
        """Whether `assignment` is still this member's, also while it gives up some of it."""
        with self._driver.held() as membership:
            return membership.epoch is not None

    def _share(self, work: ConsumerWork) -> None:
        self._work = work

    def _steps(self, membership: ConsumerMembership, work: ConsumerWork, now: int) -> Steps[ConsumerWork]:
        must_say = membership.needs_join or self._said != work.names
        return (
            (bool(membership.lost), self._lose),
            (bool(membership.to_give_up), self._give_up),
            (self._may_look_up(now) and must_say, self._say),
            (bool(membership.to_take), self._take_over),
        )

    def give_up(self) -> None:
        """Give up all, revoked or lost already, and tell the listener."""
        with self._driver.held() as membership:
            owned = membership.owned
            lost = self._driver.failure is not None or membership.epoch is None
        if self._work is not None and owned:
            self._tell_gone(self._work, owned, lost=lost)

    # -- the steps -------------------------------------------------------------------------------------

    def _lose(self, work: ConsumerWork) -> None:
        with self._driver.held() as membership:
            lost = membership.lost
        self._tell_gone(work, lost, lost=True)

    def _give_up(self, work: ConsumerWork) -> None:
        with self._driver.held() as membership:
            given_up = membership.to_give_up
        self._tell_gone(work, given_up, lost=False)

    def _tell_gone(self, work: ConsumerWork, partitions: frozenset[MemberPartition], *, lost: bool) -> None:
        gone = self._units(work, partitions)
        try:
            tell_gone(self._listener, gone, lost=lost)
        finally:
            # Only now: the listener may look at it to save what has to be saved.
            self.assignment -= gone
            if not self.assignment:
                self.assigned_in, self._last_epoch = None, -1
            with self._driver.held() as membership:
                membership.give_up(partitions, now_ms())

    def _say(self, work: ConsumerWork) -> None:
        """Join, or say that the subscription is another one."""
        try:
            subscription = work.look_up()
        except KafkaError as error:
            self._retry_look_up(error)
            return
        self._said = work.names
        with self._driver.held() as membership:
            if membership.needs_join:
                membership.join(subscription, now_ms())
            else:
                membership.subscribe(subscription, now_ms())

    def _take_over(self, work: ConsumerWork) -> None:
        with self._driver.held() as membership:
            taken, epoch = membership.take(), membership.epoch
        if not taken or epoch is None:
            return
        new = self._units(work, taken)
        self.assignment |= new
        self._assignments += 1
        self.assigned_in, self._last_epoch = self._assignments, epoch
        log.info("group %s: owns %d in epoch %d", self._group_id, len(self.assignment), epoch)
        if self._listener is not None:
            self._listener.on_partitions_assigned(new)

    def _units(self, work: ConsumerWork, partitions: frozenset[MemberPartition]) -> frozenset[Any]:
        return frozenset(map(work.unit, partitions))
