"""The list of all groups, and that of the groups of the past."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from group_coordinator.client.lag_log import in_words
from group_coordinator.coordinator_state.events import RebalanceCause
from group_coordinator.history.rows import time_of
from group_coordinator.history.story import LagPoint
from group_coordinator.history.timeline.text import cause_in_words, counted, span_of_time
from group_coordinator.page.answers import Asked, Counted, GroupLine, Groups, HistoryGroups, Totals
from group_coordinator.page.html import (
    Column,
    address,
    choice,
    field,
    hidden,
    link,
    more,
    note,
    part,
    rounded,
    said,
    state,
    table,
    utc,
)
from group_coordinator.page.queries import GroupsQuery, HistoryGroupsQuery
from group_coordinator.page.sides import Sides

_COLUMNS = (
    # Each with what it is sorted by, and the order that is looked at first.
    (Column("group"), "group_id", "asc"),
    (Column("state"), "state", "asc"),
    (Column("for", is_number=True, is_extra=True), "state_timestamp_ms", "asc"),
    (Column("not Stable", is_number=True), "worst", "desc"),
    (Column("rebalances", is_number=True), "rebalances", "desc"),
    (Column("last cause", is_extra=True), "last_cause", "asc"),
    (Column("generation", is_number=True, is_extra=True), "generation_id", "desc"),
    (Column("members", is_number=True), "members", "desc"),
    (Column("lag", is_number=True), "records", "desc"),
    (Column("lag in time", is_number=True), "age_ms", "desc"),
    (Column("trend", is_extra=True), "", ""),
)
_MEASURED = 2
"""The last ones, which are left out where nothing is measured."""
_SIDE = Column("side"), "of", "asc"
"""The one behind the group's, where both sides are shown."""
_TYPE = Column("type", is_extra=True), "group_type", "asc"
"""The one behind these, where there are groups of both types."""
_ASKED = {
    "coordinator": "the coordinator is being asked",
    "brokers": "the brokers are being asked",
    "both": "the coordinator and the brokers are being asked",
}
_LISTED = {
    "coordinator": "group-coordinator groups --list has them all",
    "brokers": "kafka-consumer-groups.sh --list has them all",
    "both": "group-coordinator groups --list and kafka-consumer-groups.sh --list have them all",
}
_FULL = {"asc": "ascending", "desc": "descending"}
_LEAST_PERCENT = 0.1
_LINE_WIDTH, _LINE_HEIGHT, _LINE_POINTS = 96, 18, 32


def search(text: str, path: str, label: str, fields: str = "", **others: str) -> str:
    """A form to choose groups; what else was chosen stays. `fields`: more of them, as HTML."""
    kept = hidden({name: each for name, each in others.items() if each})
    return (
        f'<form action="{path}" method="get" role="search" class="search">{field(label, "q", text)}'
        f"{fields}{kept}<button>Search</button></form>\n"
    )


def groups_form(query: GroupsQuery) -> str:
    """The form to choose groups of the list. Fields that are seldom needed are folded."""
    causes = {"": "any", **{each.value: cause_in_words(each) for each in RebalanceCause}}
    fields = (
        choice("Rebalanced in the last day because", "cause", query.cause or "", causes)
        + field("With member", "member", query.member)
        + field("With topic", "topic", query.topic)
    )
    is_open = " open" if query.cause or query.member or query.topic else ""
    folded = f'<details class="choice"{is_open}><summary>More</summary><div>{fields}</div></details>'
    kept = {name: it for name, it in _chosen(query).items() if name in ("state", "of", "sort", "order")}
    return search(query.q, "/", "Group or member", folded, **kept)


def groups_part(found: Groups, query: GroupsQuery, sides: Sides) -> str:
    """The groups that were asked for."""
    status, of = found.status, "both" if sides.are_both else sides.first.of
    as_of = time_of(status.as_of_ms)
    lines = "" if status.problem is None else note(status.problem, "bad")
    lines += _totals(status.totals, query)
    if found.groups:
        is_measured = status.totals.measured > 0
        shown = _COLUMNS if is_measured else _COLUMNS[:-_MEASURED]
        has_types = len(status.totals.types) > 1
        names = (shown[0], *((_SIDE,) if sides.are_both else ()), *((_TYPE,) if has_types else ()))
        shown = (*names, *shown[1:])
        columns = [_column(*each, query) for each in shown]
        rows = (
            list(_row(each, found.lag_asked, sides, has_types=has_types))[: len(columns)]
            for each in found.groups
        )
        lines += table(columns, rows, "groups", "Groups")
        lines += more("/", query.offset, len(found.groups), found.matching, query.limit, **_chosen(query))
    else:
        lines += _nothing(found, query, of)
    if status.has_forgotten:
        lines += note(
            "There are too many groups to show. Those that have not changed for longest are left out: "
            f"{_LISTED[of]}."
        )
    lines += _since(found.counted)
    lines += _how_lag_is_known(found.groups, found.lag_asked, as_of, of)
    return part(lines, fresh(status.problem, as_of))


