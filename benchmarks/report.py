"""What all benchmarks have in common: percentiles, tables and the JSON file."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

_FILE_WIDTH = 200


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * percent // 100) - 1)]


def medians_of(rounds: list[Any]) -> Any:
    """Of each figure the median; each round has the same figures, in the same nested dicts."""
    if isinstance(rounds[0], dict):
        return {name: medians_of([each[name] for each in rounds]) for name in rounds[0]}
    return statistics.median(rounds)


def ratios_to(neighbour: Any, rounds: list[dict[Any, Any]]) -> Any:
    """As `medians_of`, but of each figure's ratio to that of `neighbour` in the same round."""
    return medians_of(
        [{who: _ratios(figures, each[neighbour]) for who, figures in each.items()} for each in rounds]
    )


def _ratios(figures: Any, others: Any) -> Any:
    if isinstance(figures, dict):
        return {name: _ratios(value, others[name]) for name, value in figures.items()}
    return figures / others if others else math.inf


def thirds(samples: list[dict[str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """The medians of the first third and of the last, without the minutes."""
    third = max(1, len(samples) // 3)
    figures = [{name: value for name, value in each.items() if name != "minute"} for each in samples]
    return medians_of(figures[:third]), medians_of(figures[-third:])


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table; the first column is text, the others are figures."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        # In a file there is room; rich takes 80 columns and cuts the figures.
        console.width = _FILE_WIDTH
    console.print(table)


def beside(medians: dict[int, dict[str, dict[str, float]]], neighbour: str, who: str) -> list[list[str]]:
    """A row for each figure of groups of each size: the neighbour's, that of `who`, and the ratio."""
    return [
        [
            f"{size:,} members: {name}",
            f"{theirs:.1f}",
            f"{ours:.1f}",
            f"{ours / theirs:.2f}" if theirs else "",
        ]
        for size, found in medians.items()
        for name, theirs in found[neighbour].items()
        for ours in [found[who][name]]
    ]


def tell(what: str, figures: object) -> None:
    """Say what has been found so far: all of it takes long."""
    Console(stderr=True).print(f"{what}: {figures}", highlight=False, soft_wrap=True)


def write(file: Path | None, figures: dict[str, Any]) -> None:
    """Write the figures with what they depend on; nothing without a file."""
    if file is None:
        return
    machine = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "python": platform.python_version()}
    file.write_text(json.dumps({"machine": machine, **figures}, indent=2) + "\n", encoding="utf-8")
