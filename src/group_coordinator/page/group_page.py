"""The page of a group: as it is now, and around a moment of the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from kafka.structs import TopicPartition

from group_coordinator.client.lag_log import MeasuredPartition, Measurement, loss_in_words
from group_coordinator.client.progress import Progress
from group_coordinator.client.work import WorkUnits
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER
from group_coordinator.coordinator_state.foreign import ForeignJson
from group_coordinator.coordinator_state.responses import GroupPicture, PicturedMember
from group_coordinator.history.rows import ms_of, time_of
from group_coordinator.history.spans import Span
from group_coordinator.history.story import Kinds, Story
from group_coordinator.history.timeline import MemberLink, rebalances_table, resets_table, timeline_svg
from group_coordinator.history.timeline.names import Names
from group_coordinator.history.timeline.text import clean, counted, escape, owned
from group_coordinator.history.timeline.waits import together
from group_coordinator.page.answers import Side
from group_coordinator.page.api import PREFIX
from group_coordinator.page.group_list import age_in_words, fresh, lag_note
from group_coordinator.page.html import (
    Column,
    address,
    choice,
    field,
    hidden,
    link,
    linked,
    note,
    part,
    rounded,
    said,
    scrolled,
    section,
    state,
    table,
    utc,
)
from group_coordinator.page.memory import Kept
from group_coordinator.page.questions import Questions, owned_by, targets_of, when_asked
from group_coordinator.page.sides import Where

MAX_ROWS = 200
"""Members and offsets of a group that one page shows."""
SPANS = {60: "1 min", 300: "5 min", 900: "15 min", 3_600: "1 h", 21_600: "6 h", 86_400: "1 d", 604_800: "7 d"}
"""The ranges that may be seen at once, in seconds."""
_LONGEST_LIVE = 21_600
"""The live view reaches back so many seconds at most."""
_SECTIONS = {
    "timeline": "Timeline",
    "members": "Members",
    "offsets": "Offsets",
    "moves": "What happened",
    "events": "Events",
}
_MAX_EVENTS = 50
_MAX_WAITS = 20
_NOT_SHOWN = ("event_id", "event", "group_id", "at_ms", "request_id")


def since_links(where: Where, last: int) -> str:
    """Links that choose how far back the page looks."""
    links = (
        f"<b>{said(text)}</b>" if seconds == last else link("/group", text, **where, last=seconds)
        for seconds, text in SPANS.items()
        if seconds <= _LONGEST_LIVE
    )
    return f'<p class="spans">The last {" · ".join(links)}</p>\n'


def now_part(questions: Questions, where: Where, last: int) -> str:
    """A group as it is, and what has led to that in the `last` seconds."""
    # Groups stand still while no coordinator runs, and that may be longer than what is shown.
    group_id, as_of = where["group_id"], questions.as_of()
    since = as_of - timedelta(seconds=last)
    problem, picture, story = questions.problem, questions.picture(group_id), questions.story(group_id)
    lines = "" if problem is None else note(problem, "bad")
    if story is None:
        told = "Nothing is known of this group, now or in the last hours."
        return part(lines + note(told) + f"<p>{link('/', 'All groups')}</p>\n", fresh(problem, as_of))
    if picture is None:
        lines += note("The group no longer exists. This is what is known of its end.")
    else:
        lines += _headline(picture, questions.of, where, as_of) + _waits(story)
    member = member_link(where)
    bodies = {"timeline": _picture(story, since, as_of) + downloads(where, since, as_of)}
    if picture is not None:
        # The lag only of groups that are there, because anybody may type any name into the address.
        bodies |= {"members": _members(picture, member), "offsets": _offsets(questions, group_id, as_of)}
    bodies |= {
        "moves": _happened(story, since, as_of, member),
        "events": _events(questions.kept(group_id), where),
    }
    ways = "".join(f'<li><a href="#{name}">{_SECTIONS[name]}</a></li>' for name in bodies)
    lines += f'<nav aria-label="Parts of this page"><ul class="ways">{ways}</ul></nav>\n'
    lines += "".join(section(name, _SECTIONS[name], body) for name, body in bodies.items())
    return part(lines, fresh(problem, as_of))


def _headline(picture: GroupPicture, of: Side, where: Where, as_of: datetime) -> str:
    since = time_of(picture.state_timestamp_ms)
    facts = [
        f"{state(picture.state)} for {rounded(as_of - since)}, since {utc(since)} UTC",
        *_number(picture),
        counted(len(picture.members), "member"),
    ]
    if of == "brokers":
        facts.append("at the brokers")
    elif "of" in where:
        facts.append("at the coordinator")
    if picture.group_type == CONSUMER:
        facts.append("consumer protocol (KIP-848)")
    elif picture.protocol_type:
        facts.append(f"protocol {said(picture.protocol_type)}")
    if picture.protocol_name:
        facts.append(f"assignor {said(picture.protocol_name)}")
    return f'<p class="facts">{" · ".join(facts)}</p>\n'


def _number(picture: GroupPicture) -> Iterable[str]:
    """The generation; or the epoch, and that of the targets if they are older."""
    if picture.group_type != CONSUMER:
        yield f"generation {picture.generation_id:,}"
        return
    yield f"epoch {picture.generation_id:,}"
    assigned = picture.assignment_epoch
    if assigned is not msgspec.UNSET and assigned != picture.generation_id:
        yield f"targets of epoch {assigned:,}"


def _waits(story: Story) -> str:
    """The members that still hold what others wait for, those first that have held it for longest."""
    names = Names(story)
    waits = together(each for each in story.waits if each.until is None)
    lines = []
    for each in waits[:_MAX_WAITS]:
        what = escape(clean(owned(each.partitions, units=False)[0]))
        holder, waiting = (said(names.name(it)) for it in (each.holder_id, each.member_id))
        since = "" if each.since is None else f", since {each.since.astimezone(UTC):%H:%M:%S} UTC"
        lines.append(
            f"<li><b>{holder}</b> still holds {what}, which <b>{waiting}</b> waits for{since}</li>\n"
        )
    if more := waits[_MAX_WAITS:]:
        lines.append(f"<li>{counted(len(more), 'other member')} wait as well</li>\n")
    return (
        f'<ul class="waits" aria-label="Members that others wait for">\n{"".join(lines)}</ul>\n'
        if lines
        else ""
    )


def _picture(story: Story, since: datetime, until: datetime, moment: datetime | None = None) -> str:
    return scrolled(timeline_svg(story, since, until, moment=moment), "Timeline", "picture")


def _members(picture: GroupPicture, link_to: MemberLink) -> str:
    if not picture.members:
        return note("There are none. Offsets stay until they expire, and members may come at any time.")
    is_work = picture.protocol_type == WorkUnits.protocol_type
    owned_here = owned_by(picture)

    is_consumer = picture.group_type == CONSUMER
    targets = targets_of(picture)

    def owns(partitions: Sequence[tuple[str, int]] | None) -> str:
        if partitions is None:
            return said("", "what cannot be read")
        return escape(clean(owned(partitions, units=is_work)[0])) if partitions else said("", "nothing")

    def way(member: PicturedMember) -> Iterable[str]:
        """The member's target, if it has another one than what it owns, and its epoch."""
        if is_consumer:
            has, is_to_have = owned_here[member.member_id], targets.get(member.member_id)
            yield "" if set(has or ()) == set(is_to_have or ()) else owns(is_to_have)
            is_away = member.member_epoch is msgspec.UNSET or member.member_epoch < 0
            yield said("", "away") if is_away else f"{member.member_epoch:,}"

    rows = (
        (
            link_to(member.member_id, said(member.client_id))
            + (" <b>leader</b>" if member.member_id == picture.leader else ""),
            owns(owned_here[member.member_id]),
            *way(member),
            f"<code>{said(member.member_id)}</code>",
            said(member.group_instance_id, "dynamic"),
            said(member.client_host),
            # The brokers' log has none of a member of the consumer protocol.
            rounded(timedelta(milliseconds=member.session_timeout_ms))
            if member.session_timeout_ms
            else said("", "not told"),
        )
        for member in picture.members[:MAX_ROWS]
    )
    columns = (
        *(Column("client"), Column("owns")),
        *((Column("is to own"), Column("epoch", is_number=True)) if is_consumer else ()),
        *(Column("member id"), Column("instance")),
        *(Column("host"), Column("session", is_number=True)),
    )
    every = len(picture.members)
    first = note(f"The first {MAX_ROWS} of {counted(every, 'member')}.") if every > MAX_ROWS else ""
    return first + table(columns, rows, "members", "Members")


