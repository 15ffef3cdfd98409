"""ConsumerGroupHeartbeat: a member joins, says that it is alive, gives up partitions, leaves (KIP-848).

The checks stand in Kafka's order, because the first that fails is the answer.
Source: GroupMetadataManager.java of Apache Kafka 4.4, consumerGroupHeartbeat and consumerGroupLeave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.consumer.advance import (
    advance_epoch,
    assign,
    reconcile_member,
    tell_state,
)
from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
from group_coordinator.coordinator_state.consumer.leaving import leave, remove_members
from group_coordinator.coordinator_state.consumer.member import ConsumerMember
from group_coordinator.coordinator_state.consumer.membership import Verdict, fenced, knows_its_epoch, refusal
from group_coordinator.coordinator_state.consumer.reconcile import Share
from group_coordinator.coordinator_state.consumer.states import MemberState
from group_coordinator.coordinator_state.consumer.subscribing import (
    subscribe,
    take_hints,
    tell_subscription,
    wanted_by,
)
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.events import MemberAdded, MemberFenced, RebalanceCause
from group_coordinator.coordinator_state.near_expiry import tell_if_nearly_expired
from group_coordinator.coordinator_state.requests.consumer import JOIN_EPOCH
from group_coordinator.coordinator_state.responses import ConsumerGroupHeartbeatResponse, ConsumerMemberResult

if TYPE_CHECKING:
    from group_coordinator.coordinator_state.consumer.partitions import Partitions
    from group_coordinator.coordinator_state.requests.consumer import (
        AliveMember,
        ConsumerGroupHeartbeatRequest,
    )
    from group_coordinator.coordinator_state.turn import Turn


def handle_consumer_group_heartbeat(
    turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest, new_member_id: str
) -> None:
    """Handle one ConsumerGroupHeartbeat; `new_member_id` is for a member that has none of its own.

    One of several members does what a heartbeat of each would, and its one answer has only news.
    """
    interval_ms = turn.config.group_consumer_heartbeat_interval_ms
    if request.members is not msgspec.UNSET:
        # Each once, however often it is named: it may be told at length.
        beating = {each.member_id: each for each in request.members}
        news = [it for each in beating.values() if (it := _news_for(turn, each)) is not None]
        if news or request.quiet is not True:
            turn.answer(request, heartbeat_interval_ms=interval_ms, members=news)
        return
    verdict = _rest(turn, request) or _beat(turn, request, request.member_id or new_member_id)
    if request.quiet is True and not verdict.is_news_to(request.epoch):
        return
    is_in = verdict.error is Errors.NONE and request.epoch >= JOIN_EPOCH
    response = ConsumerGroupHeartbeatResponse.to(
        request.reply_to,
        turn.group_id,
        verdict.error,
        verdict.message,
        member_id=verdict.member_id,
        member_epoch=verdict.epoch,
        heartbeat_interval_ms=interval_ms if is_in else 0,
        assignment=verdict.assignment,
    )
    turn.reply(request.reply_to, response, request.member_id or new_member_id)


def _rest(turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest) -> Verdict | None:
    """Handle a heartbeat that says nothing new about a member at rest; None if it may be another one."""
    if not request.is_bare or not turn.has(ConsumerGroup.KIND):
        return None
    group, member = turn.group, turn.group.members.get(request.member_id)
    if member is None or not (group.is_at_rest and group.is_settled(member)):
        return None
    known = (member.epoch, member.client_id, member.client_host, member.group_instance_id)
    instance_id = request.group_instance_id or member.group_instance_id
    if known != (request.epoch, request.client_id, request.client_host, instance_id):
        return None
    _hear_from(turn, member)
    return Verdict(member_id=member.member_id, epoch=member.epoch)


def _news_for(turn: Turn[ConsumerGroup], alive: AliveMember) -> ConsumerMemberResult | None:
    """Let a member be alive; what there is to tell it, if anything."""
    verdict = _live_on(turn, alive.member_id, alive.member_epoch, alive.group_instance_id)
    if not verdict.is_news_to(alive.member_epoch):
        return None
    return ConsumerMemberResult(
        member_id=alive.member_id,
        error_code=verdict.error,
        member_epoch=verdict.epoch,
        assignment=verdict.assignment,
    )


def _live_on(turn: Turn[ConsumerGroup], member_id: str, epoch: int, group_instance_id: str | None) -> Verdict:
    """Handle a heartbeat that says no more than that a member is alive.

    One of the epoch before comes from a member that has not heard where it has come to, since the answer took
    a batch or an outage. It is told again, and comes no further before it knows. So silence fences nobody.
    Likewise one that is to give up something is told so until it has.
    """
    refused = refusal(turn, member_id, epoch, group_instance_id)
    if refused is not None:
        return refused
    group, member = turn.group, turn.group.members[member_id]
    if member.is_away or epoch not in (member.epoch, member.previous_epoch):
        # One that left for a while has not come back by what it sent before.
        return fenced(member)
    _hear_from(turn, member)
    if epoch == member.epoch:
        if group.is_at_rest and group.is_settled(member):
            return Verdict(epoch=epoch)
        verdict = _go_on(turn, member, None, None)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            return verdict
    if not turn.may_tell(member_id):
        # It is told with a later one.
        return Verdict(epoch=epoch)
    return Verdict(epoch=member.epoch, assignment=group.topics.told(member.held))


def _beat(turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest, member_id: str) -> Verdict:
    assignors = turn.config.consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        supported = ", ".join(assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported: {supported}."
        return Verdict(Errors.UNSUPPORTED_ASSIGNOR, message)
    if request.epoch < JOIN_EPOCH:
        return leave(turn, request)
    is_there = turn.has(ConsumerGroup.KIND)
    group = turn.group if is_there else ConsumerGroup.new(turn.group_id, turn.now_ms)
    refused = _refusal_to(turn, group, request, member_id)
    if refused is not None:
        return refused
    if not is_there:
        turn.create_group(group)
    return _take(turn, request, member_id)


def _refusal_to(
    turn: Turn[ConsumerGroup], group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> Verdict | None:
    """The error if the heartbeat cannot be taken; `group` is a new one if there is none."""
    refused = refusal(turn, member_id, request.epoch, request.group_instance_id)
    if refused is not None:
        return refused
    message = request.refuses_pattern(request.subscribed_topic_regex or "")
    if message is not None:
        return Verdict(Errors.INVALID_REGULAR_EXPRESSION, message)
    member = group.members.get(member_id)
    if member is not None and not knows_its_epoch(group, member, request):
        return fenced(member)
    return _too_large(turn, group, request, member_id)


def _too_large(
    turn: Turn[ConsumerGroup], group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> Verdict | None:
    """The error if the group would become larger than it may be, by this member or its hints."""
    member, before, number = _predecessor(group, request, member_id), 0, -1
    if member is None:
        candidate = _new_member(request, member_id)
    else:
        changes = _changes(member, request)
        asked = (request.subscribed_topic_names, request.subscribed_topic_regex)
        if not changes and asked == (None, None) and not request.topics:
            return None
        before, number = group.size_of(member), member.subscription
        candidate = msgspec.structs.replace(member, **changes, member_id=member_id)
    subscriptions, topics = group.subscriptions, group.topics
    wanted = wanted_by(request, subscriptions, number)
    growth = candidate.size + subscriptions.growth(wanted) - before
    growth += topics.growth(topics.hints(request.topics, set(subscriptions.topics_of(wanted))))
    if growth <= 0 or group.bytes_held + growth <= turn.config.max_group_bytes:
        return None
    message = (
        "the group's members, topics and partitions would be larger together than "
        f"{turn.config.max_group_bytes} bytes (max.group.bytes)"
    )
    return Verdict(Errors.GROUP_MAX_SIZE_REACHED, message)


def _predecessor(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerMember | None:
    """The member that it is, or that it takes the place of; None if it is new."""
    owner_id = group.static_members.get(request.group_instance_id or "")
    return group.members.get(member_id if owner_id is None else owner_id)


def _hear_from(turn: Turn[ConsumerGroup], member: ConsumerMember) -> None:
    """Note a sign of life: the member's session begins anew."""
    session_timeout_ms = turn.config.group_consumer_session_timeout_ms
    tell_if_nearly_expired(turn, member, session_timeout_ms)
    turn.restart_session(member.member_id, session_timeout_ms)


# -- what it does --------------------------------------------------------------------------------


def _take(turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest, member_id: str) -> Verdict:
    """Take the heartbeat of a member, or of a program that becomes one."""
    group = turn.group
    predecessor = _predecessor(group, request, member_id)
    assignor = group.index.preferred_assignor(turn.config.consumer_assignors)
    cause, what = RebalanceCause.SUBSCRIPTION_CHANGED, "changed its subscription"
    if predecessor is None:
        member = _add(turn, request, member_id)
        cause, what = RebalanceCause.MEMBER_JOINED, "joined"
    elif predecessor.is_away and request.epoch == JOIN_EPOCH:
        member = _come_back(turn, request, member_id, predecessor)
        cause = RebalanceCause.MEMBER_REPLACED
    else:
        member = predecessor
    if not request.is_bare and member.has_said(request.request_id):
        _hear_from(turn, member)
        return _where(turn, member)
    names_another = predecessor is not None and request.server_assignor not in (None, member.server_assignor)
    if predecessor is not None and (changes := _changes(member, request)):
        group.change_facts(member, changes)
        turn.change_picture()
    change = subscribe(turn, member, request)
    if predecessor is not None and (change.is_another or names_another):
        tell_subscription(turn, member)
    take_hints(turn, request, member)
    if change.is_epoch or group.index.preferred_assignor(turn.config.consumer_assignors) != assignor:
        advance_epoch(turn, cause, f"{member_id} {what}")
    _hear_from(turn, member)
    owned = None if request.topic_partitions is None else group.topics.owned(request.topic_partitions)
    return _go_on(turn, member, request, owned, subscription_changed=change.is_another)


