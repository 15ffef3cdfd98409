"""The picture as SVG: one file that needs nothing else, on its own or in a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from group_coordinator.history.rows import REBALANCING
from group_coordinator.history.story import Story
from group_coordinator.history.timeline.axis import Axis
from group_coordinator.history.timeline.band import outages, segments, summary
from group_coordinator.history.timeline.lag import curve
from group_coordinator.history.timeline.lanes import ENDS, lanes
from group_coordinator.history.timeline.pieces import (
    OUTAGE,
    SEVERAL,
    Bar,
    Block,
    Dot,
    Lane,
    Mark,
    Picture,
    Segment,
)
from group_coordinator.history.timeline.style import BADGES, PATTERNS, STATES, STYLE
from group_coordinator.history.timeline.text import clean, counted, escape, fit, span_of_time, width
from group_coordinator.history.timeline.view import View

_WIDTH = 1_200
"""Of the picture, as everything here in pixels."""
_GUTTER = 204
"""For the names of members."""
_MARGIN = 18
_TOP = 58
_CAUSE_ROWS = 3
_CAUSE = 14
_CAUSE_ROOM = 260
_BAND = 20
_AXIS = 26
_LAG = 58
"""For the line of the lag, where there is one."""
_LAG_HIT = 8.0
"""Width of what the mouse has to meet."""
_TEXT, _SMALL = 11.0, 10.0
_ROOMY = 24
"""Up to so many lanes each has two lines of text."""
_BOTTOM_AXIS = 12
"""From so many lanes on there is a second axis, below."""
_LETTER = 5.6
"""Of the legend's own words, in a proportional font."""
_WORDS = {
    "Stable": "Stable",
    "PreparingRebalance": "join phase",
    "CompletingRebalance": "sync phase",
    "Assigning": "assigning",
    "Reconciling": "reconciling",
    SEVERAL: "several rebalances",
    "Empty": "Empty",
    OUTAGE: OUTAGE,
}
"""The words for states in the legend, in its order."""
_HAIR = 2.0
"""Nothing narrower can be seen."""


def timeline_svg(
    story: Story,
    since: datetime,
    until: datetime,
    *,
    moment: datetime | None = None,
    max_lanes: int = 100,
) -> str:
    """Draw what happened to a group from `since` to `until`, up to which the story has to be known.

    `moment`: a time to be marked. With more members than `max_lanes`, those are shown that were in for
    longest. Things that would be too narrow to be told apart are drawn as one, which says how many they are.
    Raises ValueError if `since` is not before `until`.
    """
    if since >= until:
        raise ValueError(f"a timeline needs some time: {since.isoformat()} is not before {until.isoformat()}")
    axis = Axis(since, until, _GUTTER, _WIDTH - _MARGIN)
    return "".join(_Drawing(story.group_id, _laid_out(View(story, axis), max_lanes), moment).pieces())


def _laid_out(view: View, max_lanes: int) -> Picture:
    """The place of everything from left to right. The story is sorted once and then walked through."""
    shown, hidden = lanes(view, max_lanes)
    about = summary(view, len(shown) + hidden)
    return Picture(view.axis, about, list(segments(view)), list(outages(view)), shown, hidden, curve(view))