def _since(counted: Counted) -> str:
    """The time since which rebalances count, and why it is not a day."""
    told = f"Rebalances, and the time not Stable, count since {utc(time_of(counted.since_ms))} UTC"
    if counted.problem is None:
        return note(f"{told}.")
    return note(f"{told}, because the history cannot be read: {counted.problem}", "bad")


def fresh(problem: str | None, as_of: datetime) -> str:
    """The age of what is shown, in a word."""
    return "live" if problem is None else f"as of {as_of:%H:%M:%S} UTC"


def _nothing(found: Groups, query: GroupsQuery, of: str) -> str:
    if found.matching:
        return more("/", query.offset, 0, found.matching, query.limit, **_chosen(query))
    if query.q or query.state or query.of or query.cause or query.member or query.topic:
        return note(
            "There is no such group now. Shorten the search, which looks at ids of groups, and at the ids, "
            "clients, instances and hosts of members; or look for it in the history."
        )
    if of == "brokers":
        return note("There are no groups at the brokers yet. One is there as soon as a client commits.")
    return note(
        "There are no groups yet. One is there as soon as a member joins: start a client of this "
        "coordinator, or point bootstrap.servers of a Kafka client at the gateway."
    )


def _chosen(query: GroupsQuery) -> dict[str, str]:
    """What was chosen, as far as it is not what everybody gets."""
    given = {
        "q": query.q,
        "state": query.state,
        "of": query.of,
        "cause": query.cause,
        "member": query.member,
        "topic": query.topic,
        "sort": query.sort,
        "order": query.order,
    }
    usual = {"sort": "worst", "order": "desc" if query.sort == "worst" else None}
    return {name: value for name, value in given.items() if value and value != usual.get(name)}


def _totals(totals: Totals, query: GroupsQuery) -> str:
    """All groups together, each state with a link that chooses it."""
    chosen = _chosen(query) | {"state": None, "of": query.of}
    every = counted(totals.groups, "group")
    all_of_all = address("/", **chosen | {"of": None})
    chips = [f'<li><a href="{all_of_all}"{_current(not (query.state or query.of))}>{every}</a></li>']
    for side, number in totals.sides.items() if len(totals.sides) > 1 else ():
        url = address("/", **_chosen(query) | {"of": side})
        chips.append(f'<li><a href="{url}"{_current(query.of == side)}>{side} {number:,}</a></li>')
    for name, number in totals.states.items():
        url = address("/", **chosen | {"state": name})
        chips.append(f'<li><a href="{url}"{_current(query.state == name)}>{state(name)} {number:,}</a></li>')
    chips.append(f"<li>{counted(totals.members, 'member')}</li>")
    if totals.records is not None:
        chips.append(f"<li>{counted(totals.records, 'record')} behind</li>")
    return f'<ul class="totals" aria-label="All groups">{"".join(chips)}</ul>\n'


def _current(is_chosen: bool) -> str:  # noqa: FBT001 - it is what is said
    return ' aria-current="true"' if is_chosen else ""


def _column(column: Column, sort: str, first: str, query: GroupsQuery) -> Column:
    if not sort:
        return column
    is_sorted = query.sort == sort
    order = first if not is_sorted else {"asc": "desc", "desc": "asc"}[query.direction]
    url = address("/", **_chosen(query) | {"sort": sort, "order": order})
    return column._replace(sort=url, sorted_by=_FULL[query.direction] if is_sorted else "")


