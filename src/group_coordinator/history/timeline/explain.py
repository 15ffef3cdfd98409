"""Rebalances in plain words, each sentence with its evidence.

A pure function of a story. It claims no cause that the log does not have. Of a group at the brokers it says
that nobody knows, and which facts are known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState
from group_coordinator.history.rows import (
    AT_REST,
    IN_PHASES,
    ON_THE_WAY,
    REBALANCING,
    GenerationMember,
    Join,
    Transition,
    ms_of,
)
from group_coordinator.history.signs import BEFORE
from group_coordinator.history.spans import Membership
from group_coordinator.history.story import Kinds, Story, between
from group_coordinator.history.timeline.late import Late
from group_coordinator.history.timeline.names import Names
from group_coordinator.history.timeline.sentence import Sentence
from group_coordinator.history.timeline.text import clean, counted, owned, span_of_time
from group_coordinator.history.timeline.waits import Waited, together

_JOIN_PHASE, _SYNC_PHASE = IN_PHASES
Place = tuple[datetime, int]
"""A place in the log of a group."""
_ALWAYS = datetime.min.replace(tzinfo=UTC)
_LAST = 2**63
_NAMED = 8
"""Members of one kind that have a sentence each. The others are counted."""
_GONE = {
    "left": "left the group",
    "session_expired": "was removed, because no heartbeat came for a whole session",
    "not_rejoined": "was removed, because it did not join again in time",
    "not_synced": "was removed, because it did not ask for its assignment in time",
    "group_full": "was removed, because the group was full",
    "not_revoked": "was removed, because it did not give up in time what another member is to have",
    "replaced": "was started again under its instance id, and goes on with a new member id",
    "unknown": "is gone. Nobody wrote down whether it left or its session expired",
}
_OF_A_JOIN = {"member_joined", "member_replaced", "subscription_changed", "leader_rejoined"}
_BECAUSE = {
    "member_joined": "a member joined",
    "member_left": "a member left",
    "member_replaced": "a static member restarted and the group could not go on",
    "session_expired": "the session of a member expired",
    "not_synced": "a member did not ask for its assignment in time",
    "subscription_changed": "a member joined again with another subscription",
    "leader_rejoined": "the leader joined again, as if its work had changed",
}
_BECAUSE_OF_CONSUMERS = _BECAUSE | {
    "member_replaced": "a static member came back with another subscription",
    "subscription_changed": "a member reads other topics, or names another assignor",
    "not_revoked": "a member did not give up in time what another one is to have",
    "topics_changed": "a topic came, grew, or is gone",
}
_UNKNOWN = "The group rebalanced, and Kafka does not write down why"


class Rebalance(NamedTuple):
    """A rebalance: its moves from the begin of the first join phase to Stable or Empty.

    That of a group of the consumer protocol begins when it leaves Stable or Empty.

    `ended`: None while it lasts, or if the story ends before. `who`: ids of the members that were the cause.
    `joins`: all joins of that time. `last`: the last one of the last join phase, if its place there is known.
    """

    began: datetime
    ended: datetime | None
    moves: Sequence[Transition]
    who: Sequence[str]
    last: Join | None
    joins: Sequence[Join]
    members: int | None

    @property
    def is_of_consumers(self) -> bool:
        """Whether the group's members speak the consumer protocol."""
        return self.moves[0].to_state in ON_THE_WAY or self.moves[-1].from_state in ON_THE_WAY

    @property
    def cause(self) -> str:
        """The cause; unknown if the story does not have it."""
        return next((each.cause for each in self.moves if each.cause), "unknown")

    @property
    def took_ms(self) -> int | None:
        """The length in ms; None if it is not known."""
        return self.moves[-1].rebalance_ms

    @property
    def id(self) -> str:
        """An id of it that is safe in a document."""
        return f"r{ms_of(self.began)}-{self.moves[0].log_offset}"