def _offsets(questions: Questions, group_id: str, as_of: datetime) -> str:
    """What the coordinator and the brokers were asked, and beside it what `measure-lag` has found."""
    lines, ages = _measured(questions.measurement(group_id), as_of)
    asked = questions.asked(group_id)
    if asked is None or asked.problem is not None:
        return lines + lag_note(None if asked is None else when_asked(asked), questions.of)
    rows = asked.rows.get(group_id, [])
    if not rows:
        return lines + note(f"Nothing is owned or committed, as of {asked.at:%H:%M:%S} UTC.")

    def number(figure: int | None, otherwise: str) -> str:
        return said(None if figure is None else f"{figure:,}", otherwise)

    def age(row: Progress) -> Iterable[str]:
        found = ages.get(row.partition)
        if ages:
            # It may have caught up since it was measured.
            yield "0 s" if found and row.lag == 0 else said(found and _age(found), "not measured")
            loss = found and loss_in_words(found.lost_records, found.lost_in_ms)
            yield said(loss or (found and found.status), "not measured")

    columns = (
        Column("topic"),
        *(Column(name, is_number=True) for name in ("partition", "committed", "log end", "lag")),
        *((Column("lag in time", is_number=True), Column("status")) if ages else ()),
        Column("client"),
    )
    shown = (
        (
            said(row.partition.topic),
            number(row.partition.partition, "none"),
            number(row.offset, "nothing"),
            number(row.log_end, "no log"),
            number(row.lag, "unknown"),
            *age(row),
            said(row.owner and row.owner.client_id, "nobody"),
        )
        for row in rows[:MAX_ROWS]
    )
    total = asked.total(group_id)
    told = f"As of {asked.at:%H:%M:%S} UTC{'' if total is None else f': {total:,} records behind'}"
    more = f"; the first {MAX_ROWS} of {len(rows):,}" if len(rows) > MAX_ROWS else ""
    return note(f"{told}{more}.") + lines + table(columns, shown, "offsets", "Offsets")


def _age(lag: Measurement | MeasuredPartition) -> str:
    return age_in_words(lag.age_ms, at_least=lag.at_least)


def _measured(
    measurement: Measurement | None, now: datetime
) -> tuple[str, Mapping[TopicPartition, MeasuredPartition]]:
    """What is to be said of a measurement, and its partitions if it tells of the present."""
    if measurement is None:
        return "", {}
    ago = rounded(now - time_of(measurement.measured_timestamp_ms))
    if not measurement.is_fresh(ms_of(now)):
        return note(f"measure-lag has not measured this group for {ago}."), {}
    told = f"{counted(measurement.records, 'record')} behind"
    if measurement.age_ms:
        error = (
            "" if measurement.at_least else f" (± {rounded(timedelta(milliseconds=measurement.error_ms))})"
        )
        told += f", the oldest {_age(measurement)} old{error}"
    return note(f"Measured {ago} ago: {told}; {measurement.trend_in_words}."), measurement.partitions


def _events(events: Sequence[Kept], where: Where) -> str:
    """The newest events, the newest first."""
    if not events:
        return note("There were none in the last hours, except for commits of members.")
    rows = (_event(each) for each in reversed(events[-_MAX_EVENTS:]))
    columns = (Column("time (UTC)"), Column("event"), Column("what it says"))
    url = address(f"{PREFIX}/group/events", **where)
    return (
        (note(f"The newest {_MAX_EVENTS}.") if len(events) > _MAX_EVENTS else "")
        + table(columns, rows, "events", "Events")
        + f'<p class="files">For programs: <a href="{url}">JSON</a>, or as they happen at '
        f"<code>{PREFIX}/group/events/stream</code></p>\n"
    )


_fields = ForeignJson[dict[str, Any]](dict[str, Any])


def _event(kept: Kept) -> tuple[str, str, str]:
    fields = _fields.read_or_none(kept.body) or {}
    facts = (
        f"<b>{said(name)}</b> {said(f'{len(value):,}' if isinstance(value, (list, dict)) else value)}"
        for name, value in fields.items()
        if name not in _NOT_SHOWN and value not in (None, "")
    )
    return (f"{time_of(kept.at_ms):%m-%d %H:%M:%S}", said(fields.get("event", "")), " · ".join(facts))


