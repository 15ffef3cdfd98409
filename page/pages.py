"""The pages, as HTML. All text goes through `said`: most of it comes from strangers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from kafka.structs import TopicPartition

from group_coordinator.client.lag_log import MeasuredPartition, Measurement
from group_coordinator.client.progress import Progress
from group_coordinator.client.work import WorkUnits, assigned_partitions
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.history.spans import Span
from group_coordinator.history.story import Story
from group_coordinator.history.timeline import moves_table, resets_table, timeline_svg
from group_coordinator.history.timeline.text import clean, counted, escape, owned, span_of_time
from group_coordinator.page.lags import Measured
from group_coordinator.page.memory import Listed

__all__ = [
    "SPANS",
    "groups_part",
    "history_list",
    "note",
    "now_part",
    "page",
    "past_part",
    "past_picker",
    "said",
    "search",
    "since_links",
]

MAX_ROWS = 200
"""Groups in the list, and offsets of a group, that one page shows."""
SPANS = {60: "1 min", 300: "5 min", 900: "15 min", 3_600: "1 h", 21_600: "6 h", 86_400: "1 d", 604_800: "7 d"}
"""The ranges that may be seen at once, in seconds."""


def said(value: object) -> str:
    """A value as text in HTML; `-` if there is none."""
    return "-" if value is None or value == "" else escape(clean(str(value)))


def link(path: str, text: str, **query: object) -> str:
    """A link; what is None is left out of its query."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    # The coordinator has written no id that cannot be encoded.
    url = f"{path}?{urlencode(given, errors='replace')}" if given else path
    return f'<a href="{escape(url)}">{said(text)}</a>'


def page(title: str, body: str, *, live: bool = False, history: bool = False) -> str:
    """A whole page. `live`: the browser fetches what is between the part's marks again and again."""
    past = f" {link('/history', 'history')}" if history else ""
    pause = '<button id="pause" type="button" hidden>Pause</button>' if live else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{said(title)}</title>\n"
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n'
        '<link rel="stylesheet" href="/static/page.css">\n'
        + ('<script src="/static/page.js" defer></script>\n' if live else "")
        + f"</head>\n<body>\n<header><nav>{link('/', 'groups')}{past}</nav>"
        f'<span id="fresh" role="status"></span>{pause}</header>\n<main>\n{body}</main>\n</body>\n</html>\n'
    )


def part(body: str) -> str:
    """The parts of a page that are fetched again."""
    return f'<div id="part">\n{body}</div>\n'


