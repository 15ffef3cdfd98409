"""`Rebalance`: the steps of a rebalance that take place in the program's thread, and what the member owns."""

from __future__ import annotations

import logging
from typing import Any

from kafka.errors import KafkaError

from group_coordinator.client.clock import now_ms
from group_coordinator.client.driver import Driver
from group_coordinator.client.listeners import tell_gone
from group_coordinator.client.membership import Generation, Membership
from group_coordinator.client.sharing import Sharing, Steps
from group_coordinator.client.states import MemberState
from group_coordinator.client.work import Work

log = logging.getLogger(__name__)

_LEAST_LOOK_UP_MS = 100
"""A look-up that is due again as soon as it has ended would keep `poll` from ever returning."""


class Rebalance(Sharing[Membership, Work]):
    """One member's part in the rebalances of its group.

    `look_up_every_ms`: how often the leader looks for changes of what there is to share.
    """

    generation_id = -1
    assigned_in: Generation | None
    """The generation whose assignment the listener was told last; None once it was given up."""

    def __init__(self, driver: Driver[Membership], look_up_every_ms: int) -> None:
        super().__init__(driver)
        self._look_up_every_ms = max(look_up_every_ms, _LEAST_LOOK_UP_MS)
        # The last assignment there was, for assignors that leave work where it is.
        self._last_owned: frozenset[Any] = frozenset()
        self._last_generation_id = -1
        self._look_up_due = 0

    @property
    def is_leader(self) -> bool:
        """Whether this member divides the work in its generation."""
        with self._driver.held() as membership:
            return membership.generation is not None and membership.generation.is_leader

    @property
    def may_work(self) -> bool:
        """Whether `assignment` is still this member's, as far as is known."""
        with self._driver.held() as membership:
            return membership.state is MemberState.STABLE

    def _share(self, work: Work) -> None:
        if self._work is None or self._work.subscription != work.subscription:
            self._work = work
            with self._driver.held() as membership:
                membership.request_rejoin("the subscription has changed")

    def _steps(self, membership: Membership, work: Work, now: int) -> Steps[Work]:  # noqa: ARG002 - the other protocol looks at it
        assigned_in = self.assigned_in
        is_new = membership.assignment is not None and membership.generation is not assigned_in
        must_lead = membership.leadership is not None
        must_look = assigned_in is not None and assigned_in.is_leader and now >= self._look_up_due
        return (
            (membership.needs_join, self._rejoin),
            (self._may_look_up(now) and must_lead, self._lead),
            (is_new, self._take_over),
            (self._may_look_up(now) and must_look, self._look_for_changes),
        )

    def give_up(self) -> None:
        """Give up all, and tell the listener if it was told of an assignment before: revoked, or lost."""
        assigned_in, self.assigned_in = self.assigned_in, None
        if assigned_in is None:
            return
        with self._driver.held() as membership:
            lost = self._driver.failure is not None or membership.generation is not assigned_in
        try:
            tell_gone(self._listener, self.assignment, lost=lost)
        finally:
            # Only now: the listener may look at it to save what has to be saved.
            self.assignment = frozenset()
            self.generation_id = -1

    # -- the steps -------------------------------------------------------------------------------------

    def _rejoin(self, work: Work) -> None:
        # Everything is given up before the join goes out. So it is safe for the leader to give it to others
        # (the eager protocol).
        self.give_up()
        protocols = work.protocols(self._last_owned, self._last_generation_id)
        with self._driver.held() as membership:
            if membership.needs_join:
                membership.join(work.protocol_type, protocols, now_ms())

    def _lead(self, work: Work) -> None:
        with self._driver.held() as membership:
            generation, members = membership.generation, membership.leadership
        if generation is None or members is None:
            return
        try:
            assignments = work.assign(generation.protocol_name, members)
        except KafkaError as error:
            self._retry_look_up(error)
            return
        self._look_up_due = now_ms() + self._look_up_every_ms
        with self._driver.held() as membership:
            membership.assign(generation, assignments, now_ms())

    def _take_over(self, work: Work) -> None:
        with self._driver.held() as membership:
            generation, assignment = membership.generation, membership.assignment
        if generation is None or assignment is None:
            return
        if generation.watched:
            work.watch(generation.watched)
        self.assignment = self._last_owned = frozenset(work.decode(assignment))
        self.assigned_in = generation
        self.generation_id = self._last_generation_id = generation.generation_id
        count, number = len(self.assignment), generation.generation_id
        log.info("group %s: owns %d in generation %d", self._group_id, count, number)
        if self._listener is not None:
            self._listener.on_partitions_assigned(self.assignment)

    def _look_for_changes(self, work: Work) -> None:
        try:
            outdated = work.outdated()
        except KafkaError as error:
            self._retry_look_up(error)
            return
        self._look_up_due = now_ms() + self._look_up_every_ms
        if outdated:
            with self._driver.held() as membership:
                membership.request_rejoin("the number of partitions has changed")
