"""The group in hand while its records are taken, and the events that several kinds of records make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from group_coordinator.brokers_log.changes import last_commit_ms
from group_coordinator.brokers_log.consumer.state import News, Rebalance
from group_coordinator.coordinator_state.consumer.partitions import unpack
from group_coordinator.coordinator_state.consumer.states import GroupState
from group_coordinator.coordinator_state.events import (
    MemberAdded,
    MemberReconciled,
    MemberRemoved,
    StateChanged,
    SubscriptionChanged,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from group_coordinator.brokers_log.consumer.records import MemberFacts
    from group_coordinator.brokers_log.consumer.state import WatchedConsumers, WatchedMember
    from group_coordinator.coordinator_state.committed import CommittedOffsets
    from group_coordinator.coordinator_state.events import Event, RebalanceCause

AT_REST = (GroupState.STABLE, GroupState.EMPTY)


class Telling:
    """The group, and what is needed to tell of it.

    `names`: the names of topics by id, as far as they are known. `offsets`: what the group has committed.
    """

    def __init__(self, group: WatchedConsumers, names: Mapping[str, str], offsets: CommittedOffsets) -> None:
        self.group, self.names, self._offsets = group, names, offsets
        self.now_ms = 0
        """The time of the record in hand."""
        self.is_changed = False
        """Whether the group's picture is another one now, perhaps without an event."""
        self.recount()

    @property
    def is_told(self) -> bool:
        """Whether anything may be told: not before it is known whether the group is new."""
        return bool(self.group.told_state)

    @property
    def now(self) -> dict[str, Any]:
        """The fields that all events have."""
        return {"at_ms": self.now_ms, "generation_id": self.group.epoch}

    def state(self) -> GroupState:
        """The group's state after the records so far (ConsumerGroup.maybeUpdateGroupState)."""
        group = self.group
        if not any(it.facts is not None and not it.is_leaving for it in group.members.values()):
            return GroupState.EMPTY
        if group.epoch > group.assignment_epoch:
            return GroupState.ASSIGNING
        return GroupState.RECONCILING if self._unsettled else GroupState.STABLE

    def note(self, cause: RebalanceCause, what: str) -> None:
        """Note what may make a new epoch, with which Kafka writes it."""
        group = self.group
        if group.news and group.news[-1].at_ms != self.now_ms:
            group.news = []
        group.news.append(News(cause, what, self.now_ms))

    def settle(self, member: WatchedMember) -> None:
        """Note whether a member has come to its target. Looking at all of them each time is quadratic."""
        if self.group.is_on_its_way(member):
            self._unsettled.add(member.member_id)
        else:
            self._unsettled.discard(member.member_id)

    def recount(self) -> None:
        """Look at all members again, whether they have come to their targets."""
        members = self.group.members.items()
        self._unsettled = {name for name, member in members if self.group.is_on_its_way(member)}

    # -- events ----------------------------------------------------------------------------------

    def added(self, member: WatchedMember, facts: MemberFacts) -> Iterator[Event]:
        """Tell that a member is new."""
        yield MemberAdded(
            **self.now,
            member_id=member.member_id,
            group_instance_id=facts.group_instance_id,
            client_id=facts.client_id,
            client_host=facts.client_host,
            join_phase_ms=None,
        )
        if member.assigned or member.pending:
            yield self.reconciled(member, facts)

    def removed(self, member: WatchedMember, facts: MemberFacts) -> MemberRemoved:
        """Make the event that tells that a member went. Nobody writes down why."""
        session_ms = facts.session_timeout_ms
        owned = [(topic, each) for topic, every in self.group.named(member.held) for each in every]
        return MemberRemoved(
            **self.now,
            member_id=member.member_id,
            group_instance_id=facts.group_instance_id,
            client_id=facts.client_id,
            reason="unknown",
            session_timeout_ms=UNSET if session_ms is None else session_ms,
            last_commit_ms=last_commit_ms(owned, self._offsets, self.now_ms),
        )

    def subscribed(self, member_id: str, facts: MemberFacts) -> SubscriptionChanged:
        """Make the event that tells that a member reads other topics, or names another assignor."""
        return SubscriptionChanged(
            **self.now,
            member_id=member_id,
            group_instance_id=facts.group_instance_id,
            topics=self.group.names_of(facts),
            server_assignor=facts.server_assignor,
            subscribed_topic_regex=facts.pattern or UNSET,
        )

    def reconciled(self, member: WatchedMember, facts: MemberFacts) -> MemberReconciled:
        """Make the event that tells what a member has."""
        return MemberReconciled(
            **self.now,
            member_id=member.member_id,
            group_instance_id=facts.group_instance_id,
            member_epoch=member.epoch,
            assignment=self.group.assignment(member.held),
            revoking=self.group.assignment(unpack(member.pending)),
        )

    def tell_state(
        self, reason: str, cause: RebalanceCause | None = None, *, is_whole: bool = True
    ) -> Iterator[Event]:
        """Tell the state if it is another one; `cause` if something makes a new epoch.

        `is_whole`: whether nothing can have happened since the state before that is not known.
        """
        group, state, rebalance_ms = self.group, self.state(), None
        if not self.is_told or state == group.told_state:
            return
        before, group.told_state, group.state_timestamp_ms = group.told_state, state, self.now_ms
        if state in AT_REST:
            if group.rebalance is not None:
                since_ms, cause = group.rebalance.since_ms, group.rebalance.cause
                rebalance_ms = None if since_ms is None else self.now_ms - since_ms
            group.rebalance = None
        elif group.rebalance is None:
            group.rebalance = Rebalance(self.now_ms if is_whole else None, cause)
        yield StateChanged(
            **self.now, from_=before, to=state, reason=reason, cause=cause, rebalance_ms=rebalance_ms
        )