def note(text: str, kind: str = "note") -> str:
    """A line that people should read."""
    return f'<p class="{kind}">{said(text)}</p>\n'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    """A table; the cells are HTML. A heading that begins with # is of numbers."""
    kinds = [' class="n"' if heading.startswith("#") else "" for heading in headings]
    head = "".join(
        f"<th{kind}>{said(heading.removeprefix('#'))}</th>"
        for kind, heading in zip(kinds, headings, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return f'<table class="{name}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n'


def utc(at: datetime) -> str:
    """A time for people."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def lag_note(measured: Measured | None, what: str = "Lag") -> str:
    """Since when the lag is known, or why it is not."""
    if measured is None:
        return note(f"{what}: the coordinator is being asked.")
    if measured.problem is not None:
        return note(f"{what}: unknown at {measured.at:%H:%M:%S} UTC: {measured.problem}", "bad")
    return note(f"{what} as of {measured.at:%H:%M:%S} UTC.")


def state(name: str) -> str:
    """A group's state."""
    return f'<span class="state {said(name).lower()}">{said(name)}</span>'


# -- the list ----------------------------------------------------------------------------------------------


def search(text: str, path: str = "/") -> str:
    """A field to choose groups by a part of their ids."""
    return (
        f'<form action="{path}" method="get" class="search"><label>Group ids with '
        f'<input name="q" value="{escape(clean(text))}" autocomplete="off"></label> '
        "<button>Show</button></form>\n"
    )


def groups_part(
    groups: Sequence[Listed],
    chosen: str,
    measured: Measured | None,
    measurements: Mapping[str, Measurement],
    now: datetime,
    problem: str | None,
    *,
    has_forgotten: bool = False,
) -> str:
    """The groups with `chosen` in their ids. `measurements`: those that tell of the present, by group id."""
    found = [each for each in groups if chosen in each.group_id]
    shown = found[:MAX_ROWS]
    fresh = [measurements[each.group_id] for each in shown if each.group_id in measurements]

    def lag(group_id: str) -> Iterable[str]:
        measurement = measurements.get(group_id)
        if measurement is not None:
            yield f"{measurement.records:,}"
        else:
            yield "…" if measured is None else said(_total(measured, group_id))
        if fresh:
            yield said(measurement and _age(measurement))
            yield said(measurement and measurement.trend_in_words)

    rows = [
        (
            link("/group", each.group_id, id=each.group_id),
            state(each.state),
            str(each.generation_id),
            f"{each.members:,}",
            *lag(each.group_id),
            said(_rounded(now - each.since)),
        )
        for each in shown
    ]
    with_age = ("#lag in time", "trend") if fresh else ()
    headings = ("group", "state", "#generation", "#members", "#lag", *with_age, "in this state for")
    lines = "" if problem is None else note(problem, "bad")
    lines += table(headings, rows, "groups")
    if not found:
        lines += note("There is no such group." if chosen else "There are no groups yet.")
    if len(found) > len(rows):
        lines += note(
            f"The first {MAX_ROWS} of {counted(len(found), 'group')}: name a part of an id to see others."
        )
    if has_forgotten:
        lines += note(
            "There are too many groups to show. Those that have not changed for longest are left out: "
            "group-coordinator groups --list has them all."
        )
    if fresh:
        oldest = min(each.measured_timestamp_ms for each in fresh)
        lines += note(
            f"measure-lag has measured {len(fresh):,} of {counted(len(shown), 'group')}, "
            f"{_rounded(now - _time(oldest))} ago or less."
        )
    if fresh and len(fresh) < len(shown):
        lines += lag_note(measured, "Lag of the others")
    return part(lines if fresh else lines + lag_note(measured))


def _age(lag: Measurement | MeasuredPartition) -> str:
    """How old the oldest record is that is left."""
    return (
        f"{_rounded(timedelta(milliseconds=lag.age_ms))}{' or more' if lag.at_least and lag.age_ms else ''}"
    )


def _rounded(span: timedelta) -> str:
    """A time in whole seconds: people compare it with a clock."""
    whole = timedelta(seconds=max(span, timedelta()) // timedelta(seconds=1))
    return span_of_time(whole) if whole else "0 s"


def _total(measured: Measured, group_id: str) -> str | None:
    total = measured.total(group_id)
    return None if total is None else f"{total:,}"


# -- a group now -------------------------------------------------------------------------------------------


def since_links(group_id: str, last: int) -> str:
    """Links that choose how far back the page looks."""
    links = (
        f"<b>{said(text)}</b>" if seconds == last else link("/group", text, id=group_id, last=seconds)
        for seconds, text in SPANS.items()
        if seconds <= 21_600  # noqa: PLR2004 - what is live begins there at the earliest
    )
    return f'<p class="spans">The last {" · ".join(links)}</p>\n'


def now_part(
    story: Story | None,
    picture: GroupPicture | None,
    measured: Measured | None,
    measurement: Measurement | None,
    since: datetime,
    now: datetime,
    problem: str | None,
) -> str:
    """A group as it is, and what has led to that. `measurement`: the newest of its lag, however old."""
    lines = "" if problem is None else note(problem, "bad")
    if story is None:
        return part(lines + note("Nothing is known of this group, now or in the last hours."))
    if picture is None:
        lines += note("The group no longer exists. This is what is known of its end.")
    else:
        lines += (
            f"<p>{state(picture.state)} generation {picture.generation_id}, "
            f"{counted(len(picture.members), 'member')}, since {utc(_time(picture.state_timestamp_ms))} UTC; "
            f"protocol {said(picture.protocol_type)} / {said(picture.protocol_name)}</p>\n"
        )
    lines += f'<div class="picture">{timeline_svg(story, since, now)}</div>\n{downloads(story, since, now)}'
    if picture is not None:
        members = _members(picture) if picture.members else note("There are none.")
        lines += f"<h2>Members</h2>\n{members}"
    lines += f"<h2>Offsets</h2>\n{_offsets(measured, measurement, story.group_id, now)}"
    return part(lines + _happened(story, since, now))


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _members(picture: GroupPicture) -> str:
    def owns(assignment: bytes) -> str:
        partitions = assigned_partitions(picture.protocol_type or "", assignment)
        if partitions is None:
            return "what cannot be read"
        units = picture.protocol_type == WorkUnits.protocol_type
        return owned(partitions, units=units)[0] if partitions else "nothing"

    rows = (
        (
            said(member.client_id) + (" <b>leader</b>" if member.member_id == picture.leader else ""),
            f"<code>{said(member.member_id)}</code>",
            said(member.group_instance_id),
            said(member.client_host),
            f"{member.session_timeout_ms:,} ms",
            said(owns(member.member_assignment)),
        )
        for member in picture.members
    )
    return table(("client", "member id", "instance", "host", "#session", "owns"), rows, "members")


def _offsets(measured: Measured | None, measurement: Measurement | None, group_id: str, now: datetime) -> str:
    """What the coordinator and the brokers were asked, and beside it what `measure-lag` has found."""
    lines, ages = _measured(measurement, now)
    if measured is None or measured.problem is not None:
        return lines + lag_note(measured)
    rows = measured.rows.get(group_id, [])
    if not rows:
        return lines + note(f"Nothing is owned or committed, as of {measured.at:%H:%M:%S} UTC.")

    def number(figure: int | None) -> str:
        return "-" if figure is None else f"{figure:,}"

    def age(row: Progress) -> Iterable[str]:
        found = ages.get(row.partition)
        if ages:
            # It may have caught up since it was measured.
            yield "0 s" if found and row.lag == 0 else said(found and _age(found))
            yield said(found and found.status)

    columns = (
        *("topic", "#partition", "#committed", "#log end", "#lag"),
        *(("#lag in time", "status") if ages else ()),
        "client",
    )
    shown = (
        (
            said(row.partition.topic),
            number(row.partition.partition),
            number(row.offset),
            number(row.log_end),
            number(row.lag),
            *age(row),
            said(row.owner and row.owner.client_id),
        )
        for row in rows[:MAX_ROWS]
    )
    total = measured.total(group_id)
    told = f"As of {measured.at:%H:%M:%S} UTC{'' if total is None else f': {total:,} records behind'}"
    more = f"; the first {MAX_ROWS} of {len(rows):,}" if len(rows) > MAX_ROWS else ""
    return note(f"{told}{more}.") + lines + table(columns, shown, "offsets")


def _measured(
    measurement: Measurement | None, now: datetime
) -> tuple[str, Mapping[TopicPartition, MeasuredPartition]]:
    """What is to be said of a measurement, and its partitions if it tells of the present."""
    if measurement is None:
        return "", {}
    ago = _rounded(now - _time(measurement.measured_timestamp_ms))
    if not measurement.is_fresh(round(now.timestamp() * 1_000)):
        return note(f"measure-lag has not measured this group for {ago}."), {}
    told = f"{counted(measurement.records, 'record')} behind"
    if measurement.age_ms:
        error = (
            "" if measurement.at_least else f" (± {_rounded(timedelta(milliseconds=measurement.error_ms))})"
        )
        told += f", the oldest {_age(measurement)} old{error}"
    return note(f"Measured {ago} ago: {told}; {measurement.trend_in_words}."), measurement.partitions


# -- a group in the past -----------------------------------------------------------------------------------


def past_picker(group_id: str, at: datetime | None, span: int, now: datetime) -> str:
    """A form to choose a moment, and how much around it."""
    value = f"{(at or now).astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
    options = "".join(
        f'<option value="{seconds}"{" selected" if seconds == span else ""}>{said(text)}</option>'
        for seconds, text in SPANS.items()
    )
    return (
        '<form action="/group" method="get" class="past">'
        f'<input type="hidden" name="id" value="{escape(group_id)}">'
        f'<label>At <input type="datetime-local" name="at" step="1" required value="{value}"> UTC</label> '
        f'<label>and around it <select name="span">{options}</select></label> <button>Look</button>'
        + ("" if at is None else f" {link('/group', 'back to now', id=group_id)}")
        + "</form>\n"
    )


def past_part(story: Story, at: datetime, since: datetime, until: datetime, span: int) -> str:
    """The page of what happened around a moment, and of who owned what then."""
    lines = f'<p class="spans">{" · ".join(_around(story.group_id, at, span))}</p>\n'
    lines += f'<div class="picture">{timeline_svg(story, since, until, moment=at)}</div>\n'
    lines += downloads(story, since, until, past=True)
    lines += f"<h2>Who owned what at {utc(at)} UTC</h2>\n{_owners(story, at)}"
    return part(lines + _happened(story, since, until))


def _happened(story: Story, since: datetime, until: datetime) -> str:
    moves = moves_table(story, since, until)
    return f"<h2>What happened</h2>\n{moves}{resets_table(story, since, until)}"


def _around(group_id: str, at: datetime, span: int) -> Iterable[str]:
    lengths = list(SPANS)
    place = lengths.index(span) if span in SPANS else 0

    def there(text: str, shift_s: float, seconds: int) -> str:
        moment = at + timedelta(seconds=shift_s)
        return link("/group", text, id=group_id, at=f"{moment:%Y-%m-%dT%H:%M:%S}", span=seconds)

    yield there("← earlier", -span / 2, span)
    yield there("later →", span / 2, span)
    if place > 0:
        yield there("closer", 0, lengths[place - 1])
    if place + 1 < len(lengths):
        yield there("further", 0, lengths[place + 1])


def _owners(story: Story, at: datetime) -> str:
    def holds(span: Span) -> bool:
        return (span.since is None or span.since <= at) and (span.until is None or span.until > at)

    types = {each.generation_id: each.protocol_type for each in story.generations}
    rows = []
    for member in filter(holds, story.memberships):
        of_member = [each for each in story.assignments if each.member_id == member.member_id and holds(each)]
        generations = {each.generation_id for each in of_member}
        units = any(types.get(each) == WorkUnits.protocol_type for each in generations)
        what = owned([(each.topic, each.partition) for each in of_member], units=units)[0]
        rows.append(
            (
                said(member.client_id),
                f"<code>{said(member.member_id)}</code>",
                said(member.group_instance_id),
                said(max(generations, default=None)),
                said(what) if of_member else "nothing",
            )
        )
    if not rows:
        return note("The group had no members.")
    return table(("client", "member id", "instance", "#generation", "owned"), rows, "owners")


def downloads(story: Story, since: datetime, until: datetime, *, past: bool = False) -> str:
    """The same picture as a file."""
    query = {
        "id": story.group_id,
        "from": since.astimezone(UTC).isoformat(),
        "to": until.astimezone(UTC).isoformat(),
        "past": "1" if past else None,
    }
    svg, html = link("/timeline.svg", "SVG", **query), link("/timeline.html", "HTML", **query)
    return f'<p class="files">As a file: {svg} · {html}</p>\n'


def history_list(group_ids: Collection[str], chosen: str, now: datetime) -> str:
    """All groups that the history knows, also those that are gone."""
    found = [each for each in group_ids if chosen in each]
    rows = (
        (link("/group", each, id=each, at=f"{now - timedelta(hours=12):%Y-%m-%dT%H:%M:%S}", span=86_400),)
        for each in found[:MAX_ROWS]
    )
    more = note(f"The first {MAX_ROWS} of {counted(len(found), 'group')}.") if len(found) > MAX_ROWS else ""
    return part(table(("group",), rows, "groups") + more)