def _happened(story: Story, since: datetime, until: datetime, member: MemberLink) -> str:
    return rebalances_table(story, since, until, member) + resets_table(story, since, until)


def member_link(where: Where, **view: object) -> MemberLink:
    """A function that writes a member's name as a link to all that is known of it. `view`: of which time."""
    return lambda member_id, name: linked("/member", name, **where, member=member_id, **view)


# -- the past ----------------------------------------------------------------------------------------------


def past_picker(where: Where, at: datetime | None, span: int) -> str:
    """A form to choose a moment, and how much around it."""
    value = "" if at is None else utc(at)
    spans = {str(seconds): text for seconds, text in SPANS.items()}
    moment = field("Moment (UTC)", "at", value, "text", 'required placeholder="2026-01-31 14:05" ')
    return (
        '<form action="/group" method="get" class="past">'
        f"{hidden(where)}{moment} {choice('Show', 'span', str(span), spans, ' around it')} "
        "<button>Look at the past</button>"
        + ("" if at is None else f" {link('/group', 'back to now', **where)}")
        + "</form>\n"
    )


def past_part(where: Where, story: Story, at: datetime, since: datetime, until: datetime, span: int) -> str:
    """The page of what happened around a moment, and of who owned what then."""
    lines = f'<p class="spans">{" · ".join(_around(where, at, span))}</p>\n'
    lines += _picture(story, since, until, at) + downloads(where, since, until, past=True)
    member = member_link(where, at=f"{at:%Y-%m-%dT%H:%M:%S}", span=span)
    lines += section("owners", f"Who owned what at {utc(at)} UTC", _owners(story, at, member))
    return part(lines + section("moves", "What happened", _happened(story, since, until, member)))


def _around(where: Where, at: datetime, span: int) -> Iterable[str]:
    lengths = list(SPANS)
    place = lengths.index(span) if span in SPANS else 0

    def there(text: str, shift_s: float, seconds: int) -> str:
        moment = at + timedelta(seconds=shift_s)
        return link("/group", text, **where, at=f"{moment:%Y-%m-%dT%H:%M:%S}", span=seconds)

    yield there("← earlier", -span / 2, span)
    yield there("later →", span / 2, span)
    if place > 0:
        yield there("closer", 0, lengths[place - 1])
    if place + 1 < len(lengths):
        yield there("further", 0, lengths[place + 1])


def _owners(story: Story, at: datetime, link_to: MemberLink) -> str:
    def holds(span: Span) -> bool:
        return (span.since is None or span.since <= at) and (span.until is None or span.until > at)

    number = "epoch" if Kinds(story.transitions).is_consumer(at) else "generation"
    types = {each.generation_id: each.protocol_type for each in story.generations}
    rows = []
    for member in filter(holds, story.memberships):
        of_member = [each for each in story.assignments if each.member_id == member.member_id and holds(each)]
        generations = {each.generation_id for each in of_member}
        units = any(types.get(each) == WorkUnits.protocol_type for each in generations)
        what = owned([(each.topic, each.partition) for each in of_member], units=units)[0]
        rows.append(
            (
                link_to(member.member_id, said(member.client_id, "unknown")),
                escape(clean(what)) if of_member else said("", "nothing"),
                f"<code>{said(member.member_id)}</code>",
                said(member.group_instance_id, "dynamic"),
                said(max(generations, default=None)),
            )
        )
    if not rows:
        return note("The group had no members.")
    columns = (
        *(Column("client"), Column("owned"), Column("member id"), Column("instance")),
        Column(number, is_number=True),
    )
    return table(columns, rows, "owners", "Who owned what")


def downloads(where: Where, since: datetime, until: datetime, *, past: bool = False) -> str:
    """The same picture as a file."""
    query = {
        **where,
        "from": since.astimezone(UTC).isoformat(),
        "to": until.astimezone(UTC).isoformat(),
        "past": "1" if past else None,
    }
    svg, html = link("/timeline.svg", "SVG", **query), link("/timeline.html", "HTML", **query)
    return f'<p class="files">As a file: {svg} · {html}</p>\n'
