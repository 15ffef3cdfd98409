"""One member's side of the consumer protocol (KIP-848): answers and time in, requests out.

    membership.join(subscription, now_ms)                 # the user's thread, if it `needs_join`
    membership.subscribe(subscription, now_ms)            # another subscription, from now on
    membership.to_give_up -> membership.give_up(partitions, now_ms)     # once the user has given them up
    membership.to_take -> membership.take()               # from now on the user has them
    membership.lost -> membership.give_up(partitions, now_ms)           # may be somebody else's by now

See `AnyMembership` for what is the same in all protocols.

The coordinator divides the work, and nobody waits for the others. A member first gives up what its newest
assignment lacks. It says so at once, in a heartbeat that says all; only then does the coordinator give it
anything new, and those partitions to others.

**Silence.** Heartbeats lie in the log with their time. So a coordinator that reads them an hour later knows
that this member was alive, and silence takes nothing from it. If a heartbeat that says all is not answered in
time, the member asks whether the coordinator is there. It says all again once it is, and not before: several
of them with one epoch would only be more to read.

Source: AbstractMembershipManager.java and ConsumerHeartbeatRequestManager.java of Apache Kafka 4.4.
Rules that differ: heartbeats go on while one is not answered; a group that is gone (69) is joined again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from group_coordinator.client.any_membership import AnyAnswer, AnyMembership, is_due
from group_coordinator.client.consumer_requests import (
    ConsumerRequests,
    MemberPartition,
    Numbered,
    Subscription,
)
from group_coordinator.client.errors import (
    GroupIdNotFoundError,
    MembershipError,
    UnexpectedAnswerError,
    fatal_error,
)
from group_coordinator.client.member_settings import ConsumerMemberSettings
from group_coordinator.client.states import MemberState
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.coordinator_state.fitting import fits
from group_coordinator.coordinator_state.responses import (
    AssignedTopic,
    ConsumerGroupHeartbeatResponse,
    InvalidRequestResponse,
    OffsetCommitResponse,
)

_HeartbeatAnswer = ConsumerGroupHeartbeatResponse | InvalidRequestResponse

_DEFAULT_INTERVAL_MS = 5_000
"""Kafka's, for an answer that does not say one."""

# Errors of a commit that say that the member is not what it takes itself for. A heartbeat is told what it is.
_OF_MEMBER = frozenset(
    {
        Errors.UNKNOWN_MEMBER_ID,
        Errors.GROUP_ID_NOT_FOUND,
        Errors.FENCED_INSTANCE_ID,
        Errors.STALE_MEMBER_EPOCH,
    }
)


class _News(NamedTuple):
    """What an answer says of this member. `assignment` None: it is as it was."""

    code: int
    name: str
    message: str | None = None
    epoch: int = 0
    interval_ms: int = 0
    assignment: Sequence[AssignedTopic] | None = None

    @property
    def is_error(self) -> bool:
        """Whether the request was refused."""
        return self.code != Errors.NONE


@dataclass
class _Session:
    """A member's stay in the group, from the answer of a join until the coordinator or the member ends it.

    `epoch` and `assigned`: the newest that were told. `said_epoch`: that of the newest heartbeat that says no
    more than that the member is alive. `heard`: the number of the newest request whose answer was taken.
    `owes_word`: whether the coordinator waits to hear that something is given up. `heartbeat_at` and
    `all_at`: when the next heartbeat is due, and one that says all.
    """

    heard: int
    heartbeat_at: int
    interval_ms: int
    all_at: int = 0
    epoch: int = 0
    said_epoch: int = 0
    assigned: frozenset[MemberPartition] = frozenset()
    owes_word: bool = False


