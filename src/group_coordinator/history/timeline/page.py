"""The picture in an HTML file, with what happened as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from group_coordinator.history.rows import OffsetChange, Transition
from group_coordinator.history.story import Story
from group_coordinator.history.timeline.explain import Explainer, Rebalance
from group_coordinator.history.timeline.sentence import Sentence
from group_coordinator.history.timeline.svg import timeline_svg
from group_coordinator.history.timeline.text import (
    cause_in_words,
    clean,
    escape,
    owned,
    span_of_time,
    writer,
)

_MAX_ROWS = 2_000
_MAX_REBALANCES = 500
_MAX_NAMES = 3
_COLUMNS = ("time (UTC)", "cause", "who", "#took", "last to join", "#generation", "#members", "principal")
"""Those of a rebalance. Numbers are marked."""
MemberLink = Callable[[str, str], str]
# Nothing that a stranger has written can be anything but text, and if it were: no script runs here.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """\
:root{color-scheme:light dark;--line:#d1d9e0;--soft:#59636e;--bg:#fff;--ink:#1f2328}
@media (prefers-color-scheme:dark){:root{--line:#3d444d;--soft:#9198a1;--bg:#0d1117;--ink:#e6edf3}}
body{margin:0 auto;padding:16px;max-width:1400px;background:var(--bg);color:var(--ink);
font:13px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
svg{width:100%;height:auto}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;margin-top:16px}
th,td{text-align:left;padding:4px 12px 4px 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
td.t{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:nowrap}
td.why,.sentences{overflow-wrap:anywhere}
.t{font-variant-numeric:tabular-nums;white-space:nowrap}
.evidence{color:var(--soft)}
.told details{position:sticky;left:0;max-width:calc(100vw - 32px)}
.sentences{padding-left:20px}
"""


def _plain(_member_id: str, name: str) -> str:
    return name


def timeline_html(story: Story, since: datetime, until: datetime) -> str:
    """One HTML file with the timeline, and the group's rebalances as a table.

    It needs nothing else, and has no script. Errors as of `timeline_svg`.
    """
    title = escape(clean(f"Group {story.group_id}"))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{timeline_svg(story, since, until)}{rebalances_table(story, since, until)}"
        f"{resets_table(story, since, until)}</body>\n</html>\n"
    )


def rebalances_table(story: Story, since: datetime, until: datetime, link: MemberLink = _plain) -> str:
    """The rebalances of that time as an HTML table, the newest first, each with what happened folded below.

    Moves that belong to none, such as the end of a group, have rows of their own. Of very many it is the
    newest. `link` makes a link of a member's name, which is HTML, given its id.
    """
    explainer = Explainer(story)
    write = writer(since, until)
    of_rebalances = {id(move) for each in explainer.rebalances for move in each.moves}
    alone = [each for each in story.transitions if id(each) not in of_rebalances]
    rows: list[tuple[datetime, Rebalance | Transition]] = [
        *((each.began, each) for each in explainer.rebalances if _meets(each, since, until)),
        *((each.at, each) for each in alone if since <= each.at < until),
    ]
    rows.sort(key=lambda row: row[0], reverse=True)
    if not rows:
        return "<p>The group stayed in its state all that time.</p>\n"
    cells = [
        _move(each, write(at)) if isinstance(each, Transition) else _cells(each, explainer, write(at), link)
        for at, each in rows[:_MAX_REBALANCES]
    ]
    # A column without anything in it is left out.
    kept = [at for at in range(len(_COLUMNS)) if any(row[at] for row in cells)]
    head = "".join(f"<th{_class(_COLUMNS[at])}>{_COLUMNS[at].strip('#')}</th>" for at in kept)
    body = ""
    for (_, each), row in zip(rows, cells, strict=False):
        body += "<tr>" + "".join(f"<td{_class(_COLUMNS[at])}>{row[at]}</td>" for at in kept) + "</tr>\n"
        if not isinstance(each, Transition):
            told = sentences_list(explainer.explain(each), write, link)
            body += (
                f'<tr class="told"><td colspan="{len(kept)}"><details id="{each.id}">'
                f"<summary>What happened</summary>\n{told}</details></td></tr>\n"
            )
    note = f"<p>The newest {_MAX_REBALANCES:,} of {len(rows):,}.</p>\n" if len(rows) > len(cells) else ""
    return (
        '<div class="scroll" role="group" aria-label="What happened" tabindex="0">'
        f'<table class="rebalances">\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table></div>\n{note}"
    )


def _meets(each: Rebalance, since: datetime, until: datetime) -> bool:
    return each.began < until and (each.ended is None or each.ended >= since)


def _class(column: str) -> str:
    return ' class="n"' if column.startswith("#") else ""


def _cells(each: Rebalance, explainer: Explainer, at: str, link: MemberLink) -> list[str]:
    """The cells of a rebalance, as HTML."""
    names = explainer.names
    who = [link(it, escape(names.name(it))) for it in each.who[:_MAX_NAMES]]
    more = len(each.who) - len(who)
    took = "not over" if each.ended is None else "unknown"
    if each.took_ms is not None:
        took = span_of_time(timedelta(milliseconds=each.took_ms))
    last = ""
    if each.last is not None and each.last.join_phase_ms:
        who_came, after_ms = each.last.member_id, each.last.join_phase_ms
        after = span_of_time(timedelta(milliseconds=after_ms))
        last = f"{link(who_came, escape(names.name(who_came)))} after {after}"
    return [
        f'<span class="t">{escape(at)}</span>',
        _cell(cause_in_words(each.cause)),
        ", ".join(who) + (f" and {more} more" if more else ""),
        took,
        last,
        str(each.moves[-1].generation_id) if each.ended is not None else "",
        "" if each.members is None else f"{each.members:,}",
        _cell(next((it.principal for it in each.moves if it.principal), "")),
    ]


def _move(move: Transition, at: str) -> list[str]:
    """The cells of a move that belongs to no rebalance, as HTML."""
    what = f"{move.from_state or 'first seen'} → {move.to_state}: {move.reason}"
    cells = [f'<span class="t">{escape(at)}</span>', _cell(what), "", "", "", str(move.generation_id), ""]
    return [*cells, _cell(move.principal or "")]


def sentences_list(
    sentences: Sequence[Sentence], write: Callable[[datetime], str], link: MemberLink = _plain
) -> str:
    """Sentences as an HTML list, each with its evidence."""
    items = []
    for each in sentences:
        parts = [f"event {_cell(each.event_id or 'not known')}"]
        if each.log_offset is not None and each.log_offset >= 0:
            parts.append(f"offset {each.log_offset}")
        if each.member_id is not None:
            parts.append(f"member {link(each.member_id, _cell(each.member_id))}")
        items.append(
            f'<li><span class="t">{escape(write(each.at))}</span> {escape(each.text)} '
            f'<span class="evidence">{", ".join(parts)}</span></li>\n'
        )
    return f'<ol class="sentences">\n{"".join(items)}</ol>\n'


def resets_table(story: Story, since: datetime, until: datetime) -> str:
    """The offsets that were set and deleted by hand, under a heading; the newest first. "" if none were."""
    write = writer(since, until)
    changes = [each for each in story.resets if since <= each.at < until]
    by_event = {id_: list(rows) for id_, rows in groupby(changes, key=lambda each: each.event_id)}
    shown = list(by_event.values())[::-1][:_MAX_ROWS]
    if not shown:
        return ""
    head = (
        "<thead><tr><th>time (UTC)</th><th>change</th><th>of</th><th>to</th><th>principal</th>"
        "<th>client</th><th>why</th></tr></thead>\n"
    )
    body = "".join(_reset(rows, write(rows[0].at)) for rows in shown)
    return (
        "<h2>Offsets set or deleted by no member</h2>\n"
        # It scrolls on its own, in a file as on the page.
        '<div class="scroll" role="group" aria-label="Offsets set or deleted by no member" tabindex="0">'
        f'<table class="resets">\n{head}<tbody>\n{body}</tbody>\n</table></div>\n'
    )


def _reset(rows: Sequence[OffsetChange], at: str) -> str:
    """What one request did."""
    first = rows[0]
    what = owned(((each.topic, each.partition) for each in rows), units=False)[0]
    offsets = [each.committed_offset for each in rows if each.committed_offset is not None]
    to = "" if not offsets else " - ".join(f"{each:,}" for each in sorted({min(offsets), max(offsets)}))
    change = "set" if first.change == "committed" else first.change
    return (
        f'<tr><td class="t">{escape(at)}</td><td>{_cell(change)}</td><td class="why">{_cell(what)}</td>'
        f'<td>{to}</td><td class="why">{_cell(first.principal or "")}</td>'
        f'<td class="why">{_cell(first.client_id or "")}</td>'
        f'<td class="why">{_cell(first.client_reason or "")}</td></tr>\n'
    )


def _cell(text: str) -> str:
    return escape(clean(text))
