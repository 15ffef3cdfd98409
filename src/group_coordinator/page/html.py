"""The pieces of the pages, as HTML. All text goes through `said`: most of it comes from strangers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from group_coordinator.history.timeline.text import escape, shortened, span_of_time
from group_coordinator.jobs.printable import printable_name

AT = {"coordinator": "", "brokers": " at the brokers"}
"""The words for a side, behind a group or groups, where the page shows one side alone."""


class Column(NamedTuple):
    """A column of a table. `is_number`: to the right; `is_extra`: left out where there is no room for it.

    `sort`: a link that sorts by it; `sorted_by`: ascending or descending, if the table is.
    """

    name: str
    is_number: bool = False
    is_extra: bool = False
    sort: str = ""
    sorted_by: str = ""


def said(value: object, otherwise: str = "none") -> str:
    """A value as text in HTML; `otherwise`, in a lighter colour, if there is none."""
    if value is None or value == "":
        return f'<span class="soft">{escape(otherwise)}</span>'
    # A browser would show several blanks as one.
    return escape(printable_name(shortened(str(value)))).replace("  ", " \N{NO-BREAK SPACE}")


def address(path: str, **query: object) -> str:
    """An address, to stand in an attribute; what is None is left out of its query."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    # The coordinator has written no id that cannot be encoded.
    return escape(f"{path}?{urlencode(given, errors='replace')}" if given else path)


def link(path: str, text: str, **query: object) -> str:
    """A link. An id may be empty, so that is left in its query."""
    return linked(path, said(text, "(empty)"), **query)


def linked(path: str, body: str, **query: object) -> str:
    """The same around HTML."""
    return f'<a href="{address(path, **query)}">{body}</a>'


def page(title: str, body: str, *, cluster: str = "", live: bool = False, history: bool = False) -> str:
    """A whole page. `live`: the browser fetches the part that changes again and again.

    `cluster`: the brokers that it is about.
    """
    past = link("/history", "History") if history else ""
    pause = '<button id="pause" type="button" hidden>Pause</button>' if live else ""
    where = f'<span class="cluster" title="Kafka">{said(cluster)}</span>' if cluster else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{said(title)} · Group coordinator</title>\n"
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n'
        '<link rel="stylesheet" href="/static/page.css">\n'
        + ('<script src="/static/page.js" defer></script>\n' if live else "")
        + '</head>\n<body>\n<header><a class="brand" href="/">Group coordinator</a>'
        f'<nav aria-label="Pages">{link("/", "Groups")}{past}</nav>{where}'
        f'<span id="fresh" role="status"></span>{pause}</header>\n<main>\n{body}</main>\n</body>\n</html>\n'
    )


def part(body: str, fresh: str = "live") -> str:
    """The part of a page that is fetched again. `fresh`: how new it is, in a word."""
    return f'<div id="part" data-fresh="{escape(fresh)}">\n{body}</div>\n'


def note(text: str, kind: str = "note") -> str:
    """A line that people should read."""
    return f'<p class="{kind}">{said(text)}</p>\n'


def section(name: str, heading: str, body: str) -> str:
    """A part of a page that has an address of its own."""
    head = f'<h2 id="{name}-h">{said(heading)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-h">\n{head}\n{body}</section>\n'


def scrolled(body: str, what: str, kind: str = "scroll") -> str:
    """A box for what may be wider than the page. The keyboard can scroll it as well."""
    return f'<div class="{kind}" role="group" aria-label="{escape(what)}" tabindex="0">{body}</div>\n'


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], name: str, what: str) -> str:
    """A table; the cells are HTML. `what`: what it shows, for people who do not see it.

    A column without anything in it is left out.
    """
    every = list(rows)
    kept = [at for at in range(len(columns)) if any(row[at] for row in every)]
    columns, rows = [columns[at] for at in kept], ([row[at] for at in kept] for row in every)
    kinds = [_class("n" * each.is_number, "x" * each.is_extra) for each in columns]
    head = "".join(_heading(each, kind) for each, kind in zip(columns, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return scrolled(
        f'<table class="{name}">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>', what
    )


def _class(*names: str) -> str:
    text = " ".join(filter(None, names))
    return f' class="{text}"' if text else ""


def _heading(column: Column, kind: str) -> str:
    text = said(column.name)
    if column.sort:
        mark = {"ascending": " ▲", "descending": " ▼"}.get(column.sorted_by, "")
        text = f'<a href="{column.sort}">{text}{mark}</a>'
    sorted_by = f' aria-sort="{column.sorted_by}"' if column.sorted_by else ""
    return f'<th scope="col"{kind}{sorted_by}>{text}</th>'


def field(label: str, name: str, value: str, kind: str = "search", others: str = "") -> str:
    """A field of a form, with its label. `others`: more attributes, as HTML."""
    return (
        f'<label>{said(label)} <input type="{kind}" name="{name}" value="{escape(value)}" {others}'
        'autocomplete="off" spellcheck="false"></label>'
    )


def hidden(fields: Mapping[str, str]) -> str:
    """Fields of a form that nobody sees."""
    return "".join(
        f'<input type="hidden" name="{name}" value="{escape(each)}">' for name, each in fields.items()
    )


def choice(label: str, name: str, value: str, options: Mapping[str, str], after: str = "") -> str:
    """A field of a form that takes one of several values, with its label. `after`: more of the label."""
    told = "".join(
        f'<option value="{escape(each)}"{" selected" if each == value else ""}>{said(text)}</option>'
        for each, text in options.items()
    )
    return f'<label>{said(label)} <select name="{name}">{told}</select>{after}</label>'


def more(path: str, offset: int, shown: int, matching: int, limit: int, **query: object) -> str:
    """The place of these among many, and the way to the others."""
    if matching <= limit and not offset:
        return ""
    before = (
        f'<a rel="prev" href="{address(path, **query, offset=max(0, offset - limit) or None)}">← before</a>'
    )
    after = f'<a rel="next" href="{address(path, **query, offset=offset + limit)}">after →</a>'
    these = f"{offset + 1:,} to {offset + shown:,}"
    told = f"{these} of {matching:,}" if shown else f"none of {matching:,} from there on"
    ways = [before] * (offset > 0) + [told] + [after] * (offset + shown < matching)
    return f'<nav class="more" aria-label="More">{" · ".join(ways)}</nav>\n'


def state(name: str) -> str:
    """A group's state."""
    return f'<span class="state {said(name).lower()}">{said(name)}</span>'


def utc(at: datetime) -> str:
    """A time for people."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def rounded(span: timedelta) -> str:
    """A time in whole seconds: people compare it with a clock."""
    whole = timedelta(seconds=max(span, timedelta()) // timedelta(seconds=1))
    return span_of_time(whole) if whole else "0 s"