class ConsumerMembership(AnyMembership):
    """The consumer protocol of one member.

    `member_id` is the member's own, for all its life; make it unique (a UUID). See `Outgoing` and
    `AnyMembership` for the other arguments.
    """

    settings: ConsumerMemberSettings
    _requests: ConsumerRequests

    def __init__(
        self,
        settings: ConsumerMemberSettings,
        instance: str,
        member_id: str,
        reply_partition: int,
        wall_ahead_ms: int | None = None,
    ) -> None:
        requests = ConsumerRequests(settings, instance, member_id, reply_partition)
        super().__init__(settings, requests, wall_ahead_ms)
        self.member_id = member_id
        self.owned: frozenset[MemberPartition] = frozenset()
        """The partitions that the user has, also those that are lost, until they are given up."""

        self._subscription = Subscription(())
        self._knows_hints = False
        """Whether the coordinator has answered the newest hints."""
        self._session: _Session | None = None
        # The join, or heartbeat that says all, whose answer is awaited. The session says which of the two.
        self._awaited: Numbered | None = None
        # When it is taken for unanswered. None: it was, and heartbeats ask whether the coordinator is there.
        self._await_until: int | None = None
        # When it is sent again after a backoff.
        self._repeat_at: int | None = None
        self._is_known = False
        """Whether the group may have this member."""
        self._is_closed = False

    # -- what it looks like --------------------------------------------------------------------------

    @property
    def state(self) -> MemberState:
        """The state, which follows from the rest. Stable: the user has what is assigned."""
        session = self._session
        if self._is_closed:
            return MemberState.CLOSED
        if self.failure is not None:
            return MemberState.FAILED
        if session is None:
            return MemberState.PREPARING_REBALANCE if self._is_joining else MemberState.UNJOINED
        is_there = self.owned == session.assigned and not session.owes_word
        return MemberState.STABLE if is_there else MemberState.COMPLETING_REBALANCE

    @property
    def epoch(self) -> int | None:
        """The member's epoch, which is above 0; None while it is not in the group."""
        return None if self._session is None else self._session.epoch

    @property
    def needs_join(self) -> bool:
        """Whether the user's thread has to call `join`. It gives up before what is lost."""
        return self.state is MemberState.UNJOINED and not self.owned

    @property
    def to_give_up(self) -> frozenset[MemberPartition]:
        """The partitions that the user has to give up. Until it has, nobody else gets them."""
        return frozenset() if self._session is None else self.owned - self._session.assigned

    @property
    def to_take(self) -> frozenset[MemberPartition]:
        """The partitions that the user may take. None as long as there is something to give up."""
        if self._session is None or self.to_give_up:
            return frozenset()
        return self._session.assigned - self.owned

    @property
    def lost(self) -> frozenset[MemberPartition]:
        """The partitions that the user has, and that may be somebody else's by now."""
        return self.owned if self._session is None else frozenset()

    def _asker(self) -> tuple[str | None, int]:
        return (None, -1) if self._session is None else (self.member_id, self._session.epoch)

    @property
    def _is_joining(self) -> bool:
        return self._session is None and (self._awaited is not None or self._repeat_at is not None)

    # -- the user's thread ---------------------------------------------------------------------------

    def subscribe(self, subscription: Subscription, now_ms: int) -> None:
        """Share `subscription` from now on. Does nothing before the join, which comes with one."""
        if self._session is not None or self._is_joining:
            self._subscription, self._knows_hints = subscription, False
            self._say_all(now_ms)

    def join(self, subscription: Subscription, now_ms: int) -> None:
        """Join the group, to share `subscription`. Does nothing unless `needs_join`."""
        if self.needs_join:
            self._subscription, self._knows_hints = subscription, False
            self._say_all(now_ms)

    def take(self) -> frozenset[MemberPartition]:
        """Let the user have what it may take; return that."""
        taken = self.to_take
        self.owned |= taken
        return taken

    def give_up(self, partitions: Collection[MemberPartition], now_ms: int) -> None:
        """The user has given up `partitions`. The coordinator hears so at once, if it waits for that."""
        self.owned -= frozenset(partitions)
        self._keep_word(now_ms)

    @property
    def _generation_of_commits(self) -> int | None:
        return self.epoch

    def _close(self, reason: str, *, leave: bool | None) -> None:  # noqa: ARG002 - the protocol has no room for it
        self._leave(leave=leave)
        self._is_closed = True

    # -- time ----------------------------------------------------------------------------------------

    def _timers(self) -> tuple[int | None, ...]:
        heartbeat_at = None if self._session is None else self._session.heartbeat_at
        return heartbeat_at, self._all_at(), self._await_until, self._repeat_at

    def _give_up_on_user(self) -> None:
        self._leave()

    def _do_due(self, now_ms: int) -> None:
        if is_due(self._repeat_at, now_ms):
            self._say_all(now_ms)
        elif is_due(self._await_until, now_ms):
            self._miss_answer(now_ms)
        elif is_due(self._all_at(), now_ms):
            self._say_all(now_ms)
        elif (session := self._session) is not None and now_ms >= session.heartbeat_at:
            self._say_alive(session, now_ms)

    @property
    def _is_in_group(self) -> bool:
        return self._session is not None or self._is_joining

    def _all_at(self) -> int | None:
        """When all is to be said although nothing has changed; not while it is unanswered."""
        if self._session is None or self._awaited is not None or self._repeat_at is not None:
            return None
        return self._session.all_at

    def _miss_answer(self, now_ms: int) -> None:
        """The answer that is awaited has not come in time."""
        if self._session is None:
            self._say_all(now_ms)
        else:
            # From now on heartbeats ask for an answer. The first that comes has this member say all again.
            self._await_until = None
            self._say_alive(self._session, now_ms)

    # -- requests ------------------------------------------------------------------------------------

    def _say_all(self, now_ms: int) -> None:
        """Join, or say all that this member knows of itself. The answer has its whole assignment."""
        session = self._session
        if session is None:
            self._awaited = self._requests.put_join(self._subscription)
            self._is_known = True
        else:
            # Also what the user may take at any moment: what is not named is given to others at once.
            owned = self.owned | session.assigned
            self._awaited = self._requests.put_all(
                session.epoch, self._subscription, owned, with_hints=not self._knows_hints
            )
            session.owes_word = bool(self.to_give_up)
            session.heartbeat_at = self._next_heartbeat(session.interval_ms, now_ms)
        self._await_until, self._repeat_at = now_ms + self.settings.request_timeout_ms, None

    def _say_alive(self, session: _Session, now_ms: int) -> None:
        is_asking = self._awaited is not None and self._await_until is None
        self._requests.put_alive(session.epoch, quiet=not is_asking)
        session.said_epoch = session.epoch
        session.heartbeat_at = self._next_heartbeat(session.interval_ms, now_ms)

    # -- answers -------------------------------------------------------------------------------------

    def _on_answer(self, answer: AnyAnswer, now_ms: int) -> None:
        number = self._requests.number_of(answer.request_id)
        awaited, session = self._awaited, self._session
        if number is None or not isinstance(answer, _HeartbeatAnswer):
            return
        if awaited is not None and number == awaited.number:
            if fits(awaited.request, answer):
                self._on_all(number, answer, now_ms)
        elif session is not None and number > session.heard:
            self._on_alive(session, number, answer, now_ms)

    def _on_all(self, number: int, answer: _HeartbeatAnswer, now_ms: int) -> None:
        """Take the answer to a join, or to a heartbeat that says all."""
        self._awaited = self._await_until = None
        news = _news_of_one(answer)
        if news.is_error:
            self._on_error(news, now_ms)
            return
        self._knows_hints = True
        if self._session is None:
            interval_ms = news.interval_ms if news.interval_ms > 0 else _DEFAULT_INTERVAL_MS
            self._session = _Session(
                heard=number,
                heartbeat_at=self._next_heartbeat(interval_ms, now_ms),
                interval_ms=interval_ms,
            )
        self._session.all_at = now_ms + self.settings.say_all_every_ms
        self._advance(self._session, number, news)
        self._keep_word(now_ms)

    def _on_alive(self, session: _Session, number: int, answer: _HeartbeatAnswer, now_ms: int) -> None:
        """Take the answer to a heartbeat that says no more than that the member is alive."""
        if not self._requests.is_for_alive(answer):
            return
        news = _news_of_many(answer)
        is_earlier = self._awaited is not None and number < self._awaited.number
        if is_earlier and (news is None or news.code != Errors.UNKNOWN_MEMBER_ID):
            # The answer that is awaited says all. Only that it is out, this member can be told before.
            return
        if news is not None and news.is_error:
            self._on_error(news, now_ms)
            return
        if news is not None:
            before = session.assigned
            self._advance(session, number, news)
            if news.assignment is not None and news.epoch == session.said_epoch:
                # A member is told again at its own epoch until it has said that something is given up. That
                # may be something that it has never had, because the answer with it is lost.
                session.owes_word |= session.assigned <= before
        if self._awaited is not None and self._session is not None:
            # An earlier one that says all was read before this one, and its answer is lost.
            self._say_all(now_ms)
        self._keep_word(now_ms)

    def _advance(self, session: _Session, number: int, news: _News) -> None:
        """Come to where the coordinator says that this member is."""
        if news.epoch <= 0:
            self._fail(UnexpectedAnswerError(self.settings.group_id, f"a member of epoch {news.epoch}"))
            return
        session.heard, session.epoch = number, news.epoch
        if news.interval_ms > 0:
            session.interval_ms = news.interval_ms
        if news.assignment is not None:
            before, session.assigned = session.assigned, _partitions(news.assignment)
            session.owes_word |= not before | self.owned <= session.assigned

    def _keep_word(self, now_ms: int) -> None:
        """Say that all is given up that had to be, if the coordinator waits for that."""
        session = self._session
        if session is not None and session.owes_word and not self.to_give_up:
            self._say_all(now_ms)

    def _on_error(self, news: _News, now_ms: int) -> None:
        is_member = self._session is not None
        match news.code:
            case Errors.FENCED_MEMBER_EPOCH if is_member:
                self._end_session()
            case Errors.UNKNOWN_MEMBER_ID | Errors.GROUP_ID_NOT_FOUND if is_member:
                self._is_known = False
                self._end_session()
            case (
                Errors.COORDINATOR_LOAD_IN_PROGRESS
                | Errors.COORDINATOR_NOT_AVAILABLE
                | Errors.NOT_COORDINATOR
                | Errors.FENCED_MEMBER_EPOCH
                | Errors.UNKNOWN_MEMBER_ID
            ):
                # This member keeps what it has, and says all again.
                self._awaited = self._await_until = None
                self._repeat_at = now_ms + self.settings.retry_backoff_ms
            case Errors.GROUP_ID_NOT_FOUND:
                self._fail(GroupIdNotFoundError(self.settings.group_id, news.message))
            case Errors.FENCED_INSTANCE_ID | Errors.UNRELEASED_INSTANCE_ID:
                detail = news.message or f"group_instance_id {self.settings.group_instance_id!r}"
                # The place is another program's, which must not be taken out of the group on closing.
                self._is_known = False
                self._fail(fatal_error(news.code, news.name, detail, self.settings.group_id))
            case _:
                self._fail(fatal_error(news.code, news.name, news.message, self.settings.group_id))

    def _on_commit(self, answer: OffsetCommitResponse, now_ms: int) -> None:
        if answer.error_code in _OF_MEMBER and self._session is not None and self._awaited is None:
            self._say_all(now_ms)

    # -- the end of a session ------------------------------------------------------------------------

    def _leave(self, *, leave: bool | None = None) -> None:
        """Leave for good, or say that this static member goes for a while.

        A dynamic one that does not leave says nothing, and the group waits for the end of its session.
        """
        is_static = self.settings.group_instance_id is not None
        for_good = leave if leave is not None else not is_static
        if self._is_known and (for_good or is_static):
            self._requests.put_leave(for_good=for_good)
        self._is_known = False
        self._end_session()

    def _fail(self, failure: MembershipError) -> None:
        self._end_session()
        self.failure = failure

    def _end_session(self) -> None:
        self._session = self._awaited = self._await_until = self._repeat_at = None


def _partitions(topics: Sequence[AssignedTopic]) -> frozenset[MemberPartition]:
    return frozenset(
        MemberPartition(topic.name, partition, topic.topic_id or "")
        for topic in topics
        for partition in topic.partitions
    )


def _news_of_one(answer: _HeartbeatAnswer) -> _News:
    """The news in the answer to a heartbeat that says all."""
    news = _News(answer.error_code, answer.error, answer.error_message)
    if isinstance(answer, InvalidRequestResponse):
        return news
    return news._replace(
        epoch=answer.member_epoch, interval_ms=answer.heartbeat_interval_ms, assignment=answer.assignment
    )


def _news_of_many(answer: _HeartbeatAnswer) -> _News | None:
    """The news in the answer to a heartbeat of several members, of which this is the only one; None: none."""
    news = _News(answer.error_code, answer.error, answer.error_message)
    if news.is_error or isinstance(answer, InvalidRequestResponse):
        return news
    for each in answer.members or ():
        return _News(
            each.error_code,
            Errors.for_code(each.error_code).name,
            None,
            each.member_epoch,
            answer.heartbeat_interval_ms,
            each.assignment,
        )
    return None
