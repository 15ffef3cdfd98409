"""Bars as SVG files, for the documentation, of what the benchmarks have written as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape

from benchmarks.streams import COORDINATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_WIDTH, _LETTER, _FIGURES, _BAR, _GAP, _TOP = 760, 7.5, 320, 16, 14, 40
_NEIGHBOURS = ("#9aa5b1", "#7b8794", "#52606d", "#323f4b")
_OURS = ("#d9480f", "#f08c4a", "#b33a0a", "#f7a072")
Bars = dict[str, "Mapping[str, float]"]
"""By label, a group of bars with their names."""


class Picture(NamedTuple):
    """What is drawn of one benchmark."""

    title: str
    bars: Callable[[Any], Bars]
    unit: str = ""


def _latency(found: Any) -> Bars:
    loads = {"heartbeat": "heartbeat", "join, sync": "join, then sync"}
    medians = found["medians_ms"]
    return {said: {who: medians[who][load]["p50"] for who in medians} for load, said in loads.items()}


def _big_groups(found: Any) -> Bars:
    rates = ("at 3,333/s", "as fast as answered")
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


_PICTURES = {
    "latency": Picture("Round trips one at a time, median in ms", _latency),
    "groups": Picture("Groups of one member that one core sustains", lambda found: {"": found["groups"]}),
    "big-groups": Picture("Heartbeats per CPU-second", _big_groups),
    "rebalance": Picture("Until all members are Stable", _rebalance, " s"),
    "size": Picture("A batch (mean) and a heartbeat (median), in ms, beside idle groups", _size),
}


def draw_all(source: Path, target: Path) -> list[Path]:
    """Draw the benchmarks of which there is a file in `source`; return the pictures."""
    drawn = []
    for name, picture in _PICTURES.items():
        file = source / f"{name}.json"
        if file.exists():
            bars = picture.bars(json.loads(file.read_text(encoding="utf-8")))
            drawn.append(target / f"{name}.svg")
            drawn[-1].write_text(_svg(picture.title, bars, picture.unit), encoding="utf-8")
    return drawn


def _svg(title: str, bars: Bars, unit: str) -> str:
    longest = max(value for group in bars.values() for value in group.values())
    labels = _LETTER * max(map(len, bars)) + 8
    y, parts = _TOP, []
    for label, group in bars.items():
        middle = y + len(group) * _BAR / 2 + 4
        parts.append(f'<text x="0" y="{middle:.0f}" font-weight="bold">{escape(label)}</text>')
        ours, neighbours = iter(_OURS), iter(_NEIGHBOURS)
        for name, value in group.items():
            colour = next(ours if name.startswith(COORDINATOR) else neighbours)
            width = value / longest * (_WIDTH - labels - _FIGURES)
            text = f"{value:,.1f}{unit}" if unit else f"{value:,.0f}"
            parts.append(
                f'<rect x="{labels}" y="{y}" width="{width:.1f}" height="{_BAR - 3}" fill="{colour}"/>'
                f'<text x="{labels + width + 6:.1f}" y="{y + _BAR - 5}">{text} · {escape(name)}</text>'
            )
            y += _BAR
        y += _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="0" y="20" font-size="15">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )
