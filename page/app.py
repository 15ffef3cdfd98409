"""The page as a WSGI application: which address shows what. It answers GET and HEAD, and changes nothing."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qs

from group_coordinator.history.errors import HistoryError
from group_coordinator.history.story import Story
from group_coordinator.history.timeline import timeline_html, timeline_svg
from group_coordinator.history.timeline.style import STYLE
from group_coordinator.page.lags import Measured
from group_coordinator.page.measurements import Measurements
from group_coordinator.page.memory import Memory
from group_coordinator.page.pages import (
    SPANS,
    groups_part,
    history_list,
    note,
    now_part,
    page,
    past_part,
    past_picker,
    said,
    search,
    since_links,
)

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["App", "Now", "Past"]

_LAST, _SPAN = 900, 3_600
_LONGEST = timedelta(days=400)
_FIRST_YEAR, _LAST_YEAR = 1970, 9_000
_STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
# No script but the one file, and no address but this server's. So a name that strangers give themselves could
# do nothing, even if it were not escaped. Pictures bring their style; its hash tells it from anybody else's.
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    f"style-src 'self' 'sha256-{_STYLE_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    ("Content-Security-Policy", _POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
]


class Now(Protocol):
    """The groups as they are: `Live`."""

    @property
    def memory(self) -> Memory:
        """The groups as they are known now."""

    @property
    def problem(self) -> str | None:
        """The reason why that may not be all."""


class Past(Protocol):
    """The past, as `HistoryReader` has it. Raises `HistoryError`."""

    def groups(self) -> list[str]:
        """The ids of all groups."""

    def reaches_to(self) -> datetime | None:
        """The time up to which it is known; None if nothing is."""

    def story(self, group_id: str, since: datetime, until: datetime) -> Story:
        """One of them."""


class _Answer(NamedTuple):
    body: str
    status: HTTPStatus = HTTPStatus.OK
    kind: str = "text/html"
    headers: tuple[tuple[str, str], ...] = ()


class _BadQueryError(Exception):
    """The address is wrong; the message says how."""


class _Query:
    """The query of an address."""

    def __init__(self, text: str) -> None:
        try:
            self._given = parse_qs(text, keep_blank_values=True, errors="replace", max_num_fields=20)
        except ValueError:
            raise _BadQueryError("the query of the address is too long") from None

    def text(self, name: str) -> str:
        return self._given.get(name, [""])[0]

    def has(self, name: str) -> bool:
        return name in self._given

    def seconds(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not (text.isascii() and text.isdecimal()) or int(text) not in SPANS:
            raise _BadQueryError(f"{name} must be one of {', '.join(map(str, SPANS))}")
        return int(text)

    def time(self, name: str) -> datetime:
        try:
            at = datetime.fromisoformat(self.text(name))
        except ValueError:
            at = None
        # Far enough from both ends of the calendar to look at what is around it.
        if at is None or not _FIRST_YEAR <= at.year <= _LAST_YEAR:
            raise _BadQueryError(f"{name} must be a time in UTC, such as 2026-01-31T14:05:00")
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


class App:
    """The application. `past`: opens the history, if there is one; `measurements`: what `measure-lag` tells.

    `hosts`: the only names it answers to.

    A page of somebody else's could otherwise have its own name point here and read along (DNS rebinding).
    """

    def __init__(
        self,
        live: Now,
        lag_of: Callable[[str | None], Measured | None],
        past: Callable[[], Past] | None = None,
        *,
        measurements: Callable[[], Measurements] = Measurements,
        hosts: Iterable[str] | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._live = live
        self._lag_of = lag_of
        self._past = past
        self._measurements = measurements
        self._hosts = None if hosts is None else frozenset(hosts)
        self._clock = clock
        # Tables are read by all cores at once: two at a time are enough.
        self._reading = threading.Semaphore(2)
        self._pages: Mapping[str, Callable[[_Query], _Answer]] = {
            "/": self._groups,
            "/group": self._group,
            "/history": self._history,
            "/timeline.svg": self._svg,
            "/timeline.html": self._html,
            **{f"/static/{name}": _static(name, kind) for name, kind in _STATIC.items()},
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        answer = self._answer(environ)
        body = answer.body.encode(errors="replace")
        start_response(
            f"{answer.status.value} {answer.status.phrase}",
            [
                ("Content-Type", f"{answer.kind}; charset=utf-8"),
                ("Content-Length", str(len(body))),
                *_HEADERS,
                *answer.headers,
            ],
        )
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: WSGIEnvironment) -> _Answer:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _failed(
                HTTPStatus.METHOD_NOT_ALLOWED, "This page only shows things.", (("Allow", "GET, HEAD"),)
            )
        if self._hosts is not None and _host(environ.get("HTTP_HOST", "")) not in self._hosts:
            return _failed(
                HTTPStatus.MISDIRECTED_REQUEST, "Ask for this page by the name it was started with."
            )
        show = self._pages.get(environ.get("PATH_INFO", ""))
        if show is None:
            return _failed(HTTPStatus.NOT_FOUND, "There is no such page.")
        try:
            return show(_Query(environ.get("QUERY_STRING", "")))
        except _BadQueryError as error:
            return _failed(HTTPStatus.BAD_REQUEST, str(error))
        except HistoryError as error:
            return _failed(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    # -- pages -------------------------------------------------------------------------------------------

    def _groups(self, query: _Query) -> _Answer:
        chosen, memory, now = query.text("q"), self._live.memory, self._clock()
        body = groups_part(
            memory.groups(),
            chosen,
            self._lag_of(None),
            self._measurements().fresh(now),
            now,
            self._live.problem,
            has_forgotten=memory.has_forgotten,
        )
        if query.has("part"):
            return _Answer(body)
        return self._whole("Groups", f"<h1>Groups</h1>\n{search(chosen)}{body}", live=True)

    def _group(self, query: _Query) -> _Answer:
        group_id = _group_id(query)
        now, span = self._clock(), query.seconds("span", _SPAN)
        heading = f"<h1>{said(group_id)}</h1>\n"
        if query.has("at"):
            at = query.time("at")
            since, until = at - timedelta(seconds=span / 2), at + timedelta(seconds=span / 2)
            with self._reading:
                past = self._opened()
                story, reach = past.story(group_id, since, until), _reach(past)
            body = past_part(story, at, since, until, span)
            return self._whole(
                f"{group_id} at {at:%Y-%m-%d %H:%M}",
                heading + past_picker(group_id, at, span, now) + reach + body,
            )
        last = query.seconds("last", _LAST)
        memory = self._live.memory
        picture = memory.picture(group_id)
        # Only of groups that are there, because anybody may type any name into the address.
        measured = None if picture is None else self._lag_of(group_id)
        body = now_part(
            self._story(memory, group_id),
            picture,
            measured,
            self._measurements().newest(group_id),
            now - timedelta(seconds=last),
            now,
            self._live.problem,
        )
        if query.has("part"):
            return _Answer(body)
        picker = past_picker(group_id, None, span, now) if self._past else ""
        return self._whole(group_id, heading + picker + since_links(group_id, last) + body, live=True)

    def _history(self, query: _Query) -> _Answer:
        chosen = query.text("q")
        with self._reading:
            past = self._opened()
            group_ids, reach = past.groups(), _reach(past)
        body = reach + history_list(group_ids, chosen, self._clock())
        return self._whole(
            "History", f"<h1>Groups of the past and present</h1>\n{search(chosen, '/history')}{body}"
        )

    def _svg(self, query: _Query) -> _Answer:
        story, since, until = self._asked_for(query)
        return _Answer(timeline_svg(story, since, until), kind="image/svg+xml", headers=_file("timeline.svg"))

    def _html(self, query: _Query) -> _Answer:
        story, since, until = self._asked_for(query)
        return _Answer(timeline_html(story, since, until), headers=_file("timeline.html"))

    # -- what they need ----------------------------------------------------------------------------------

    def _whole(self, title: str, body: str, *, live: bool = False) -> _Answer:
        return _Answer(page(title, body, live=live, history=self._past is not None))

    def _asked_for(self, query: _Query) -> tuple[Story, datetime, datetime]:
        group_id, since, until = _group_id(query), query.time("from"), query.time("to")
        if not since < until <= since + _LONGEST:
            raise _BadQueryError(f"from must be before to, by at most {_LONGEST.days} days")
        if query.has("past"):
            return self._past_story(group_id, since, until), since, until
        story = self._story(self._live.memory, group_id)
        if story is None:
            raise _BadQueryError("nothing is known of this group")
        return story, since, until

    def _story(self, memory: Memory, group_id: str) -> Story | None:
        story = memory.story(group_id)
        if story is not None:
            story.lag = self._measurements().points(group_id)
        return story

    def _past_story(self, group_id: str, since: datetime, until: datetime) -> Story:
        with self._reading:
            return self._opened().story(group_id, since, until)

    def _opened(self) -> Past:
        if self._past is None:
            raise HistoryError(
                "there is no history to look at: set history.path to where write-history writes"
            )
        return self._past()


def _group_id(query: _Query) -> str:
    if not query.has("id"):
        raise _BadQueryError("id must be the id of a group")
    return query.text("id")


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0].removeprefix("[")
    return header.partition(":")[0].lower()


def _file(name: str) -> tuple[tuple[str, str], ...]:
    return (("Content-Disposition", f'attachment; filename="{name}"'),)


def _failed(status: HTTPStatus, why: str, headers: tuple[tuple[str, str], ...] = ()) -> _Answer:
    return _Answer(
        page(status.phrase, f"<h1>{status.phrase}</h1>\n{note(why, 'bad')}"), status, headers=headers
    )


def _static(name: str, kind: str) -> Callable[[_Query], _Answer]:
    text = files("group_coordinator.page").joinpath("static", name).read_text(encoding="utf-8")
    return lambda _: _Answer(text, kind=kind)


def _reach(past: Past) -> str:
    newest = past.reaches_to()
    return "" if newest is None else note(f"The history reaches to {newest:%Y-%m-%d %H:%M:%S} UTC.")