def _row(each: GroupLine, asked: Asked | None, sides: Sides, *, has_types: bool) -> Iterable[str]:
    side = sides.of(each.of)
    yield link("/group", each.group_id, **sides.where(each.group_id, each.of))
    if sides.are_both:
        yield each.of
    if has_types:
        yield said(each.group_type)
    yield state(each.state)
    yield rounded(side.as_of() - time_of(each.state_timestamp_ms))
    yield _not_stable(each)
    yield f"{each.rebalances:,}"
    yield "" if each.last_cause is None else said(cause_in_words(each.last_cause))
    yield f"{each.generation_id:,}"
    yield f"{each.members:,}"
    lag = each.lag
    if lag is None:
        yield said("", "…" if asked is None else "unknown")
        yield said("", "not measured")
        yield ""
        return
    yield f"{lag.records:,}"
    if lag.age_ms is None:
        yield said("", "not measured")
        yield ""
        return
    yield age_in_words(lag.age_ms, at_least=lag.at_least)
    where_it_goes = in_words(lag.trend or "", lag.clear_in_ms, lag.lost_records, lag.lost_in_ms)
    yield f"{_line(side.points(each.group_id))}{said(where_it_goes)}"


def _not_stable(each: GroupLine) -> str:
    """The time that a group was not Stable, and its share; nothing if there was none."""
    if each.not_stable_ms is None or each.not_stable_percent is None:
        return said("", "unknown") if each.rebalances else ""
    if not each.not_stable_ms:
        return ""
    percent = each.not_stable_percent
    share = f"{percent:.1f} %" if percent >= _LEAST_PERCENT else f"< {_LEAST_PERCENT} %"
    return f"{said(span_of_time(timedelta(milliseconds=each.not_stable_ms)))} · {said(share)}"


def _line(points: Sequence[LagPoint]) -> str:
    """The lag of the last measurements as a small line; its greatest value is at the top."""
    each = max(1, -(-len(points) // _LINE_POINTS))
    values = [max(it.records for it in points[at : at + each]) for at in range(0, len(points), each)]
    if len(values) < 2:  # noqa: PLR2004 - a line has two ends
        return ""
    most, step = max(*values, 1), _LINE_WIDTH / (len(values) - 1)
    room = _LINE_HEIGHT - 2
    path = "L".join(
        f"{number * step:.0f} {1 + room - room * value / most:.1f}" for number, value in enumerate(values)
    )
    return (
        f'<svg class="line" width="{_LINE_WIDTH}" height="{_LINE_HEIGHT}" aria-hidden="true">'
        f'<path d="M{path}"/></svg> '
    )


def _how_lag_is_known(groups: Sequence[GroupLine], asked: Asked | None, as_of: datetime, of: str) -> str:
    measured = [each.lag.at_ms for each in groups if each.lag is not None and each.lag.age_ms is not None]
    lines = ""
    if measured:
        ago = rounded(as_of - time_of(min(measured)))
        some = f"{len(measured):,} of {counted(len(groups), 'group')}"
        lines = note(f"measure-lag has measured {some}, {ago} ago or less.")
    if len(measured) == len(groups):
        return lines
    return lines + lag_note(asked, of, "Lag of the others" if measured else "Lag")


def age_in_words(age_ms: int, *, at_least: bool) -> str:
    """The age of the oldest record that is left."""
    return f"{rounded(timedelta(milliseconds=age_ms))}{' or more' if at_least and age_ms else ''}"


def lag_note(asked: Asked | None, of: str, what: str = "Lag") -> str:
    """Since when the lag is known, or why it is not. `of`: a side, or both."""
    if asked is None:
        return note(f"{what}: {_ASKED[of]}.")
    at = f"{time_of(asked.at_ms):%H:%M:%S}"
    if asked.problem is not None:
        return note(f"{what}: unknown at {at} UTC: {asked.problem}", "bad")
    return note(f"{what} as of {at} UTC.")


def history_part(found: HistoryGroups, query: HistoryGroupsQuery, now: datetime, sides: Sides) -> str:
    """The groups that the history of a side knows, also those that are gone."""
    chosen: dict[str, object] = {"q": query.q or None, "of": query.of}
    sides_urls = {it: address("/history", **chosen | {"of": it}) for it in sides.names if sides.are_both}
    chips = (
        f'<li><a href="{url}"{_current(each == found.of)}>{each}</a></li>' for each, url in sides_urls.items()
    )
    ways = "".join(chips)
    lines = f'<ul class="totals" aria-label="Sides">{ways}</ul>\n' if ways else ""
    if not found.group_ids:
        told = "There is no such group in the history." if query.q else "The history knows no groups yet."
        return part(lines + note(told))
    at = f"{now - timedelta(hours=12):%Y-%m-%dT%H:%M:%S}"
    rows = (
        (link("/group", each, **sides.where(each, found.of), at=at, span=86_400),) for each in found.group_ids
    )
    return part(
        lines
        + table([Column("group")], rows, "groups", "Groups of the past and present")
        + more("/history", query.offset, len(found.group_ids), found.matching, query.limit, **chosen)
    )