def _go_on(
    turn: Turn[ConsumerGroup],
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest | None,
    owned: Partitions | None,
    *,
    subscription_changed: bool = False,
) -> Verdict:
    """Let group and member come further, and tell the member where it is. `request` None: it is alive.

    `owned`: what the member says it has; None if it says nothing.

    A member that says the epoch before its own does not know its own, and comes no further until it does.
    It may have said the same several times while nobody answered: Kafka would fence it for the third time.
    """
    group = turn.group
    if group.metadata_changed:
        advance_epoch(turn, RebalanceCause.TOPICS_CHANGED, "topics changed")
    assign(turn)
    has_heard = request is None or request.epoch in (JOIN_EPOCH, member.epoch)
    is_changed = has_heard and reconcile_member(
        turn, member, owned, subscription_changed=subscription_changed
    )
    tell_state(turn, f"{member.member_id} is at epoch {member.epoch}")
    is_asked = request is not None and (request.epoch == JOIN_EPOCH or request.is_full)
    if is_asked and not is_changed:
        return _where(turn, member)
    assignment = group.topics.told(member.held) if is_changed else None
    return Verdict(member_id=member.member_id, epoch=member.epoch, assignment=assignment)


def _where(turn: Turn[ConsumerGroup], member: ConsumerMember) -> Verdict:
    """Tell a member where it is, with all that it has."""
    if not turn.may_tell(member.member_id):
        # It says everything again. Kafka's coordinator sends this while it loads a group.
        return Verdict(Errors.COORDINATOR_LOAD_IN_PROGRESS)
    assignment = turn.group.topics.told(member.held)
    return Verdict(member_id=member.member_id, epoch=member.epoch, assignment=assignment)


def _new_member(request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    return ConsumerMember(
        member_id=member_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        group_instance_id=request.group_instance_id,
        rack_id=request.rack_id,
        server_assignor=request.server_assignor,
    )


def _add(turn: Turn[ConsumerGroup], request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    member = _new_member(request, member_id)
    turn.group.add_member(member)
    turn.emit(
        MemberAdded(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            join_phase_ms=None,
        )
    )
    return member


def _come_back(
    turn: Turn[ConsumerGroup],
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    before: ConsumerMember,
) -> ConsumerMember:
    """A static member is back, and has what it had, under the id that it has now."""
    group = turn.group
    other = group.members.get(member_id)
    if other is not None and other is not before:
        # A dynamic member takes the place of a static one. Its partitions as a dynamic one are nobody's now.
        remove_members(turn, [(other, None)], "left", RebalanceCause.MEMBER_LEFT)
    group.remove_member(before)
    member = msgspec.structs.replace(
        before, member_id=member_id, session_deadline_ms=None, revocation_deadline_ms=None, said_by=b""
    )
    # It has had its partitions since before all epochs that it can know of.
    assigned = {number: dict.fromkeys(each, JOIN_EPOCH) for number, each in member.held.items()}
    member.share = Share(JOIN_EPOCH, JOIN_EPOCH, member.state, assigned, {})
    group.add_member(member)
    turn.emit(
        MemberFenced(
            member_id=before.member_id,
            group_instance_id=before.group_instance_id or "",
            replaced_by=member_id,
            client_id=request.client_id,
            client_host=request.client_host,
            client_reason=None,
        )
    )
    return member


def _changes(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> dict[str, object]:
    """What the heartbeat says that was not known of its sender. A field that is not given is as it was."""
    given = {
        "client_id": request.client_id,
        "client_host": request.client_host or None,
        "rack_id": request.rack_id,
        "server_assignor": request.server_assignor,
        "group_instance_id": request.group_instance_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
    }
    return {
        name: value for name, value in given.items() if value is not None and value != getattr(member, name)
    }
