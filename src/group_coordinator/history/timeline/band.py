"""The group: in which state it was, and why it rebalanced."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from group_coordinator.coordinator_state.classic.states import GroupState
from group_coordinator.coordinator_state.consumer.states import GroupState as ConsumerState
from group_coordinator.history.rows import ON_THE_WAY, Transition
from group_coordinator.history.timeline.condensing import NARROW, together
from group_coordinator.history.timeline.pieces import OUTAGE, SEVERAL, Segment
from group_coordinator.history.timeline.text import cause_in_words, clean, counted, number_range, span_of_time
from group_coordinator.history.timeline.view import View

_PHASES: dict[str, str] = {
    GroupState.PREPARING_REBALANCE: "join phase",
    GroupState.COMPLETING_REBALANCE: "sync phase",
    ConsumerState.ASSIGNING: "assigning",
    ConsumerState.RECONCILING: "reconciling",
}
_NOT_YET = "no members yet"
"""In place of a state: before the first member joined. Whether the group had offsets is not told."""


class _Phase(NamedTuple):
    """The group in one state. `move`: what brought it there, None if that was before; `who` made it."""

    since: datetime | None
    until: datetime | None
    state: str
    generation_id: int | None
    move: Transition | None
    who: str
    is_of_consumers: bool = False

    @property
    def begins_rebalance(self) -> bool:
        return self.move is not None and _begins(self.move)

    @property
    def because(self) -> str:
        return f"{self.who} {_cause(self.move)}".strip() if self.begins_rebalance else ""

    @property
    def labels(self) -> list[str]:
        if self.state in _PHASES:
            return [_PHASES[self.state], _PHASES[self.state].split()[0]]
        if self.state == GroupState.STABLE and self.generation_id is not None:
            if self.is_of_consumers:
                return [f"epoch {self.generation_id}", f"{self.generation_id}"]
            return [f"generation {self.generation_id}", f"gen {self.generation_id}", f"{self.generation_id}"]
        return [clean(self.state) or "no change is known"]

    def lines(self, view: View) -> list[str]:
        title = f"{_PHASES[self.state]} ({self.state})" if self.state in _PHASES else self.labels[0]
        if self.state == GroupState.STABLE:
            title = f"Stable, {title}"
        lines = [title, view.when(self, self)]
        if self.move is not None and self.move.reason:
            lines.append(f"why: {self.move.reason}")
        if self.move is not None and self.move.principal:
            lines.append(f"requested by {self.move.principal}")
        if self.move is not None and self.move.rebalance_ms is not None:
            lines.append(f"after a rebalance of {self.move.rebalance_ms:,} ms: {_cause(self.move)}")
        return lines


def _begins(move: Transition) -> bool:
    """Whether a rebalance begins: a join phase, or a group of the consumer protocol is on its way again."""
    if move.to_state in ON_THE_WAY:
        return move.from_state not in ON_THE_WAY
    return move.to_state == GroupState.PREPARING_REBALANCE


def _cause(move: Transition | None) -> str:
    cause = (move and move.cause) or "unknown"
    return "for an unknown cause" if cause == "unknown" else clean(cause_in_words(cause))


def segments(view: View) -> Iterator[Segment]:
    """The segments from left to right, without gaps."""
    for run in together(_phases(view), view.place, NARROW):
        begun = [each for each in run if each.begins_rebalance]
        place = view.places(run[0], run[-1])
        if len(begun) > 1:
            yield _several(run, begun, view)
            continue
        # Of one that is narrow as a whole, the join phase is what people look for.
        shown = next((each for each in run if each.state in _PHASES), run[0])
        labels = shown.labels if len(run) == 1 else []
        lines = [line for each in run for line in each.lines(view)]
        yield Segment(place, shown.state, labels, lines, begun[0].because if begun else "")


def outages(view: View) -> Iterator[Segment]:
    """The times in which no coordinator ran, as far as they are on the axis."""
    for each in filter(view.shows, view.story.outages):
        because = f"{OUTAGE} for {span_of_time(each.until - each.since)}"
        yield Segment(view.place(each), OUTAGE, [], [OUTAGE, view.when(each, each)], because)


def _several(run: Sequence[_Phase], begun: Sequence[_Phase], view: View) -> Segment:
    causes = Counter(_cause(each.move) for each in begun)
    told = ", ".join(f"{times}x {cause}" for cause, times in causes.most_common())
    numbers = [each.generation_id for each in run if each.generation_id is not None]
    lines = [
        f"{counted(len(begun), 'rebalance')}: {told}",
        f"{'epochs' if run[0].is_of_consumers else 'generations'} {number_range(numbers)}",
        view.when(run[0], run[-1]),
    ]
    labels = [counted(len(begun), "rebalance"), f"{len(begun)}x"]
    return Segment(view.places(run[0], run[-1]), SEVERAL, labels, lines, told)


def _phases(view: View) -> Iterator[_Phase]:
    """The group's states one after the other, as far as the axis goes."""
    moves = [each for each in view.story.transitions if each.at < view.axis.until]
    if not moves:
        yield _Phase(None, None, "", None, None, "")
        return
    first = moves[0]
    if first.at > view.axis.since:
        # The number of a generation is that of the last one until its successor is complete.
        begins = _begins(first)
        is_new = first.from_state == GroupState.EMPTY and not first.generation_id
        state = _NOT_YET if is_new else first.from_state
        # An epoch has its number at once.
        before = first.generation_id - (first.to_state == ConsumerState.ASSIGNING) if begins else None
        yield _Phase(None, first.at, state, before, None, "", view.kinds.is_consumer(first.at))
    who = _who_by_time(view)
    for move, following in zip(moves, [*moves[1:], None], strict=True):
        until = None if following is None else following.at
        if until is None or until > view.axis.since:
            is_of_consumers = view.kinds.is_consumer(move.at)
            name = who.get(move.at, "")
            yield _Phase(move.at, until, move.to_state, move.generation_id, move, name, is_of_consumers)


def _who_by_time(view: View) -> dict[datetime, str]:
    """Who went, came, or joined again at a time: who made the group rebalance then."""
    found: defaultdict[datetime, list[str]] = defaultdict(list)
    for member in view.story.memberships:
        if member.until is not None:
            found[member.until].append(member.member_id)
    for join in view.story.joins:
        found[join.at].append(join.member_id)
    return {at: view.name(member_ids[0]) for at, member_ids in found.items()}


def summary(view: View, members: int) -> str:
    """It all in one line."""
    moves = [each for each in view.story.transitions if view.axis.since <= each.at < view.axis.until]
    begun = [each for each in moves if _begins(each)]
    parts = [counted(members, "member"), counted(len(begun), "rebalance")]
    if begun:
        causes = Counter(_cause(each) for each in begun)
        parts[-1] += f" ({', '.join(f'{times} {cause}' for cause, times in causes.most_common())})"
    longest = max((each.rebalance_ms or 0 for each in moves), default=0)
    if longest:
        parts.append(f"the longest took {longest:,} ms")
    return clean(" · ".join(parts))