class _Drawing:
    def __init__(self, group_id: str, picture: Picture, moment: datetime | None) -> None:
        self._group_id = clean(group_id)
        self._picture = picture
        self._axis = picture.axis
        self._moment = moment
        self._is_roomy = len(picture.lanes) <= _ROOMY
        self._lane, self._bar, self._letters = (40, 22, _TEXT) if self._is_roomy else (21, 13, 9.0)
        self._band_top = _TOP + _CAUSE_ROWS * _CAUSE + 4
        self._lag_top = self._band_top + _BAND + _AXIS
        self._lanes_top = self._lag_top + (_LAG if picture.lag else 0)
        self._lanes_end = self._lanes_top + self._lane * max(len(picture.lanes), 1)
        self._note_top = self._lanes_end + (_AXIS if len(picture.lanes) > _BOTTOM_AXIS else 8)
        self._legend_rows = list(self._legend())
        self._width = self._axis.right + _MARGIN
        notes = len(self._notes)
        self._height = self._note_top + 16 * notes + 20 * len(self._legend_rows) + 12

    def pieces(self) -> Iterator[str]:
        w, h = _n(self._width), _n(self._height)
        about = f"Timeline of group {self._group_id}: {self._picture.summary}"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="gc-timeline" role="img" '
            f'width="{w}" height="{h}" viewBox="0 0 {w} {h}" aria-label="{escape(about)}">\n'
            f"<style>{STYLE}</style>\n{PATTERNS}"
            f'<rect class="bg" width="{w}" height="{h}"/>\n'
        )
        yield from self._header()
        yield from self._grid()
        yield from self._group()
        yield from self._outages()
        yield from self._lag()
        for number, lane in enumerate(self._picture.lanes):
            yield from self._member(lane, self._lanes_top + number * self._lane)
        if not self._picture.lanes:
            yield _text(self._axis.left + 8, self._lanes_top + 24, "no members in this time", "soft")
        yield from self._cursor()
        yield from self._foot()
        yield "</svg>\n"

    # -- around it ---------------------------------------------------------------------------------------

    def _header(self) -> Iterator[str]:
        axis = self._axis
        since, until = axis.since.astimezone(UTC), axis.until.astimezone(UTC)
        last = f"{until:%H:%M:%S}" if since.date() == until.date() else f"{until:%Y-%m-%d %H:%M:%S}"
        when = f"{since:%Y-%m-%d %H:%M:%S} - {last} UTC · {span_of_time(until - since)}"
        room = axis.right - _MARGIN - width(when, _TEXT) - 24
        yield _text(_MARGIN, 28, fit(self._group_id, room, 15), "h")
        yield _text(axis.right, 28, when, "soft", anchor="end")
        yield _text(_MARGIN, 46, fit(self._picture.summary, axis.right - _MARGIN, _TEXT), "soft")

    def _grid(self) -> Iterator[str]:
        axis, top, end = self._axis, self._band_top + _BAND, self._lanes_end
        has_bottom = len(self._picture.lanes) > _BOTTOM_AXIS
        lines, texts = list[str](), list[str]()
        free = 0.0
        for tick in axis.ticks():
            lines.append(f"M{_n(tick.x)} {_n(top)}V{_n(end + (6 if has_bottom else 0))}")
            label = f"{tick.day} {tick.label}" if tick.day else tick.label
            half = width(label, _SMALL) / 2
            if tick.x - half < free or tick.x + half > self._width:
                continue
            free = tick.x + half + 6
            texts.append(_text(tick.x, top + 16, label, "soft s", anchor="middle"))
            if has_bottom:
                texts.append(_text(tick.x, end + 17, label, "soft s", anchor="middle"))
        yield f'<path class="grid" d="{"".join(lines)}"/>\n'
        rows = (self._lanes_top + number * self._lane for number in range(len(self._picture.lanes) + 1))
        yield f'<path class="grid" d="{"".join(f"M{_MARGIN} {_n(y)}H{_n(axis.right)}" for y in rows)}"/>\n'
        yield from texts

    def _cursor(self) -> Iterator[str]:
        if self._moment is None or not self._axis.since <= self._moment <= self._axis.until:
            return
        x, label = self._axis.x(self._moment), f"{self._moment.astimezone(UTC):%H:%M:%S}"
        room = width(label, _SMALL) + 10
        middle = min(max(x, room / 2), self._width - room / 2)
        y = self._band_top + _BAND
        yield (
            f'<path class="moment" d="M{_n(x)} {_n(self._band_top - 3)}V{_n(self._lanes_end)}"/>'
            f'<rect class="pill" x="{_n(middle - room / 2)}" y="{_n(y + 4)}" width="{_n(room)}" '
            f'height="17" rx="8"/>'
            f"{_text(middle, y + 16, label, 'pill s n', anchor='middle')}"
        )

    @property
    def _notes(self) -> list[str]:
        notes = []
        if self._picture.hidden:
            notes.append(f"{counted(self._picture.hidden, 'more member')}, in for a shorter time, not shown.")
        if self._picture.is_condensed:
            notes.append(
                "Striped: several that are too short to be drawn one by one; point there to see how many."
            )
        return notes

    def _foot(self) -> Iterator[str]:
        y = self._note_top + 6
        for note in self._notes:
            yield _text(_MARGIN, y + 6, note, "soft s")
            y += 16
        for row in self._legend_rows:
            x = float(_MARGIN)
            for shape, word, room in row:
                yield f'<g transform="translate({_n(x)} {_n(y + 8)})">{shape}</g>\n'
                yield _text(x + 16, y + 11.5, word, "soft s")
                x += room
            y += 20

    def _legend(self) -> Iterator[list[tuple[str, str, float]]]:
        """What there is in this picture: shape around 0,0, word, and the room of both; in rows."""
        row, used = list[tuple[str, str, float]](), 0.0
        for shape, word in self._legend_entries():
            room = 16 + len(word) * _LETTER + 16
            if row and used + room > self._axis.right - _MARGIN:
                yield row
                row, used = [], 0.0
            row.append((shape, word, room))
            used += room
        if row:
            yield row

    def _legend_entries(self) -> Iterator[tuple[str, str]]:
        lanes = self._picture.lanes
        states = {each.state for each in (*self._picture.segments, *self._picture.outages)}
        yield from ((_swatch(*STATES[each]), word) for each, word in _WORDS.items() if each in states)
        blocks = [block for lane in lanes for block in lane.blocks]
        if blocks:
            is_consumer = any(block.number == "epoch" for block in blocks)
            yield _swatch("o0", ""), "owned, by epoch" if is_consumer else "owned, by generation"
        if any(lane.bars for lane in lanes):
            yield _swatch("bar", "", '<path class="cap" d="M0-5V5"/>'), "member"
        if any(block.leads for block in blocks):
            yield '<rect class="lead" y="-2" width="12" height="3"/>', "leader"
        if any(lane.waits for lane in lanes):
            yield '<path class="wait" d="M0 0H13"/>', "waits for what another one holds"
        joins = {mark.kind for lane in lanes for mark in lane.joins}
        for kind in ("joined", "rejoined"):
            if kind in joins:
                yield f'<g transform="translate(6 -1)">{_triangle(kind)}</g>', kind
        ends = {mark.kind for lane in lanes for mark in lane.ends}
        for kind in BADGES:
            if kind in ends:
                bad, shape = _badge(kind)
                yield f'<g class="end{bad}" transform="translate(6 0)">{shape}</g>', _end_word(kind)

    # -- the group ---------------------------------------------------------------------------------------

    def _group(self) -> Iterator[str]:
        top = self._band_top
        yield _text(_MARGIN, top + 14, "group", "n")
        places = [(each, *self._seen(each)) for each in self._picture.segments]
        # Those that are hardly to be seen come last, and on top of their neighbours.
        for each, x, w in sorted(places, key=lambda place: place[2] <= _HAIR):
            name, pattern = STATES.get(each.state, STATES[""])
            rect = f'x="{_n(x)}" y="{_n(top)}" width="{_n(w)}" height="{_BAND}"'
            yield f'<g>{_title(each.lines)}<rect class="{name}" {rect}/>'
            if pattern:
                yield f'<rect fill="url(#{pattern})" {rect}/>'
            if label := _first_fit(each.labels, w - 8, _SMALL):
                yield _text(x + w / 2, top + 13.5, label, f"{name} s", anchor="middle").rstrip()
            yield "</g>\n"
        reasons = [*places, *((each, *self._seen(each)) for each in self._picture.outages)]
        yield from self._causes(sorted(reasons, key=lambda place: place[1]))
        shades = [
            f"M{_n(x)} {_n(self._lag_top)}H{_n(x + w)}V{_n(self._lanes_end)}H{_n(x)}Z"
            for each, x, w in places
            if each.state in REBALANCING
        ]
        yield f'<path class="shade" d="{"".join(shades)}"/>\n'

    def _outages(self) -> Iterator[str]:
        """Behind the lanes: members worked on, and only what needs a coordinator waited."""
        for each in self._picture.outages:
            x, w = self._seen(each)
            _, pattern = STATES[each.state]
            height = _n(self._lanes_end - self._lag_top)
            yield (
                f'<g>{_title(each.lines)}<rect fill="url(#{pattern})" x="{_n(x)}" y="{_n(self._lag_top)}" '
                f'width="{_n(w)}" height="{height}"/></g>\n'
            )

    def _seen(self, each: Segment) -> tuple[float, float]:
        """Where it is drawn: wide enough to be seen, and inside of the axis."""
        w = max(each.place.width, _HAIR)
        return min(each.place.begin, self._axis.right - w), w

    def _causes(self, places: Iterable[tuple[Segment, float, float]]) -> Iterator[str]:
        """As many as there is room for. A line may cross another one's words: those are drawn on top."""
        free, right = [float(_MARGIN)] * _CAUSE_ROWS, self._axis.right
        lines, texts = list[str](), list[str]()
        for each, x, _ in places:
            label = fit(each.because, _CAUSE_ROOM, _SMALL)
            room = width(label, _SMALL) + 4
            is_left = x + room > right
            begin = x - room if is_left else x
            row = next((i for i in reversed(range(_CAUSE_ROWS)) if free[i] <= begin), None)
            if not label or row is None:
                continue
            free[row] = begin + room + 10
            y = _TOP + row * _CAUSE
            lines.append(f"M{_n(x)} {_n(y + 3)}V{_n(self._band_top)}")
            place, anchor = (x - 4, "end") if is_left else (x + 4, "start")
            text = _text(place, y + 11, label, "soft s halo", anchor=anchor).rstrip()
            texts.append(f"<g>{_title(each.lines)}{text}</g>\n")
        yield f'<path class="why" d="{"".join(lines)}"/>\n'
        yield from texts

    def _lag(self) -> Iterator[str]:
        """Between states and members, so that it is beside the rebalances however many members there are."""
        curve, top = self._picture.lag, self._lag_top
        if curve is None:
            return
        name = _text(_MARGIN, top + 18, "lag", "n").rstrip()
        room = self._axis.left - _MARGIN - 10
        details = [
            _text(_MARGIN, top + 31 + 13 * number, fit(line, room, _SMALL), "m soft s").rstrip()
            for number, line in enumerate(curve.details)
        ]
        yield f"<g>{name}{''.join(details)}</g>\n"
        base, height = top + _LAG - 4, _LAG - 14
        peak = max((dot.records for dot in curve.dots), default=0) or 1
        lines, areas = "", ""
        for run in curve.runs:
            along = "L".join(f"{_n(dot.x)} {_n(base - height * dot.records / peak)}" for dot in run)
            # A measurement on its own is to be seen as well.
            lines += f"M{along}{'h1' if len(run) == 1 else ''}"
            areas += f"M{_n(run[0].x)} {_n(base)}L{along}V{_n(base)}Z"
        yield f'<path class="grid" d="M{_MARGIN} {_n(top)}H{_n(self._axis.right)}"/>\n'
        yield f'<path class="under" d="{areas}"/>\n<path class="lag" d="{lines}"/>\n'
        yield from self._lag_to_read(curve.dots)

    def _lag_to_read(self, dots: Sequence[Dot]) -> Iterator[str]:
        for slot, group in groupby(dots, key=lambda dot: dot.x // _LAG_HIT):
            highest = max(group, key=lambda dot: dot.records)
            yield (
                f'<g>{_title(highest.lines)}<rect class="hit" x="{_n(slot * _LAG_HIT)}" '
                f'y="{_n(self._lag_top)}" width="{_n(_LAG_HIT)}" height="{_LAG}"/></g>\n'
            )

    # -- members -----------------------------------------------------------------------------------------

    def _member(self, lane: Lane, y: float) -> Iterator[str]:
        yield from self._name(lane, y)
        top = y + (7 if self._is_roomy else 3)
        for bar in lane.bars:
            yield self._membership(bar, top)
        for block in lane.blocks:
            yield from self._owned(block, top)
        for mark in lane.joins:
            yield (
                f'<g transform="translate({_n(mark.x)} {_n(top + self._bar + 4)})">'
                f"{_title(mark.lines)}{_triangle(mark.kind)}</g>\n"
            )
        for bar in lane.waits:
            yield self._wait(bar, top)
        begins = [bar.place.begin for bar in lane.bars]
        for mark in lane.ends:
            yield from self._end(mark, top, min((x for x in begins if x >= mark.x), default=self._width))

    def _name(self, lane: Lane, y: float) -> Iterator[str]:
        room = self._axis.left - _MARGIN - 10
        title = _title([lane.name, lane.details])
        if self._is_roomy:
            name = _text(_MARGIN, y + 18, fit(lane.name, room, _TEXT), "m n").rstrip()
            details = _text(_MARGIN, y + 31, fit(lane.details, room, _SMALL), "m soft s").rstrip()
            yield f"<g>{title}{name}{details}</g>\n"
            return
        name_text = fit(lane.name, room * 0.6, _SMALL)
        rest = fit(lane.details, room - width(name_text, _SMALL) - 8, 9)
        name = _text(_MARGIN, y + 14, name_text, "m n s").rstrip()
        details = _text(self._axis.left - 10, y + 14, rest, "m soft s", anchor="end").rstrip()
        yield f"<g>{title}{name}{details}</g>\n"

    def _membership(self, bar: Bar, top: float) -> str:
        caps = "".join(
            f"M{_n(x)} {_n(top - 1)}V{_n(top + self._bar + 1)}"
            for x, is_open in zip(bar.place, bar.is_open, strict=True)
            if not is_open
        )
        return (
            f'<g>{_title(bar.lines)}<rect class="bar" x="{_n(bar.place.begin)}" y="{_n(top)}" '
            f'width="{_n(bar.place.width)}" height="{self._bar}"/>'
            + (f'<path class="cap" d="{caps}"/>' if caps else "")
            + "</g>\n"
        )

    def _wait(self, bar: Bar, top: float) -> str:
        """At the lower edge: it may have other work meanwhile."""
        y, begin, width_ = top + self._bar - 1.5, bar.place.begin, max(bar.place.width, _HAIR)
        return (
            f'<g>{_title(bar.lines)}<path class="wait" d="M{_n(begin)} {_n(y)}h{_n(width_)}"/>'
            f'<rect class="hit" x="{_n(begin)}" y="{_n(y - 4)}" width="{_n(width_)}" height="8"/></g>\n'
        )

    def _owned(self, block: Block, top: float) -> Iterator[str]:
        begin, w = block.place.begin, block.place.width
        rect = f'x="{_n(begin)}" y="{_n(top)}" width="{_n(w)}"'
        yield f'<g>{_title(block.lines)}<rect class="own o{block.tone}" {rect} height="{self._bar}"/>'
        if block.times > 1:
            yield f'<rect fill="url(#gc-own)" {rect} height="{self._bar}"/>'
        if block.leads:
            yield f'<rect class="lead" {rect} height="{3 if self._is_roomy else 2}"/>'
        if label := _first_fit(block.labels, w - 6, self._letters):
            size = "" if self._is_roomy else ' font-size="9"'
            middle = top + self._bar / 2 + (5 if self._is_roomy else 4)
            yield _text(begin + w / 2, middle, label, "m o", anchor="middle", more=size).rstrip()
        yield "</g>\n"

    def _end(self, mark: Mark, top: float, following: float) -> Iterator[str]:
        bad, shape = _badge(mark.kind)
        word = _end_word(mark.kind) if mark.times == 1 else f"{mark.times}x {_end_word(mark.kind)}"
        has_room = following - mark.x >= 16  # noqa: PLR2004
        x = min(mark.x + (8 if has_room else 0), self._width - 8)
        y = top + (self._bar / 2 if has_room else 1)
        size = 1 if self._is_roomy else 0.8
        scale = "" if self._is_roomy else f" scale({size})"
        yield (
            f'<g class="end{bad}" transform="translate({_n(x)} {_n(y)}){scale}">'
            f"{_title([word, *mark.lines])}{shape}</g>\n"
        )
        if has_room and x + 10 + width(word, _SMALL) <= min(following - 4, self._axis.right):
            yield _text(x + 10, y + 3.5, word, f"s{bad or ' soft'}")


def _n(value: float) -> str:
    """A number as short as can be."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(x: float, y: float, text: str, names: str, *, anchor: str = "start", more: str = "") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{_n(x)}" y="{_n(y)}" class="{names}"{where}{more}>{escape(text)}</text>\n'


def _title(lines: Iterable[str]) -> str:
    """What is shown when the mouse rests there."""
    return f"<title>{escape(chr(10).join(map(clean, lines)))}</title>"


def _first_fit(labels: Iterable[str], room: float, size: float) -> str:
    return next((label for label in labels if width(label, size) <= room), "")


def _swatch(name: str, pattern: str, more: str = "") -> str:
    filled = f'<rect fill="url(#{pattern})" y="-5" width="12" height="10"/>' if pattern else ""
    return f'<rect class="{name}" y="-5" width="12" height="10"/>{filled}{more}'


def _triangle(kind: str) -> str:
    return f'<path class="{"in" if kind == "joined" else "again"}" d="M0-3.5L3.5 2.5H-3.5Z"/>'


def _badge(kind: str) -> tuple[str, str]:
    is_bad, path = BADGES[kind]
    full = ' class="full"' if kind == "group_full" else ""
    return (" bad" if is_bad else ""), f'<circle r="6.5"/><path{full} d="{path}"/>'


def _end_word(kind: str) -> str:
    return ENDS.get(kind, "several ends")
