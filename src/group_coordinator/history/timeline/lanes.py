"""The members, each in a lane: when it was in, what it owned, how it went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from group_coordinator.client.work import WorkUnits
from group_coordinator.history.rows import Join
from group_coordinator.history.spans import Assignment, Membership
from group_coordinator.history.timeline.condensing import marks, narrow_with, together
from group_coordinator.history.timeline.pieces import SEVERAL, Bar, Block, Lane, Mark, Place
from group_coordinator.history.timeline.text import clean, counted, number_range, owned, short_id
from group_coordinator.history.timeline.view import ALWAYS, NEVER, View
from group_coordinator.history.timeline.waits import Waited
from group_coordinator.history.timeline.waits import together as waits_together

ENDS = {
    "left": "left",
    "session_expired": "session expired",
    "not_rejoined": "not rejoined",
    "not_synced": "not synced",
    "not_revoked": "not revoked",
    "replaced": "restarted",
    "group_full": "group full",
    "unknown": "gone, and nobody knows why",
}
_MARKS_APART = 9.0
_ENDS_APART = 14.0


def lanes(view: View, most: int) -> tuple[list[Lane], int]:
    """The members in the order in which they came, and how many others there are.

    Of more than `most` those are left out that were in for the shortest time.
    """
    every = _rows_of_lanes(view)
    seen = [sum(view.place(each).width for each in rows.memberships) for rows in every]
    by_time = sorted(range(len(every)), key=lambda i: -seen[i])
    shown = [every[i] for i in sorted(by_time[:most])]
    narrow = narrow_with(len(shown), view.axis.right - view.axis.left)
    return [_lane(rows, view, narrow) for rows in shown], len(every) - len(shown)


class _Rows(NamedTuple):
    """The rows of one lane."""

    memberships: list[Membership]
    assignments: list[Assignment]
    joins: list[Join]
    waits: list[Waited]

    @property
    def member_ids(self) -> list[str]:
        """The members' ids, in the order in which they came."""
        ids = [each.member_id for each in self.memberships]
        ids += [each.member_id for each in self.assignments]
        ids += [each.member_id for each in self.joins]
        return list(dict.fromkeys(ids))


def _rows_of_lanes(view: View) -> list[_Rows]:
    every: list[_Rows] = []
    of_instance: dict[str, _Rows] = {}
    of_member: dict[str, _Rows] = {}

    def lane_of(member_id: str) -> _Rows:
        if member_id not in of_member:
            of_member[member_id] = _Rows([], [], [], [])
            every.append(of_member[member_id])
        return of_member[member_id]

    def arrival(member: Membership) -> tuple[datetime, str, str]:
        return member.since or ALWAYS, view.client_id(member.member_id), member.member_id

    for member in sorted(filter(view.shows, view.story.memberships), key=arrival):
        instance_id = view.instance_id(member.member_id)
        before = of_instance.get(instance_id) if instance_id else None
        if before is not None and _follows(member, before.memberships[-1]):
            of_member[member.member_id] = before
        lane_of(member.member_id).memberships.append(member)
        if instance_id:
            of_instance[instance_id] = of_member[member.member_id]
    for given in filter(view.shows, view.story.assignments):
        lane_of(given.member_id).assignments.append(given)
    for join in (each for each in view.story.joins if view.axis.since <= each.at <= view.axis.until):
        lane_of(join.member_id).joins.append(join)
    for wait in waits_together(filter(view.shows, view.story.waits)):
        lane_of(wait.member_id).waits.append(wait)
    return every


def _follows(member: Membership, before: Membership) -> bool:
    return before.until is not None and member.since is not None and before.until <= member.since


def _lane(rows: _Rows, view: View, narrow: float) -> Lane:
    newest = rows.memberships[-1].member_id if rows.memberships else rows.member_ids[0]
    client_id, instance_id = view.client_id(newest), view.instance_id(newest)
    runs = len(rows.memberships)
    details = [f"{runs} runs" if runs > 1 else short_id(newest, instance_id, client_id)]
    if instance_id is not None:
        details.insert(0, "static" if instance_id == client_id else f"static {clean(instance_id)}")
    return Lane(
        clean(client_id) or clean(newest),
        " · ".join(details),
        list(_bars(rows.memberships, view, narrow)),
        list(_blocks(rows, view, narrow)),
        list(_joins(rows.joins, view, max(_MARKS_APART, 3 * narrow))),
        list(_ends(rows.memberships, view)),
        list(_waits(rows.waits, view, narrow)),
    )


# -- membership --------------------------------------------------------------------------------------------


def _bars(memberships: Iterable[Membership], view: View, narrow: float) -> Iterator[Bar]:
    for run in together(memberships, view.place, narrow):
        first, last = run[0], run[-1]
        is_open = (
            first.since is None or first.since < view.axis.since,
            last.until is None or last.until > view.axis.until,
        )
        lines = _about(first, view) if len(run) == 1 else [f"{len(run)} memberships", view.when(first, last)]
        yield Bar(view.places(first, last), is_open, lines, len(run))


def _about(member: Membership, view: View) -> list[str]:
    client_id, instance_id = view.client_id(member.member_id), view.instance_id(member.member_id)
    lines = [f"member {member.member_id}"]
    if client_id:
        lines.append(f"client {client_id}" + (f" at {member.client_host}" if member.client_host else ""))
    if instance_id:
        lines.append(f"static member {instance_id}")
    return [*lines, f"in the group {view.when(member, member)}"]


def _waits(waits: Iterable[Waited], view: View, narrow: float) -> Iterator[Bar]:
    for run in together(waits, view.place, narrow):
        first, last = run[0], run[-1]
        lines = [f"{len(run)} waits for others", view.when(first, last)]
        if len(run) == 1:
            what = owned(first.partitions, units=False)[0]
            verb = "still holds" if first.until is None else "still held"
            lines = [f"waits for {what}, which {view.name(first.holder_id)} {verb}", view.when(first, first)]
        yield Bar(view.places(first, last), (False, last.until is None), lines, len(run))


def _joins(joins: Iterable[Join], view: View, apart: float) -> Iterator[Mark]:
    points = []
    for join in joins:
        kind = "joined" if join.is_first else "rejoined"
        line = f"{kind} at {view.write(join.at)}"
        if join.join_phase_ms:
            line += f", {join.join_phase_ms:,} ms into the join phase"
        lines = [line, f"requested by {join.principal}"] if join.principal else [line]
        if join.client_reason:
            lines.append(f"in its own words: {join.client_reason}")
        points.append(Mark(view.axis.x(join.at), kind, lines))
    # That one is new matters more than that others joined again.
    return marks(points, apart, min)


def _ends(memberships: Iterable[Membership], view: View) -> Iterator[Mark]:
    points = []
    for each in memberships:
        if each.until is None or each.until > view.axis.until:
            continue
        kind = each.reason if each.reason is not None and each.reason in ENDS else "unknown"
        reason = [f"in its own words: {each.client_reason}"] if each.client_reason else []
        points.append(
            Mark(view.axis.x(each.until), kind, [f"{ENDS[kind]} at {view.write(each.until)}", *reason])
        )
    return marks(points, _ENDS_APART, lambda kinds: kinds.pop() if len(kinds) == 1 else SEVERAL)


# -- what was owned ----------------------------------------------------------------------------------------


class _Given(NamedTuple):
    """All that a member was given at once."""

    since: datetime | None
    until: datetime | None
    generation_id: int
    partitions: list[tuple[str | None, int | None]]


def _blocks(rows: _Rows, view: View, narrow: float) -> Iterator[Block]:
    member_ids = set(rows.member_ids)
    for run in together(_given_at_once(rows.assignments), view.place, narrow):
        leads = [view.generations.leader(each.generation_id, each.since) in member_ids for each in run]
        if len(run) == 1:
            yield _block(run[0], view, leads=leads[0])
        else:
            yield _several(run, view, sum(leads))


def _given_at_once(assignments: Iterable[Assignment]) -> Iterator[_Given]:
    """What a member had at once, one after the other: some of it may have come or gone before the rest."""
    found: dict[tuple[datetime, datetime, int], list[tuple[str | None, int | None]]] = {}
    for each in assignments:
        key = (each.since or ALWAYS, each.until or NEVER, each.generation_id)
        found.setdefault(key, []).append((each.topic, each.partition))
    times = sorted({time for since, until, _ in found for time in (since, until)})
    waiting, now = sorted(found, reverse=True), list[tuple[datetime, datetime, int]]()
    for since, until in pairwise(times):
        now = [each for each in now if each[1] > since]
        while waiting and waiting[-1][0] <= since:
            now.append(waiting.pop())
        if now:
            partitions = [what for each in now for what in found[each]]
            begin, end = (None if since == ALWAYS else since), (None if until == NEVER else until)
            yield _Given(begin, end, max(each[2] for each in now), partitions)


def _block(given: _Given, view: View, *, leads: bool) -> Block:
    is_units = view.generations.protocol_type(given.generation_id, given.since) == WorkUnits.protocol_type
    labels = owned(given.partitions, units=is_units)
    number = "epoch" if view.kinds.is_consumer(given.since) else "generation"
    lines = [
        f"{number} {given.generation_id}, leader" if leads else f"{number} {given.generation_id}",
        f"owned {labels[0]} ({labels[1]})",
        view.when(given, given),
    ]
    return Block(view.place(given), labels, lines, leads, given.generation_id % 2, number=number)


def _several(run: Sequence[_Given], view: View, led: int) -> Block:
    number = "epoch" if view.kinds.is_consumer(run[0].since) else "generation"
    most = counted(max(len(each.partitions) for each in run), "partition")
    lines = [
        f"{len(run)} {number}s: {number_range(each.generation_id for each in run)}",
        f"owned at most {most} at once",
        view.when(run[0], run[-1]),
    ]
    if led:
        lines.append(f"leader of {led} of them")
    place: Place = view.places(run[0], run[-1])
    return Block(place, [f"{len(run)}x"], lines, led > 0, 0, len(run), number)
