"""Checks of the whole story when it is over, as pure functions over the records of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from group_coordinator.coordinator_state.classic.states import TRANSITIONS, GroupState
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    MemberAdded,
    MemberRemoved,
    OffsetsCommitted,
    StateChanged,
)
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.demo.observer import partitions_in
from group_coordinator.demo.store import Ownership, StoredOrder

_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Outage:
    """The time without a coordinator, and the group's picture before and after it.

    The next coordinator answered at `answered_ms`; up to `to_ms` the workers were watched.
    """

    from_ms: int
    answered_ms: int
    to_ms: int
    before: GroupPicture
    after: GroupPicture


@dataclass(frozen=True, kw_only=True)
class History:
    """All that was recorded. `killed`: name of the worker that was killed; `log_end`: partition -> offset.

    `brokers_events` are of the group at the broker, whose one member was killed.
    """

    written: Collection[int]
    log_end: Mapping[int, int]
    orders: Sequence[StoredOrder]
    ownership: Sequence[Ownership]
    events: Sequence[AnyEvent]
    outage: Outage
    killed: str
    end: GroupPicture | None
    brokers_events: Sequence[AnyEvent]
    killed_at_broker: str


class Check(NamedTuple):
    """A claim, whether it held, and the numbers behind it."""

    claim: str
    held: bool
    detail: str


def run_checks(history: History) -> list[Check]:
    """Make all checks."""
    return [check(history) for check in CHECKS]


# -- orders ----------------------------------------------------------------------------------------------


def every_order_processed(history: History) -> Check:
    """Nothing that Kafka acknowledged may be missing; what is there twice is counted."""
    times = Counter(order.number for order in history.orders)
    missing = set(history.written) - times.keys()
    repeated = sum(count > 1 for count in times.values())
    detail = f"{len(history.written)} written, {len(missing)} missing, {repeated} processed twice"
    return Check("every order was processed", bool(history.written) and not missing, detail)


def repeated_after_the_kill_only(history: History) -> Check:
    """Only a worker that is killed between a result and its commit leaves orders to process again."""
    workers = defaultdict(list)
    for order in history.orders:
        workers[order.number].append(order.worker)
    repeated = {number: who for number, who in workers.items() if len(who) > 1}
    wrong = {number for number, (first, *others) in repeated.items() if first != history.killed or others[1:]}
    detail = f"{len(repeated)} that {history.killed} had not committed, {_few(wrong, 'other')}"
    return Check("orders were repeated for the kill only", not wrong, detail)


def committed_to_the_end(history: History) -> Check:
    """The last owners committed everything that there is."""
    committed = {
        partition.partition_index: partition.committed_offset
        for event in history.events
        if isinstance(event, OffsetsCommitted)
        for topic in event.topics
        for partition in topic.partitions
    }
    lags = {p: end - committed.get(p, 0) for p, end in history.log_end.items() if end != committed.get(p, 0)}
    behind = {f"{lag} in partition {partition}" for partition, lag in lags.items()}
    commits = sum(isinstance(event, OffsetsCommitted) for event in history.events)
    detail = f"{commits} commits, {_few(behind, 'lag')}"
    return Check("all that was processed is committed", bool(committed) and not behind, detail)


def processed_during_outage(history: History) -> Check:
    """Workers need the coordinator for a rebalance only."""
    outage = history.outage
    survivors = {member.client_id for member in outage.before.members}
    counts = Counter(o.worker for o in history.orders if outage.from_ms <= o.at_ms <= outage.to_ms)
    detail = ", ".join(f"{worker} {counts[worker]}" for worker in sorted(survivors))
    held = bool(survivors) and all(counts[worker] for worker in survivors)
    return Check("work went on without the coordinator", held, f"orders meanwhile: {detail}")


# -- owners ----------------------------------------------------------------------------------------------


def one_owner_say_workers(history: History) -> Check:
    """One owner at a time, by what workers were told and by what they did."""
    owners = defaultdict(set)
    for told in history.ownership:
        if told.kind == "assigned":
            for partition in told.partitions:
                owners[told.generation, partition].add(told.worker)
    assigned = len(owners)
    for order in history.orders:
        owners[order.generation, order.partition].add(order.worker)
    held = assigned == len(owners)  # nobody worked on what nobody was given
    return _one_owner("one owner at a time, say the workers", owners, held=held)


def one_owner_says_coordinator(history: History) -> Check:
    """One owner at a time, by the assignments that the coordinator handed out."""
    owners = defaultdict(set)
    for event in history.events:
        if isinstance(event, AssignmentPropagated):
            for each in event.assignments:
                for partition in partitions_in(each.assignment):
                    owners[event.generation_id, partition].add(each.member_id)
    return _one_owner("one owner at a time, says the coordinator", owners, held=True)


def _one_owner(claim: str, owners: dict[tuple[int, int], set[str]], *, held: bool) -> Check:
    generations = {generation for generation, _ in owners}
    shared = {
        f"{partition} in generation {generation}"
        for (generation, partition), who in owners.items()
        if len(who) > 1
    }
    detail = f"{len(generations)} generations, {_few(shared, 'partition with two owners')}"
    return Check(claim, held and bool(owners) and not shared, detail)


# -- the group -------------------------------------------------------------------------------------------


def outage_changed_nothing(history: History) -> Check:
    """A dead coordinator expires nobody, and neither does one that comes back."""
    outage = history.outage
    removed = {
        event.client_id
        for event in history.events
        if isinstance(event, MemberRemoved) and outage.from_ms <= event.at_ms <= outage.to_ms
    }
    same_members = _member_ids(outage.before) == _member_ids(outage.after)
    same_generation = outage.before.generation_id == outage.after.generation_id
    seconds = (outage.answered_ms - outage.from_ms) / 1000
    detail = f"{seconds:.0f} s without, {_few(removed, 'member removed')}, " + (
        f"still generation {outage.after.generation_id}"
        if same_members and same_generation
        else f"generation {outage.before.generation_id} became {outage.after.generation_id}, or ids changed"
    )
    held = not removed and same_members and same_generation and bool(outage.before.members)
    return Check("the coordinator's death cost nobody its place", held, detail)


def one_session_expired(history: History) -> Check:
    """Only the worker that was killed went silent."""
    expired = [
        event.client_id
        for event in history.events
        if isinstance(event, MemberRemoved) and event.reason == "session_expired"
    ]
    detail = f"expired: {', '.join(expired) or 'none'}"
    return Check("only the killed worker's session expired", expired == [history.killed], detail)


def states_legal(history: History) -> Check:
    """Every move is in the coordinator's own table, and begins where the one before ended."""
    moves = [(event.from_, event.to) for event in history.events if isinstance(event, StateChanged)]
    legal = {(str(state), str(target)) for state, targets in TRANSITIONS.items() for target in targets}
    wrong = {f"{from_} to {to}" for from_, to in moves if (from_, to) not in legal}
    gaps = {f"{to} to {from_}" for (_, to), (from_, _) in pairwise(moves) if to != from_}
    starts_empty = bool(moves) and moves[0][0] == GroupState.EMPTY
    detail = f"{len(moves)} moves, {_few(wrong | gaps, 'illegal one')}"
    return Check("the group's states followed the table", starts_empty and not wrong and not gaps, detail)


def ends_empty(history: History) -> Check:
    """All workers have left."""
    state = history.end.state if history.end else "unknown"
    members = len(history.end.members) if history.end else 0
    return Check(
        "the group ended empty", state == GroupState.EMPTY and not members, f"{state}, {members} members"
    )


def watched_at_broker(history: History) -> Check:
    """The log of a broker says who came and went, and never why."""
    came = [event.client_id for event in history.brokers_events if isinstance(event, MemberAdded)]
    went = [event for event in history.brokers_events if isinstance(event, MemberRemoved)]
    held = came == [event.client_id for event in went] == [history.killed_at_broker]
    detail = f"came: {', '.join(came) or 'nobody'}; went: " + (
        ", ".join(f"{event.client_id}, cause {event.reason}" for event in went) or "nobody"
    )
    return Check("the group at the broker was watched", held, detail)


CHECKS: tuple[Callable[[History], Check], ...] = (
    every_order_processed,
    repeated_after_the_kill_only,
    committed_to_the_end,
    processed_during_outage,
    one_owner_say_workers,
    one_owner_says_coordinator,
    outage_changed_nothing,
    one_session_expired,
    states_legal,
    ends_empty,
    watched_at_broker,
)


def _member_ids(picture: GroupPicture) -> set[str]:
    return {member.member_id for member in picture.members}


def _few(items: Iterable[object], what: str) -> str:
    """Count `items`, and name the first."""
    names = sorted(str(item) for item in items)
    named = f" ({', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''})" if names else ""
    return f"{len(names) or 'no'} {what}{named}"
