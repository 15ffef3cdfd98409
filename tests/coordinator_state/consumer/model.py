"""A consumer group as somebody outside knows it: from what was asked, answered and told.

The model decides nothing. It does not know how the work is divided, or which step a member takes next: the
events tell it. What it keeps is a list of promises: who is a member, until when each is heard of, what each
may hold, what it has to give up until when, and what is committed. So it foretells the error of every answer,
and what an answer without an error may say.

Some answers it leaves open. A heartbeat with the epoch before the member's, which has shown already that it
knows its own, is taken or fenced. Which of the two depends on steps that nobody is told of.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from group_coordinator.coordinator_state import events as told
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.consumer_protocol import partitions_of
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.requests import (
    AnyRequest,
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TopicMetadataRequest,
)
from group_coordinator.coordinator_state.requests.consumer import AWAY_EPOCH, JOIN_EPOCH
from group_coordinator.coordinator_state.wire import Rejection
from tests.coordinator_state.consumer.invariants import agrees_with_picture, held_by
from tests.coordinator_state.invariants import REMEMBERED_MS, committed
from tests.coordinator_state.model_offsets import Commit, Key, OffsetsModel, codes_in, commits_of, keys_of
from tests.coordinator_state.model_time import NONE, Answer, Asked, TimedModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.config import GroupConfig
    from group_coordinator.coordinator_state.consumer.group import ConsumerGroup
    from group_coordinator.coordinator_state.events import AnyEvent
    from group_coordinator.coordinator_state.outages import Outage
    from group_coordinator.coordinator_state.requests import AliveMember
    from group_coordinator.coordinator_state.responses import AssignedTopic, GroupPicture

EMPTY, DEAD = "Empty", "Dead"
FENCED, STALE, UNKNOWN = "FENCED_MEMBER_EPOCH", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"
FENCED_INSTANCE, UNRELEASED = "FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"
NO_GROUP, FULL, NOT_AVAILABLE = "GROUP_ID_NOT_FOUND", "GROUP_MAX_SIZE_REACHED", "COORDINATOR_NOT_AVAILABLE"
REQUESTS_KNOWN = 4
"""A copy of an older request is taken for a new one."""

Partitions = frozenset[Key]


@dataclass
class Member:
    """What is known of a member. `heard_until_ms` is when it is out unless it is heard of before."""

    member_id: str
    instance_id: str | None
    client_id: str
    heard_until_ms: int
    rebalance_ms: int = 0
    epoch: int = 0
    before: int = -1
    """Its epoch before that."""
    shown: int = 0
    """The newest epoch that a heartbeat of its own had, when that was its epoch."""
    is_away: bool = False
    since: dict[Key, int] = field(default_factory=dict)
    """All that it may hold, and from which of its epochs on."""
    former: set[Key] = field(default_factory=set)
    """The part of that which may be of a topic whose name another one has now: events have names."""
    revoking: Partitions = frozenset()
    """The part that it has to give up ..."""
    revoke_until_ms: int | None = None
    """... until then."""
    names: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    """The newest requests in which it has said more than that it is alive."""
    untold_until_ms: int = 0
    """Until then, in log time, nobody is told that it came late."""

    @property
    def assigned(self) -> Partitions:
        """What an answer with its assignment has to say."""
        return frozenset(self.since) - self.revoking


class ConsumerOffsets(OffsetsModel):
    """Offsets of topics that a member names stay. Of others each has its time, from its commit on."""

    def is_read(self, topic: str) -> bool:
        """See `OffsetsModel`."""
        return any(topic in member.names for member in self._model.members.values())

    def _time_of(self, key: Key) -> tuple[int, int] | None:
        retention_ms = self._model.config.offsets_retention_minutes * 60_000
        return None if self.is_read(key[0]) else (self.kept[key].at_ms, retention_ms)


class ConsumerModel(TimedModel):
    """What is known of the group, and what must be true of each call that tells more of it."""

    def __init__(
        self,
        config: GroupConfig,
        outages: list[Outage],
        group_id: str = "orders",
        layout: Layout = Layout(),  # noqa: B008 - it is immutable
    ) -> None:
        super().__init__(config, outages, group_id, layout)
        self.state = DEAD
        self.generation = 0
        """The group epoch."""
        self.members: dict[str, Member] = {}
        self.offsets = ConsumerOffsets(self)
        self.since_ms = 0
        """Since when, by the clock, members name the topics that they do ..."""
        self.unused_since_ms: int | None = None
        """... and, if the group is Empty, since when nothing else is left of it."""
        self._assigned_ms: int | None = None
        """When the work was divided last, in log time."""
        self._metadata_version = 0
        self._topic_ids: dict[str, str] = {}
        self._group: ConsumerGroup | None = None

        # What is true within one call, or one request, only.
        self._copies: Counter[str] = Counter()
        """How often each request is still to come in this call."""
        self._ask: AnyRequest | None = None
        self._changed: set[str] = set()
        """Members to whom other partitions are assigned now."""
        self._must_commit: list[Commit] = []
        self._must_be_near: list[tuple[str, int]] = []

    @property
    def exists(self) -> bool:
        """Whether there is a group."""
        return self.state != DEAD

    # -- time ------------------------------------------------------------------------------------------

    def _nothing_was_due_before(self, at_ms: int) -> None:
        assert all(it >= at_ms for it in self._gone_by_ms()), "an Empty group or offsets should be gone"
        for member in self.members.values():
            assert member.heard_until_ms >= at_ms, f"{member.member_id} should be out"
            due_ms = member.revoke_until_ms
            assert due_ms is None or due_ms >= at_ms, f"{member.member_id} has not given up in time"

    def _gone_by_ms(self) -> list[int]:
        late_ms = self.config.offsets_retention_check_interval_ms
        of_group = [] if self.unused_since_ms is None else [self.unused_since_ms + late_ms]
        return of_group + self.offsets.gone_by_ms()

    def _has_happened(self, at_ms: int) -> None:
        if self.state != EMPTY or self.offsets.kept:
            self.unused_since_ms = None
        elif self.unused_since_ms is None:
            self.unused_since_ms = at_ms

    def _ends_well(self) -> None:
        if self.exists:
            assert (self.state == EMPTY) == (not self.members), "its state is not told"

    # -- requests --------------------------------------------------------------------------------------

    def see(
        self, asked: list[Asked], watermark_ms: int, answers: list[Answer], events: list[AnyEvent]
    ) -> None:
        """See `TimedModel`."""
        self._copies = Counter(it.request_id for _, it in asked if not isinstance(it, Rejection))
        super().see(asked, watermark_ms, answers, events)

    def _handle(self, ask: AnyRequest, own: list[AnyEvent]) -> None:
        self._ask, self._changed = ask, set()
        match ask:
            case ConsumerGroupHeartbeatRequest() if ask.members is not UNSET:
                self._handle_alive(ask, ask.members, own)
            case ConsumerGroupHeartbeatRequest():
                self._handle_heartbeat(ask, own)
            case OffsetCommitRequest():
                self._handle_commit(ask, own)
            case OffsetFetchRequest():
                self._happen_all(own)
                self._handle_fetch(ask)
            case TopicMetadataRequest():
                assert not own or ask.based_on == self._metadata_version, "it is not based on what is known"
                self._happen_all(own)
            case _:
                raise AssertionError(f"the model does not know {ask}")
        assert [] == self._must_commit
        assert [] == self._must_be_near, "a member came late, and nobody is told"
        self._copies[ask.request_id] -= 1
        self._ask = None

    def _happen_all(self, own: Iterable[AnyEvent]) -> None:
        for event in own:
            self._happen(event)
        self._has_happened(self.now)

    def _handle_heartbeat(self, ask: ConsumerGroupHeartbeatRequest, own: list[AnyEvent]) -> None:
        error = self._error_of_heartbeat(ask)
        if error is None:
            waiting = self._answers[ask.request_id]
            error = FENCED if waiting and waiting[0].response.error == FENCED else NONE
        if error == NONE and ask.epoch >= JOIN_EPOCH and ask.member_id in self.members:
            self._comes(self.members[ask.member_id])
        if error != NONE:
            assert [] == own, "what is refused changes nothing"
            self._take(ask, error)
            return
        self._happen_all(own)
        answer = self._take(ask)
        if ask.epoch < JOIN_EPOCH:
            member = self.members.get(ask.member_id)
            is_right = member is None if ask.epoch != AWAY_EPOCH else member is not None and member.is_away
            assert is_right, "it has left, and is still there"
            return
        member = self.members[ask.member_id]
        self._is_heard(member)
        if ask.epoch == member.epoch:
            member.shown = ask.epoch
        if ask.request_id not in member.said:
            self._says(member, ask)
        else:
            changes = {
                told.MemberReconciled,
                told.SubscriptionChanged,
                told.TargetAssigned,
                told.StateChanged,
            }
            assert changes.isdisjoint(map(type, own)), "a copy changes something"
        self._is_told(member, answer.member_epoch, answer.assignment)
        if ask.epoch == JOIN_EPOCH:
            # If it comes twice, the first answer has another epoch, which may be too long ago.
            member.shown = member.epoch
        if ask.epoch == JOIN_EPOCH or ask.is_full:
            assert answer.assignment is not None, "it said all, and is not told all"
        assert answer.heartbeat_interval_ms == self.config.group_consumer_heartbeat_interval_ms

    def _says(self, member: Member, ask: ConsumerGroupHeartbeatRequest) -> None:
        member.client_id = ask.client_id
        if not ask.is_bare:
            member.said = (*member.said, ask.request_id)[-REQUESTS_KNOWN:]
        if ask.subscribed_topic_names is not None:
            self._names(member, ask.subscribed_topic_names)
        if ask.rebalance_timeout_ms != -1:
            member.rebalance_ms = ask.rebalance_timeout_ms

    def _error_of_heartbeat(self, ask: ConsumerGroupHeartbeatRequest) -> str | None:
        """The error that it is answered with; None if the model cannot know: it is fenced or taken."""
        joins = ask.epoch == JOIN_EPOCH
        if not self.exists:
            return NO_GROUP if not joins else NOT_AVAILABLE if self._is_closed else NONE
        if ask.group_instance_id is not None:
            owner = self._static(ask.group_instance_id)
            if joins and owner is not None and owner.member_id != ask.member_id:
                return NONE if owner.is_away else UNRELEASED
            if not joins and (owner is None or owner.member_id != ask.member_id):
                return UNKNOWN if owner is None else FENCED_INSTANCE
        member = self.members.get(ask.member_id)
        if member is None:
            is_full = len(self.members) >= self.config.group_consumer_max_size
            return UNKNOWN if not joins else FULL if is_full else NONE
        return NONE if ask.epoch <= JOIN_EPOCH else self._error_of_epoch(member, ask)

    def _error_of_epoch(self, member: Member, ask: ConsumerGroupHeartbeatRequest) -> str | None:
        """The same for a member by its epoch: it may not have heard of the newest, or be none any more."""
        if ask.epoch == member.epoch and not member.is_away:
            return NONE
        if member.is_away or ask.epoch != member.before or ask.topic_partitions is None:
            return FENCED
        count = sum(len(topic.partitions) for topic in ask.topic_partitions)
        return FENCED if count > len(member.assigned) else None

    def _static(self, instance_id: str) -> Member | None:
        return next((it for it in self.members.values() if it.instance_id == instance_id), None)

    def _handle_alive(
        self, ask: ConsumerGroupHeartbeatRequest, alive: list[AliveMember], own: list[AnyEvent]
    ) -> None:
        fenced = {
            each.member_id
            for _, answer in list(self._answers[ask.request_id])[:1]
            for each in answer.members
            if each.error_code == Errors.FENCED_MEMBER_EPOCH
        }
        errors = {
            it.member_id: self._error_of_alive(it) or (FENCED if it.member_id in fenced else NONE)
            for it in alive
        }
        for each in alive:
            if errors[each.member_id] == NONE:
                self._comes(self.members[each.member_id])
        self._happen_all(own)
        is_answered = self._is_answered(ask, alive, set(errors.values()))
        assert is_answered or ask.quiet is True, f"no answer to {ask}"
        answer = self._take(ask) if is_answered else None
        news = {} if answer is None else {each.member_id: each for each in answer.members}
        assert news or not is_answered or ask.quiet is not True, "an answer that says nothing"
        for each in alive:
            self._is_told_if_there_is_news(each, errors[each.member_id], news.pop(each.member_id, None))
        assert {} == news, "news of others"

    def _is_answered(
        self, ask: ConsumerGroupHeartbeatRequest, alive: list[AliveMember], errors: set[str]
    ) -> bool:
        """Whether this copy of the request is answered. Of several, the first may have had no news."""
        answers = self._answers[ask.request_id]
        members = (self.members[it.member_id] for it in alive if it.member_id in self.members)
        has_news = errors != {NONE} or any(it.revoking or it.member_id in self._changed for it in members)
        return bool(answers) and (has_news or len(answers) == self._copies[ask.request_id])

    def _error_of_alive(self, alive: AliveMember) -> str | None:
        """The error that it is told of; None if the model cannot know: it is fenced or taken."""
        if not self.exists:
            return NO_GROUP
        if alive.group_instance_id is not None:
            owner = self._static(alive.group_instance_id)
            if owner is None or owner.member_id != alive.member_id:
                return UNKNOWN if owner is None else FENCED_INSTANCE
        member = self.members.get(alive.member_id)
        if member is None:
            return UNKNOWN
        if member.is_away or alive.member_epoch not in (member.epoch, member.before):
            return FENCED
        is_behind = alive.member_epoch != member.epoch
        return None if is_behind and member.shown == member.epoch else NONE

    def _is_told_if_there_is_news(self, alive: AliveMember, error: str, news: Any) -> None:
        if error != NONE:
            assert news is not None, f"{alive.member_id} is {error}, and is not told"
            assert error == Errors.for_code(news.error_code).name
            return
        member = self.members[alive.member_id]
        self._is_heard(member)
        if alive.member_epoch == member.epoch:
            member.shown = member.epoch
        if news is None:
            assert member.epoch == alive.member_epoch, "a member is behind, and is not told"
            assert alive.member_id not in self._changed, "a member has other partitions, and is not told"
            return
        assert news.error_code == 0, f"{alive.member_id} is refused, and is a member"
        self._is_told(member, news.member_epoch, news.assignment)

    def _is_told(self, member: Member, epoch: int, assignment: list[AssignedTopic] | None) -> None:
        """A member is told where it is."""
        assert member.epoch <= epoch, "an epoch falls"
        if epoch > member.epoch:
            member.before, member.epoch = member.epoch, epoch
        if assignment is None:
            assert member.member_id not in self._changed, "a member has other partitions, and is not told"
            return
        told_of = [(topic.name, each) for topic in assignment for each in topic.partitions]
        assert len(set(told_of)) == len(told_of)
        assert set(told_of) == member.assigned, f"{member.member_id} is told what is not its own"

    def _comes(self, member: Member) -> None:
        """It must be told if it comes in the last fifth of its session - once in ten sessions."""
        session_ms = self.config.group_consumer_session_timeout_ms
        left_ms = member.heard_until_ms - self.now
        if member.is_away and isinstance(self._ask, ConsumerGroupHeartbeatRequest) and self._ask.epoch == 0:
            # It comes back under its own id, and begins a session.
            return
        if 5 * left_ms < session_ms and self.log_ms >= member.untold_until_ms:
            member.untold_until_ms = self.log_ms + 10 * session_ms
            self._must_be_near.append((member.member_id, left_ms))

    def _is_heard(self, member: Member) -> None:
        member.heard_until_ms = self.now + self.config.group_consumer_session_timeout_ms

    def _names(self, member: Member, names: Iterable[str]) -> None:
        before, member.names = member.names, tuple(sorted(set(names)))
        if before != member.names:
            self.since_ms = self.now

    def _handle_commit(self, ask: OffsetCommitRequest, own: list[AnyEvent]) -> None:
        commits = commits_of(ask)
        error = self._error_of_commit(ask, commits)
        codes = [Errors[error].value] * len(commits)
        if error == NONE and commits:
            codes, self._must_commit = self.offsets.commit(commits, ask)
        keys = [(each.topic, each.partition) for each in commits]
        assert list(zip(keys, codes, strict=True)) == codes_in(self._take(ask, error))
        self._happen_all(own)

    def _error_of_commit(self, ask: OffsetCommitRequest, commits: list[Commit]) -> str:
        member, epoch = self.members.get(ask.member_id), ask.generation_id
        if not commits:
            return NONE
        if not self.exists:
            return NO_GROUP
        if member is None:
            return UNKNOWN
        keys = {(each.topic, each.partition) for each in commits}
        current = AWAY_EPOCH if member.is_away else member.epoch
        if epoch >= current:
            return NONE if epoch == current else STALE
        if keys & member.former:
            told = {code for answer in self._answers[ask.request_id] for _, code in codes_in(answer.response)}
            return STALE if Errors[STALE].value in told else NONE
        return NONE if all(member.since.get(each, INT32_MAX) <= epoch for each in keys) else STALE

    def _handle_fetch(self, ask: OffsetFetchRequest) -> None:
        error, member = NONE, self.members.get(ask.member_id or "")
        if self.exists and ask.member_id is not None:
            current = member and (AWAY_EPOCH if member.is_away else member.epoch)
            error = UNKNOWN if member is None else NONE if ask.member_epoch == current else STALE
        answer = self._take(ask, error)
        if error == NONE:
            asked = None if ask.topics is None else keys_of(ask.topics)
            self.offsets.agrees_with_fetch(answer, ask.version, asked)

    # -- events ----------------------------------------------------------------------------------------

    def _group_begins(self, event: told.GroupCreated | told.GroupTypeChanged) -> None:
        assert self.state == DEAD
        assert event.generation_id == 1
        self.state, self.generation, self._metadata_version, self._topic_ids = EMPTY, 1, 0, {}
        self._forgotten_ms = self._assigned_ms = None
        self.clocks.shifts = {} if not self.clocks.shifts else self.clocks.shifts

    def _state_changed(self, event: told.StateChanged) -> None:
        assert event.from_ == self.state
        assert event.to != self.state
        self.state = event.to
        if event.to == EMPTY:
            self._assigned_ms = None
        self._is_at(event)

    def _is_at(self, event: AnyEvent) -> None:
        """Take in the group's epoch."""
        assert event.generation_id >= self.generation, "the group's epoch falls"
        self.generation = event.generation_id

    def _member_added(self, event: told.MemberAdded) -> None:
        assert event.member_id not in self.members
        assert isinstance(self._ask, ConsumerGroupHeartbeatRequest)
        assert (self._ask.member_id, self._ask.epoch) == (event.member_id, JOIN_EPOCH)
        member = Member(event.member_id, event.group_instance_id, event.client_id, self.now)
        member.rebalance_ms = self._ask.rebalance_timeout_ms
        self._names(member, self._ask.subscribed_topic_names or ())
        self.members[event.member_id] = member
        self._is_heard(member)

    def _member_fenced(self, event: told.MemberFenced) -> None:
        member = self.members.pop(event.member_id)
        assert member.is_away, "nobody takes the place of a member that has not left"
        assert member.instance_id == event.group_instance_id
        member.member_id, member.is_away = event.replaced_by, False
        member.epoch, member.before, member.said = 0, -1, ()
        member.since = dict.fromkeys(member.since, 0)
        self.members[event.replaced_by] = member
        self._is_heard(member)

    def _member_removed(self, event: told.MemberRemoved) -> None:
        member = self.members.pop(event.member_id)
        self.since_ms = self.now
        match event.reason:
            case "session_expired":
                assert member.heard_until_ms == self.now, f"{member.member_id} is heard of for longer"
            case "not_revoked":
                assert member.revoke_until_ms == self.now, f"{member.member_id} has longer to give up"
            case reason:
                assert reason == "left"
                assert isinstance(self._ask, ConsumerGroupHeartbeatRequest)
                assert (self._ask.member_id, self._ask.epoch) == (event.member_id, -1)
        self._is_at(event)

    def _member_away(self, event: told.MemberAway) -> None:
        member = self.members[event.member_id]
        assert isinstance(self._ask, ConsumerGroupHeartbeatRequest)
        assert (self._ask.member_id, self._ask.epoch) == (event.member_id, AWAY_EPOCH)
        member.is_away, member.revoke_until_ms = True, None
        member.since = {each: since for each, since in member.since.items() if each not in member.revoking}
        member.former &= member.since.keys()
        member.revoking = frozenset()

    def _member_reconciled(self, event: told.MemberReconciled) -> None:
        member = self.members[event.member_id]
        held, before = frozenset(partitions_of(event.assignment)), member.assigned
        was_revoking, member.revoking = member.revoking, frozenset(partitions_of(event.revoking))
        assert member.revoking <= held
        # What it gets back that it has given up, it has from now on.
        kept = {each: since for each, since in member.since.items() if each in before | member.revoking}
        member.since = {each: kept.get(each, event.member_epoch) for each in sorted(held)}
        member.former &= held
        if member.assigned != before:
            self._changed.add(event.member_id)
        if not member.revoking:
            member.revoke_until_ms = None
        elif member.revoking != was_revoking or member.revoke_until_ms is None:
            ask = self._ask
            given = ask.rebalance_timeout_ms if isinstance(ask, ConsumerGroupHeartbeatRequest) else -1
            member.revoke_until_ms = self.now + (member.rebalance_ms if given == -1 else given)

    def _target_assigned(self, event: told.TargetAssigned) -> None:
        before, self._assigned_ms = self._assigned_ms, event.at_ms
        interval_ms = self.config.group_consumer_assignment_interval_ms
        assert before is None or event.at_ms - before >= interval_ms, "the work is divided again too soon"
        assert event.assignment_epoch == event.generation_id
        self._is_at(event)

    def _topics_changed(self, event: told.TopicsChanged) -> None:
        assert event.metadata_version > self._metadata_version, "a version of metadata comes twice"
        self._metadata_version = event.metadata_version
        for topic in event.topics:
            topic_id = topic.topic_id or ""
            if self._topic_ids.setdefault(topic.name, topic_id) != topic_id:
                self._topic_ids[topic.name] = topic_id
                for member in self.members.values():
                    member.former |= {each for each in member.since if each[0] == topic.name}

    def _subscription_changed(self, event: told.SubscriptionChanged) -> None:
        self._names(self.members[event.member_id], event.topics)

    def _session_nearly_expired(self, event: told.SessionNearlyExpired) -> None:
        assert self._must_be_near, "nobody came late"
        assert (event.member_id, event.remaining_ms) == self._must_be_near.pop(0)
        assert event.session_timeout_ms == self.config.group_consumer_session_timeout_ms

    def _offsets_committed(self, event: told.OffsetsCommitted) -> None:
        assert isinstance(self._ask, OffsetCommitRequest)
        assert (self._ask.member_id, self._ask.client_id) == (event.member_id, event.client_id)
        told_of = [
            (topic.name, it.partition_index, it.committed_offset, topic.topic_id or "")
            for topic in event.topics
            for it in topic.partitions
        ]
        wanted = [(each.topic, each.partition, each.offset, each.topic_id) for each in self._must_commit]
        assert wanted == told_of
        self._must_commit = []

    def _offsets_expired(self, event: told.OffsetsExpired) -> None:
        assert "@" in event.event_id
        self.offsets.expired(event.topics, event.at_ms)

    def _group_deleted(self, _event: told.GroupDeleted) -> None:
        assert (DEAD, {}, {}) == (self.state, self.members, self.offsets.kept)
        self._forgotten_ms = self.now + REMEMBERED_MS

    _HANDLERS = {  # noqa: RUF012 - a table
        told.GroupCreated: _group_begins,
        told.GroupTypeChanged: _group_begins,
        told.StateChanged: _state_changed,
        told.MemberAdded: _member_added,
        told.MemberFenced: _member_fenced,
        told.MemberRemoved: _member_removed,
        told.MemberAway: _member_away,
        told.MemberReconciled: _member_reconciled,
        told.TargetAssigned: _target_assigned,
        told.TopicsChanged: _topics_changed,
        told.SubscriptionChanged: _subscription_changed,
        told.SessionNearlyExpired: _session_nearly_expired,
        told.OffsetsCommitted: _offsets_committed,
        told.OffsetsExpired: _offsets_expired,
        told.GroupDeleted: _group_deleted,
        told.RequestLate: TimedModel._request_late,
        told.ClockCorrected: TimedModel._clock_corrected,
    }

    # -- what others say of the group ------------------------------------------------------------------

    def agrees_with_group(self, group: ConsumerGroup | None, deadline_ms: int | None) -> None:
        """The stored group keeps the promises that the model knows of, and no others."""
        assert self.is_known == (group is not None)
        self._group = group
        self.offsets.agrees_with_stored(committed(group))
        if group is None:
            return
        later_ms = self._agrees_on_time(group)
        # An epoch that begins while another one does is not told.
        assert (self.state, self.log_ms) == (group.state, group.now_ms), "untold changes"
        assert self.generation <= group.generation_id
        self.generation = group.generation_id
        assert self._metadata_version == group.topics.version or self.state in (EMPTY, DEAD)
        assert sorted(self.members) == sorted(group.members)
        for member_id, member in self.members.items():
            self._agrees_with_member(member, group, later_ms)
            assert group.static_members.get(member.instance_id or "", member_id) == member_id
        assert deadline_ms is not None
        due = [it for it in self._gone_by_ms() if self.exists]
        due += [it.heard_until_ms for it in self.members.values()]
        assert self.now < deadline_ms - later_ms <= min(due, default=deadline_ms)

    def _agrees_with_member(self, member: Member, group: ConsumerGroup, later_ms: int) -> None:
        stored = group.members[member.member_id]
        names = member.instance_id, member.client_id, member.names
        known = stored.group_instance_id, stored.client_id, group.subscriptions.names(stored.subscription)
        assert names == known
        heard_until_ms = member.heard_until_ms + later_ms
        assert heard_until_ms == stored.session_deadline_ms, (
            f"{member.member_id} is heard until {heard_until_ms}, and stored is {stored.session_deadline_ms}"
        )
        if not member.is_away:
            until_ms = member.revoke_until_ms
            assert (None if until_ms is None else until_ms + later_ms) == stored.revocation_deadline_ms
        assert (AWAY_EPOCH if member.is_away else member.epoch) == stored.epoch
        held = [(name, partition) for name, _, partition in held_by(group, stored)]
        assert sorted(held) == sorted(member.since), f"{member.member_id} holds what is not told"

    def agrees_with_picture(self, picture: GroupPicture | None) -> None:
        """The newest picture shows the group."""
        agrees_with_picture(self._group, picture)
