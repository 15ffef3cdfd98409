"""Bars and lines as SVG files, for the documentation, of what the benchmarks have written as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

from benchmarks.passing import GATEWAY
from benchmarks.report import thirds
from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_WIDTH, _LETTER, _FIGURES, _BAR, _GAP, _TOP = 760, 7.5, 320, 16, 14, 40
_LINE, _CHANGE = 34, 130
_NEIGHBOURS = ("#9aa5b1", "#7b8794", "#52606d", "#323f4b")
_OURS = ("#d9480f", "#f08c4a", "#b33a0a", "#f7a072")
Bars = dict[str, "Mapping[str, float]"]
"""By label, a group of bars with their names."""


class Picture(NamedTuple):
    """The bars that are drawn of one benchmark."""

    title: str
    bars: Callable[[Any], Bars]
    unit: str = ""
    is_one_scale: bool = True
    """False if each group of bars is as wide as its longest."""

    def svg(self, found: Any) -> str:
        """Draw what the benchmark has found."""
        return _bars_svg(self.title, self.bars(found), self.unit, is_one_scale=self.is_one_scale)


class Course(NamedTuple):
    """The lines, one for each figure, that are drawn of a benchmark which takes samples."""

    title: str

    def svg(self, found: Any) -> str:
        """Draw what the benchmark has found."""
        return _lines_svg(self.title, found["samples"])


def _latency(found: Any) -> Bars:
    loads = {"heartbeat": "heartbeat", "join, sync": "join, then sync"}
    medians = found["medians_ms"]
    return {said: {who: medians[who][load]["p50"] for who in medians} for load, said in loads.items()}


def _big_groups(found: Any) -> Bars:
    rates = ("at 3,333/s", "at full speed")
    return {
        f"{shape} {rate}": {who: figures[rate] for who, figures in medians.items()}
        for shape, medians in found["medians"].items()
        for rate in rates
    }


def _rebalance(found: Any) -> Bars:
    return {
        f"{int(size):,} members: {what}": {who: figures[what] for who, figures in medians.items()}
        for size, medians in found["medians_s"].items()
        for what in ("cold", "death")
    }


def _size(found: Any) -> Bars:
    medians = found["medians"]
    parts = {"batch, ms": "batch", "heartbeat p50, ms": "heartbeat"}
    return {
        said: {f"{int(size):,} groups": figures[part] for size, figures in medians.items()}
        for part, said in parts.items()
    }


def _passing(found: Any) -> Bars:
    parts = {
        "Fetch, MB a CPU second": ("mb_a_cpu_second", 1),
        "small Produce p50, µs": ("p50_ms", 1_000),
        "memory, MB": ("rss_mb", 1),
    }
    return {
        said: {which: figures[part] * by for which, figures in found["medians"].items() if figures[part]}
        for said, (part, by) in parts.items()
    }


_PICTURES: dict[str, Picture | Course] = {
    "latency": Picture("Round trips one at a time, median in ms", _latency),
    "groups": Picture("Groups of one member that one core sustains", lambda found: {"": found["groups"]}),
    "big-groups": Picture("Heartbeats per CPU-second", _big_groups),
    "rebalance": Picture("Until all members are Stable", _rebalance, " s"),
    "size": Picture("A batch (mean) and a heartbeat (median), in ms, beside idle groups", _size),
    "passing": Picture("What passes, through one core", _passing, is_one_scale=False),
    "endurance": Course("Under load: minute by minute, and the medians of the first third and of the last"),
}


def draw_all(source: Path, target: Path) -> list[Path]:
    """Draw the benchmarks of which there is a file in `source`; return the pictures."""
    drawn = []
    for name, picture in _PICTURES.items():
        file = source / f"{name}.json"
        if file.exists():
            drawn.append(target / f"{name}.svg")
            drawn[-1].write_text(picture.svg(json.loads(file.read_text(encoding="utf-8"))), encoding="utf-8")
    return drawn


def _bars_svg(title: str, bars: Bars, unit: str, *, is_one_scale: bool) -> str:
    longest_of_all = max(value for group in bars.values() for value in group.values())
    labels = _LETTER * max(map(len, bars)) + 8
    y, parts = _TOP, []
    for label, group in bars.items():
        middle = y + len(group) * _BAR / 2 + 4
        parts.append(f'<text x="0" y="{middle:.0f}" font-weight="bold">{escape(label)}</text>')
        ours, neighbours = iter(_OURS), iter(_NEIGHBOURS)
        longest = longest_of_all if is_one_scale else max(group.values())
        for name, value in group.items():
            colour = next(ours if name.startswith((COORDINATOR, GATEWAY)) else neighbours)
            width = value / longest * (_WIDTH - labels - _FIGURES)
            text = f"{value:,.1f}{unit}" if unit else f"{value:,.0f}"
            parts.append(
                f'<rect x="{labels}" y="{y}" width="{width:.1f}" height="{_BAR - 3}" fill="{colour}"/>'
                f'<text x="{labels + width + 6:.1f}" y="{y + _BAR - 5}">{text} · {escape(name)}</text>'
            )
            y += _BAR
        y += _GAP
    return _framed(title, y, parts)


def _lines_svg(title: str, samples: list[dict[str, float]]) -> str:
    first, last = thirds(samples)
    labels = _LETTER * max(map(len, first)) + 8
    y, parts = _TOP, []
    for name in first:
        values = [sample[name] for sample in samples]
        # One sample is a point, and nothing but zeros a line on the base.
        steps, most = max(1, len(values) - 1), max(values) or 1
        points = " ".join(
            f"{labels + number / steps * (_WIDTH - labels - _CHANGE):.1f},"
            f"{y + (_LINE - 4) * (1 - value / most):.1f}"
            for number, value in enumerate(values)
        )
        middle = y + _LINE / 2
        parts.append(
            f'<text x="0" y="{middle:.0f}" font-weight="bold">{escape(name)}</text>'
            f'<polyline points="{points}" fill="none" stroke="{_OURS[0]}" stroke-width="1.5"/>'
            f'<line x1="{labels}" x2="{_WIDTH - _CHANGE}" y1="{y + _LINE - 4}" y2="{y + _LINE - 4}" '
            f'stroke="{_NEIGHBOURS[0]}"/>'
            f'<text x="{_WIDTH - _CHANGE + 8}" y="{middle:.0f}">{first[name]:,.1f} → {last[name]:,.1f}</text>'
        )
        y += _LINE
    return _framed(title, y + _GAP, parts)


def _framed(title: str, height: int, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="0" y="20" font-size="15">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )
