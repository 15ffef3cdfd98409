"""What the tables say of a group and what its members saw: whether it is the same, without gap and overlap.

The tables are read as those do who ask them (`HistoryReader.story`); the members' notes are their own, and
have nothing from the events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise

from group_coordinator.history.rows import time_of
from group_coordinator.history.spans import Assignment
from group_coordinator.history.story import Story
from tests.faults.notes import AnyNote, GaveUp, Owned
from tests.faults.view import Violation

__all__ = ["Generations", "compare", "seen", "told"]

Generations = dict[int, dict[str, set[str]]]
"""Generation -> member id -> what it owned, as topic-partition."""


def compare(story: Story, notes: list[AnyNote], partitions: Iterable[str]) -> list[Violation]:
    """All in which the tables differ from what members of the group saw, who shared `partitions`.

    Every rebalance has to be known to all members before the next one begins.
    """
    rules = (
        _generations(story, notes),
        _members(story),
        _owners(story, set(partitions)),
        _times(story, notes),
    )
    return [Violation(rule, story.group_id, detail) for found in rules for rule, detail in found]


def told(story: Story) -> Generations:
    """As the tables tell it: members by one of them, what they owned by another one."""
    owned = defaultdict(set)
    for each in story.assignments:
        owned[each.generation_id, each.member_id].add(_unit(each))
    generations: Generations = defaultdict(dict)
    for row in story.generations:
        generations[row.generation_id][row.member_id] = owned[row.generation_id, row.member_id]
    return dict(generations)


def seen(notes: Iterable[AnyNote]) -> Generations:
    """As the members saw it."""
    generations: Generations = defaultdict(dict)
    for note in notes:
        if isinstance(note, Owned):
            generations[note.generation_id][note.member_id] = set(note.units)
    return dict(generations)


def _unit(owned: Assignment) -> str:
    return f"{owned.topic}-{owned.partition}"


def _generations(story: Story, notes: list[AnyNote]) -> Iterator[tuple[str, str]]:
    by_tables, by_members = told(story), seen(notes)
    for generation_id in sorted(by_tables.keys() | by_members.keys()):
        row, note = by_tables.get(generation_id), by_members.get(generation_id)
        if row != note:
            yield "members saw another generation", f"{generation_id}: {note}, and the tables say {row}"


def _members(story: Story) -> Iterator[tuple[str, str]]:
    """Who is in a generation, or owns something of it, is in the group at that time."""
    generations = told(story)
    for each in story.assignments:
        if each.member_id not in generations.get(each.generation_id, ()):
            yield "who is no member takes part", f"{each}"
    spans = {each.member_id: each for each in story.memberships}
    times = [(each.member_id, each.at, each.at) for each in story.generations]
    times += [(each.member_id, each.since, each.until) for each in story.assignments]
    for member_id, since, until in times:
        member = spans.get(member_id)
        if member is None or not _begins_before(member.since, since) or not _lasts_to(member.until, until):
            yield "who is no member takes part", f"{member_id} from {since} to {until}: {member}"


def _begins_before(since: datetime | None, at: datetime | None) -> bool:
    return since is None or (at is not None and since <= at)


def _lasts_to(until: datetime | None, at: datetime | None) -> bool:
    return until is None or (at is not None and at <= until)


def _owners(story: Story, partitions: set[str]) -> Iterator[tuple[str, str]]:
    """Each has one owner after the other, and nobody in between only if the one before is out."""
    spans = defaultdict(list)
    for each in story.assignments:
        spans[_unit(each)].append(each)
    went = {each.member_id: each.until for each in story.memberships}
    if spans.keys() != partitions:
        yield "other partitions are shared", f"{sorted(spans)}, not {sorted(partitions)}"
    for unit, owners in spans.items():
        owners.sort(key=lambda each: each.since or time_of(0))
        for before, after in pairwise(owners):
            if before.until is None or (after.since and before.until > after.since):
                yield "two own one partition", f"{unit}: {before} and {after}"
            elif before.until != after.since and before.until != went.get(before.member_id):
                yield "nobody owns a partition", f"{unit}, between {before} and {after}"
        if owners[-1].until != went.get(owners[-1].member_id):
            yield "nobody owns a partition", f"{unit}, after {owners[-1]}"
        for begin, end in _stable(story):
            if not _is_covered(owners, begin, end):
                yield "nobody owns a partition", f"{unit}, some time while Stable from {begin} to {end}"


def _stable(story: Story) -> Iterator[tuple[datetime, datetime | None]]:
    """When the group was Stable."""
    moves = story.transitions
    for number, move in enumerate(moves):
        if move.to_state == "Stable":
            yield move.at, moves[number + 1].at if number + 1 < len(moves) else None


def _is_covered(owners: list[Assignment], begin: datetime, end: datetime | None) -> bool:
    reached = begin
    for each in owners:
        if each.since is not None and each.since > reached:
            break
        if each.until is None:
            return True
        reached = max(reached, each.until)
    return end is not None and reached >= end


def _times(story: Story, notes: list[AnyNote]) -> Iterator[tuple[str, str]]:
    """Whoever believes that it owns something does so while the tables say it: it hears of it later, and
    gives it up earlier. Of who has died nobody knows when it stopped believing.
    """
    spans = {(each.generation_id, each.member_id): each for each in story.assignments}
    open_: dict[str, Owned] = {}
    for note in notes:
        if isinstance(note, Owned):
            open_[note.client_id] = note
            span = spans.get((note.generation_id, note.member_id))
            if span is not None and span.since is not None and time_of(note.at_ms) < span.since:
                yield "a member owned it before", f"{note}, and the tables say {span}"
        elif isinstance(note, GaveUp) and (owned := open_.pop(note.client_id, None)):
            span = spans.get((owned.generation_id, owned.member_id))
            if span is not None and span.until is not None and time_of(note.at_ms) > span.until:
                yield "a member owned it longer", f"{owned} until {note.at_ms}, and the tables say {span}"
