"""The picture in an HTML file, with what happened as a table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from group_coordinator.history.rows import OffsetChange, Transition
from group_coordinator.history.story import Story
from group_coordinator.history.timeline.svg import timeline_svg
from group_coordinator.history.timeline.text import clean, escape, owned, writer

__all__ = ["moves_table", "resets_table", "timeline_html"]

_MAX_ROWS = 2_000
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
td.why{overflow-wrap:anywhere}
"""


def timeline_html(
    story: Story, since: datetime, until: datetime, *, moment: datetime | None = None, max_lanes: int = 100
) -> str:
    """One HTML file with the timeline, and the group's moves from state to state as a table.

    It needs nothing else, and has no script. Options and errors as of `timeline_svg`.
    """
    title = escape(clean(f"Group {story.group_id}"))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"{timeline_svg(story, since, until, moment=moment, max_lanes=max_lanes)}"
        f"{moves_table(story, since, until)}{resets_table(story, since, until)}</body>\n</html>\n"
    )


def moves_table(story: Story, since: datetime, until: datetime) -> str:
    """The moves of that time as an HTML table, the newest first; of very many only those."""
    write = writer(since, until)
    moves = [each for each in story.transitions if since <= each.at < until]
    shown = moves[::-1][:_MAX_ROWS]
    note = f"<p>The newest {_MAX_ROWS:,} of {len(moves):,}.</p>\n" if len(moves) > len(shown) else ""
    # Where no request has a principal there is nothing to see.
    has_names = any(each.principal for each in shown)
    head = (
        '<thead><tr><th>time (UTC)</th><th>from</th><th>to</th><th class="n">generation</th><th>cause</th>'
        f'<th>why</th>{"<th>principal</th>" if has_names else ""}<th class="n">rebalance</th></tr></thead>\n'
    )
    rows = "".join(_row(each, write(each.at), has_names=has_names) for each in shown)
    if not rows:
        rows = '<tr><td colspan="7">The group stayed in its state all that time.</td></tr>\n'
    return f'<table class="moves">\n{head}<tbody>\n{rows}</tbody>\n</table>\n{note}'


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


def _row(move: Transition, at: str, *, has_names: bool) -> str:
    name = f'<td class="why">{_cell(move.principal or "")}</td>' if has_names else ""
    took = "" if move.rebalance_ms is None else f"{move.rebalance_ms:,} ms"
    return (
        f'<tr><td class="t">{escape(at)}</td><td>{_cell(move.from_state)}</td><td>{_cell(move.to_state)}</td>'
        f'<td class="n">{move.generation_id}</td><td>{_cell(move.cause or "")}</td>'
        f'<td class="why">{_cell(move.reason)}</td>{name}<td class="n">{took}</td></tr>\n'
    )


def _cell(text: str) -> str:
    return escape(clean(text))