class Explainer:
    """Explains the rebalances of a story. Its rows are sorted once, however many rebalances there are."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.names = Names(story)
        self.late = Late(story, self.names)
        self._gone = sorted((each for each in story.memberships if each.until is not None), key=_until)
        self._gone_times = [_until(each) for each in self._gone]
        self._come_times = sorted(each.since or _ALWAYS for each in story.memberships)
        self._generations: dict[tuple[datetime, int], list[GenerationMember]] = {}
        for each in story.generations:
            self._generations.setdefault((each.at, each.generation_id), []).append(each)
        self._kinds = Kinds(story.transitions)
        self._waits = sorted((each for each in together(story.waits) if each.since is not None), key=_since)
        self._places = {each.event_id: each.log_offset for each in (*story.joins, *story.transitions)}
        self.rebalances: list[Rebalance] = []
        """All rebalances, the oldest first."""
        before: Place = (_ALWAYS, -1)
        for moves in _together(story.transitions):
            self.rebalances.append(self._rebalance(moves, before))
            before = moves[-1].place

    def explain(self, rebalance: Rebalance) -> list[Sentence]:
        """Say what happened, in the order of time."""
        end = rebalance.moves[-1].at if rebalance.ended is None else rebalance.ended
        sentences = [
            *self._signs_of_life(rebalance, end),
            *self._departures(rebalance.began, end),
            *(self._begin(each) for each in rebalance.moves if _is_begin(each)),
            *self._arrivals(rebalance),
            *(self._middle(each) for each in rebalance.moves if each.to_state == _SYNC_PHASE),
            *(self._divided(each) for each in rebalance.moves if each.from_state == ConsumerState.ASSIGNING),
            *self._end(rebalance),
        ]
        placed = [(_place(each), each) for each in sentences]
        # Members wait from when the work was divided, and no other row has the place of that.
        waits = self._held(rebalance.began, end, is_over=rebalance.ended is not None)
        placed += [((each.at, _LAST), each) for each in waits]
        return [each for _, each in sorted(placed, key=lambda it: it[0])]

    def _signs_of_life(self, rebalance: Rebalance, end: datetime) -> Iterator[Sentence]:
        """Near misses since the rebalance before, and the last signs of life of members that expired."""
        number = bisect_left(self.rebalances, end, key=_last_move)
        since = rebalance.began - BEFORE
        if number:
            since = max(since, _last_move(self.rebalances[number - 1]) + timedelta.resolution)
        joined = {each.event_id for each in rebalance.joins}
        told = {
            each.event_id: each
            for member in self._went(rebalance.began, end)[:_NAMED]
            for each in self.late.before(member)
            if each.event_id not in joined
        }
        yield from told.values()
        near = [each for each in self.late.near_misses(since, end) if each.event_id not in told]
        yield from near[-_NAMED:]
        if more := near[:-_NAMED]:
            text = f"Before, members came as late {counted(len(more), 'other time')}."
            yield Sentence(more[-1].at, text, more[-1].event_id, more[-1].log_offset)

    def life(self, member_id: str) -> list[Sentence]:
        """Say all that the story has of a member, in the order of time."""
        story = self._story
        found = [each for each in story.memberships if each.member_id == member_id]
        joins = [each for each in story.joins if each.member_id == member_id]
        sentences = [*(self._join(each) for each in joins), *self.late.of_member(member_id)]
        if not any(each.is_first for each in joins):
            sentences += [self._arrival(each) for each in found if each.since is not None]
        given: dict[tuple[datetime, datetime | None, int], list[Any]] = {}
        for each in story.assignments:
            if each.member_id == member_id and each.since is not None:
                given.setdefault((each.since, each.until, each.generation_id), []).append(each)
        for (since, until, generation), rows in given.items():
            what = owned([(each.topic, each.partition) for each in rows], units=False)[0]
            length = "and still owns it" if until is None else f"for {span_of_time(until - since)}"
            number = "epoch" if self._kinds.is_consumer(since) else "generation"
            text = f"{self.names.name(member_id)} owned {what} in {number} {generation}, {length}."
            sentences.append(Sentence(since, text, rows[0].begun_by or None, None, member_id))
        sentences += [self._departure(each) for each in found if each.until is not None]
        return sorted(sentences, key=_place)

    # -- rebalances --------------------------------------------------------------------------------------

    def _rebalance(self, moves: Sequence[Transition], before: Place) -> Rebalance:
        first, last = moves[0], moves[-1]
        is_over = last.to_state not in REBALANCING
        began = first.at
        if is_over and last.rebalance_ms is not None:
            # The story may begin in the middle of it.
            began = min(began, last.at - timedelta(milliseconds=last.rebalance_ms))
        joins = self._joined(max((began, -1), before), last.place)
        phases = _phases(joins)
        come, gone = (bisect_right(times, last.at) for times in (self._come_times, self._gone_times))
        return Rebalance(
            began,
            last.at if is_over else None,
            moves,
            self._who(first),
            phases[-1][-1] if phases and len(phases[-1]) > 1 else None,
            joins,
            come - gone if is_over else None,
        )

    def _who(self, move: Transition) -> list[str]:
        """The members that made the group rebalance: those that went or joined in that very moment."""
        gone = [each.member_id for each in self._went(move.at, move.at) if each.reason != "replaced"]
        joined = [each.member_id for each in self._joined((move.at, -1), move.place)]
        if move.cause == "unknown":
            return [*gone, *joined]
        is_of_a_join = move.cause in _OF_A_JOIN
        # Others may have gone or joined in the same millisecond, and for another reason.
        named = [each for each in (joined if is_of_a_join else gone) if each in move.reason]
        if not named and move.to_state in ON_THE_WAY:
            # It neither joined nor went: it reads other topics, or left for a while.
            return [each for each in self.names.ids if move.reason.startswith(f"{each} ")]
        return named or (joined[-1:] if is_of_a_join else gone)

    # -- sentences ---------------------------------------------------------------------------------------

    def _begin(self, move: Transition) -> Sentence:
        cause = move.cause or "unknown"
        if move.to_state == ConsumerState.RECONCILING:
            text = "A static member left for a while"
        else:
            is_epoch = move.to_state == ConsumerState.ASSIGNING
            what = f"Epoch {move.generation_id} began" if is_epoch else "A join phase began"
            because = (_BECAUSE_OF_CONSUMERS if is_epoch else _BECAUSE).get(cause)
            text = f"{what}: {clean(cause)}" if because is None else f"{what}, because {because}"
            text = _UNKNOWN if cause == "unknown" else text
        by = f", on a request of {clean(move.principal)}" if move.principal else ""
        reason = f". The log says: {clean(move.reason)}" if move.reason else ""
        who = self._who(move)
        return Sentence(
            move.at, f"{text}{by}{reason}.", move.event_id or None, move.log_offset, who[0] if who else None
        )

    def _middle(self, move: Transition) -> Sentence:
        rows = self._generations.get((move.at, move.generation_id), [])
        leader = next((self.names.name(each.member_id) for each in rows if each.is_leader), None)
        text = f"The join phase ended, and generation {move.generation_id} began."
        if rows:
            text += f" It has {counted(len(rows), 'member')}."
        if leader is not None:
            text += f" {leader} leads and divides the work."
        return _of_move(move, text)

    def _divided(self, move: Transition) -> Sentence:
        return _of_move(move, f"The coordinator divided the work for epoch {move.generation_id}.")

    def _held(self, since: datetime, until: datetime, *, is_over: bool) -> Iterator[Sentence]:
        """The partitions that others waited for: by whom, for what, how long. The longest have a sentence."""

        def length(wait: Waited) -> timedelta:
            return (wait.until or until) - _since(wait)

        # A wait begins and ends in a rebalance.
        begun = between(self._waits, since, until, _since)
        waits = (each for each in begun if each.until is None or each.until != each.since)
        by_length = sorted(waits, key=length, reverse=True)
        for each in by_length[:_NAMED]:
            what = owned(each.partitions, units=False)[0]
            holder, waiting = self.names.name(each.holder_id), self.names.name(each.member_id)
            if each.until is None and not is_over:
                at = f"{_since(each).astimezone(UTC):%H:%M:%S}"
                text = f"{holder} still holds {what}, which {waiting} waits for, since {at}."
            else:
                took = span_of_time(length(each))
                text = f"{holder} still held {what}, which {waiting} waited for, for {took}."
            place = self._places.get(each.begun_by)
            yield Sentence(_since(each), text, each.begun_by or None, place, each.holder_id)
        if more := by_length[_NAMED:]:
            told = f"{counted(len(more), 'other member')} waited for others for a shorter time."
            yield Sentence(_since(more[0]), told, more[0].begun_by or None)

    def _end(self, rebalance: Rebalance) -> Iterator[Sentence]:
        move = rebalance.moves[-1]
        if rebalance.ended is None:
            yield _of_move(move, "The group still rebalances, as far as this story goes.")
            return
        took = rebalance.took_ms
        length = f" after {span_of_time(timedelta(milliseconds=took))}" if took is not None else ""
        unknown = "" if took is not None else " How long it took is not known: nobody wrote down its begin."
        state = clean(move.to_state)
        if move.to_state == GroupState.STABLE and rebalance.is_of_consumers:
            what = f"Each member had what it is to have, and the group was Stable again{length}."
        elif move.to_state == GroupState.STABLE:
            what = f"The assignment arrived, and the group was Stable again{length}."
        elif move.to_state == GroupState.EMPTY:
            what = f"No members were left, and the group was Empty{length}."
        else:
            what = f"The group was {state}{length}."
        yield _of_move(move, what + unknown)

    def _departures(self, since: datetime, until: datetime) -> Iterator[Sentence]:
        gone = self._went(since, until)
        yield from (self._departure(each) for each in gone[:_NAMED])
        if more := gone[_NAMED:]:
            told = f"{counted(len(more), 'other member')} went or restarted."
            yield Sentence(_until(more[-1]), told, more[-1].ended_by)

    def _departure(self, member: Membership) -> Sentence:
        name, at = self.names.name(member.member_id), _until(member)
        text = f"{name} {_GONE.get(member.reason or 'unknown', clean(member.reason or ''))}."
        if member.client_reason:
            text += f" In its own words: {clean(member.client_reason)}."
        known = []
        if member.session_timeout_ms is not None:
            known.append(f"Its session is {span_of_time(timedelta(milliseconds=member.session_timeout_ms))}")
        if member.last_commit_ms is not None:
            before = span_of_time(timedelta(milliseconds=member.last_commit_ms))
            offsets = "offsets" if known else "Offsets"
            known.append(f"{offsets} of its partitions were last committed {before} before")
        if known:
            text += f" {', and '.join(known)}."
        return Sentence(at, text, member.ended_by, self._places.get(member.ended_by or ""), member.member_id)

    def _arrivals(self, rebalance: Rebalance) -> Iterator[Sentence]:
        """Members that joined. Of very many it is some new ones, the last, and the number of the others."""
        joins = rebalance.joins
        told = list(joins) if len(joins) <= _NAMED else [each for each in joins if each.is_first][:_NAMED]
        lasts = {phase[-1].event_id: phase for phase in _phases(joins) if len(phase) > 1}
        told += [phase[-1] for phase in lasts.values() if phase[-1] not in told]
        for each in sorted(told, key=attrgetter("place")):
            phase = lasts.get(each.event_id)
            yield self._join(each, None if phase is None else phase[-2])
        if len(joins) > len(told):
            rest = [each for each in joins if each not in told]
            more = f"{counted(len({it.member_id for it in rest}), 'other member')} joined."
            yield Sentence(rest[-1].at, more, rest[-1].event_id, rest[-1].log_offset)

    def _arrival(self, member: Membership) -> Sentence:
        host = f" at {clean(member.client_host)}" if member.client_host else ""
        text = f"{self.names.name(member.member_id)}{host} came into the group."
        assert member.since is not None  # noqa: S101 - the caller has looked
        return Sentence(member.since, text, member.begun_by or None, None, member.member_id)

    def _join(self, join: Join, before: Join | None = None) -> Sentence:
        """`before`: the one before it, if it is the last of its join phase."""
        how = "joined for the first time" if join.is_first else "joined again"
        if join.join_phase_ms is None:
            how = "is a new member"
        text = f"{self.names.name(join.member_id)} {how}"
        if join.join_phase_ms:
            text += f", {span_of_time(timedelta(milliseconds=join.join_phase_ms))} after the join phase began"
        if before is not None and join.join_phase_ms:
            alone = timedelta(milliseconds=join.join_phase_ms - (before.join_phase_ms or 0))
            text += f". It was the last, {span_of_time(alone)} after the one before"
        text += "."
        if join.client_reason:
            text += f" In its own words: {clean(join.client_reason)}."
        return Sentence(join.at, text, join.event_id, join.log_offset, join.member_id)

    # -- rows of a time ----------------------------------------------------------------------------------

    def _joined(self, since: Place, until: Place) -> Sequence[Join]:
        return between(self._story.joins, since, until, attrgetter("place"))

    def _went(self, since: datetime, until: datetime) -> list[Membership]:
        first, last = bisect_left(self._gone_times, since), bisect_right(self._gone_times, until)
        return self._gone[first:last]


def _is_begin(move: Transition) -> bool:
    """Whether a join phase begins, or a new epoch, or a static member is away."""
    return move.to_state == _JOIN_PHASE or (move.to_state in ON_THE_WAY and move.cause is not None)


def _last_move(rebalance: Rebalance) -> datetime:
    return rebalance.moves[-1].at


def _since(wait: Waited) -> datetime:
    assert wait.since is not None  # noqa: S101 - the others are left out
    return wait.since


def _until(member: Membership) -> datetime:
    assert member.until is not None  # noqa: S101 - it is one of those that went
    return member.until


def _place(sentence: Sentence) -> tuple[datetime, int]:
    # A member that goes is told before the move that follows of it.
    return sentence.at, -1 if sentence.log_offset is None else sentence.log_offset


def _of_move(move: Transition, text: str) -> Sentence:
    return Sentence(move.at, text, move.event_id or None, move.log_offset)


def _phases(joins: Iterable[Join]) -> list[list[Join]]:
    """Joins by the join phase that they belong to. Of a group at the brokers that is not known."""
    phases: dict[datetime, list[Join]] = {}
    for each in joins:
        if each.join_phase_ms is not None:
            begun = each.at - timedelta(milliseconds=each.join_phase_ms)
            phases.setdefault(begun, []).append(each)
    return list(phases.values())


def _together(moves: Iterable[Transition]) -> Iterator[list[Transition]]:
    """The moves of each rebalance."""
    run: list[Transition] = []
    for move in moves:
        if move.to_state in REBALANCING:
            run.append(move)
        elif run:
            yield [*run, move]
            run = []
        elif move.cause is not None and move.from_state not in AT_REST:
            # The story begins behind its begin.
            yield [move]
    if run:
        yield run
