"""The pages: which address shows what to people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from http import HTTPStatus
from importlib.resources import files

from group_coordinator.history.story import Story
from group_coordinator.history.timeline import timeline_html, timeline_svg
from group_coordinator.page.answers import Timeline
from group_coordinator.page.group_list import groups_form, groups_part, history_part, search
from group_coordinator.page.group_page import SPANS, now_part, past_part, past_picker, since_links
from group_coordinator.page.html import AT, link, note, page, said
from group_coordinator.page.member_page import MOST_COMMITS, member_part
from group_coordinator.page.queries import (
    GroupsQuery,
    HistoryGroupsQuery,
    HistoryQuery,
    SideQuery,
    TimelineQuery,
)
from group_coordinator.page.questions import FAILURES, Questions
from group_coordinator.page.sides import Sides
from group_coordinator.page.web import Answer, BadQueryError, Query, asked, time_in

_LAST, _SPAN, _LIVE, _DAY = 900, 3_600, 21_600, 86_400
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


class Site:
    """Answers addresses of pages, and of pictures and files."""

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._pages: Mapping[str, Callable[[Query], Answer]] = {
            "/": self._groups,
            "/group": self._group,
            "/member": self._member,
            "/history": self._history,
            "/timeline.svg": self._svg,
            "/timeline.html": self._html,
            **{f"/static/{name}": _static(name, kind) for name, kind in _STATIC.items()},
        }

    def answer(self, path: str, query: Callable[[], Query]) -> Answer:
        """Answer a request."""
        show = self._pages.get(path)
        if show is None:
            return failed(HTTPStatus.NOT_FOUND, "There is no such page.")
        try:
            return show(query())
        except tuple(FAILURES) as error:
            return failed(FAILURES[type(error)], str(error))

    # -- pages -------------------------------------------------------------------------------------------

    def _groups(self, query: Query) -> Answer:
        # A form sends its empty fields as well.
        given = {name: value for name, value in query.items() if name != "part" and value}
        chosen = asked(given, GroupsQuery)
        body = groups_part(self._sides.groups(chosen), chosen, self._sides)
        if "part" in query:
            return _html(body)
        form = groups_form(chosen)
        title = "Groups" if self._sides.are_both else f"Groups{AT[self._sides.first.of]}"
        return self._whole(title, f"<h1>{title}</h1>\n{form}{body}", live=True)

    def _group(self, query: Query) -> Answer:
        group_id, questions = _group_id(query), self._side(query)
        where = self._sides.where(group_id, questions.of)
        heading = f"<h1>{said(group_id, '(empty)')}</h1>\n"
        span = _seconds(query, "span", _SPAN)
        if "at" in query:
            at = time_in("at", query["at"])
            since, until = at - timedelta(seconds=span / 2), at + timedelta(seconds=span / 2)
            story, reach = questions.past_story(group_id, since, until)
            picker = past_picker(where, at, span) + _reach(reach)
            body = picker + past_part(where, story, at, since, until, span)
            return self._whole(f"{group_id} at {at:%Y-%m-%d %H:%M}", heading + body)
        last = _seconds(query, "last", _LAST)
        body = now_part(questions, where, last)
        if "part" in query:
            return _html(body)
        picker = past_picker(where, None, span) if questions.has_history else ""
        return self._whole(group_id, heading + picker + since_links(where, last) + body, live=True)

    def _member(self, query: Query) -> Answer:
        group_id, member_id, questions = _group_id(query), query.get("member", ""), self._side(query)
        where = self._sides.where(group_id, questions.of)
        span = _seconds(query, "span", _DAY)
        commits = None
        if "at" in query:
            at = time_in("at", query["at"])
            since, until = at - timedelta(seconds=span / 2), at + timedelta(seconds=span / 2)
            story: Story | None = questions.past_story(group_id, since, until)[0]
            history = HistoryQuery(
                group_id,
                question="offsets",
                from_=since.isoformat(),
                to=until.isoformat(),
                member=member_id,
                limit=MOST_COMMITS,
            )
            commits = questions.history(history).rows
        else:
            until = questions.as_of()
            since, story = until - timedelta(seconds=_LIVE), questions.story(group_id)
        # It reaches to now.
        past = {
            "member": member_id,
            "at": f"{until - timedelta(seconds=_DAY / 2):%Y-%m-%dT%H:%M:%S}",
            "span": _DAY,
        }
        body = member_part(
            where, member_id, story, (since, until), commits, past if questions.has_history else {}
        )
        if "part" in query:
            return _html(body)
        heading = f"<h1>Member {said(member_id, '(empty)')} of group {said(group_id, '(empty)')}</h1>\n"
        return self._whole(f"{member_id} of {group_id}", heading + body, live="at" not in query)

    def _side(self, query: Query) -> Questions:
        return self._sides.of(asked({"of": query["of"]} if "of" in query else {}, SideQuery).of)

    def _history(self, query: Query) -> Answer:
        chosen = asked(query, HistoryGroupsQuery)
        questions = self._sides.of(chosen.of)
        found = questions.history_groups(chosen)
        form = search(chosen.q, "/history", "Group", of=chosen.of or "")
        body = form + _reach(found.reaches_to) + history_part(found, chosen, questions.now(), self._sides)
        return self._whole("History", f"<h1>Groups of the past and present</h1>\n{body}")

    def _svg(self, query: Query) -> Answer:
        shown = self._timeline(query)
        body = timeline_svg(shown.story, shown.since, shown.until)
        return Answer(
            body.encode(errors="replace"), kind="image/svg+xml; charset=utf-8", headers=_file("timeline.svg")
        )

    def _html(self, query: Query) -> Answer:
        shown = self._timeline(query)
        return _html(timeline_html(shown.story, shown.since, shown.until), _file("timeline.html"))

    def _timeline(self, query: Query) -> Timeline:
        questions, given = self._side(query), {"group_id": _group_id(query)}
        given |= {name: query[name] for name in ("from", "to") if name in query}
        given["past"] = "true" if "past" in query else "false"
        return questions.timeline(asked(given, TimelineQuery))

    def _whole(self, title: str, body: str, *, live: bool = False) -> Answer:
        return _html(
            page(
                title,
                body,
                cluster=self._sides.first.bootstrap_servers,
                live=live,
                history=self._sides.has_history,
            )
        )


def failed(status: HTTPStatus, why: str, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    """A page that says what is wrong."""
    ways = f"<p>{link('/', 'All groups')}</p>\n"
    body = page(status.phrase, f"<h1>{status.phrase}</h1>\n{note(why, 'bad')}{ways}")
    return _html(body, headers)._replace(status=status)


def _html(body: str, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(body.encode(errors="replace"), headers=headers)


def _group_id(query: Query) -> str:
    if "group_id" not in query:
        raise BadQueryError("group_id must be the id of a group")
    return query["group_id"]


def _seconds(query: Query, name: str, default: int) -> int:
    text = query.get(name) or str(default)
    if not (text.isascii() and text.isdecimal()) or int(text) not in SPANS:
        raise BadQueryError(f"{name} must be one of {', '.join(map(str, SPANS))}")
    return int(text)


def _file(name: str) -> tuple[tuple[str, str], ...]:
    return (("Content-Disposition", f'attachment; filename="{name}"'),)


def _static(name: str, kind: str) -> Callable[[Query], Answer]:
    body = files("group_coordinator.page").joinpath("static", name).read_bytes()
    return lambda _: Answer(body, kind=f"{kind}; charset=utf-8")


def _reach(newest: object) -> str:
    return "" if newest is None else note(f"The history reaches to {newest:%Y-%m-%d %H:%M:%S} UTC.")
