"""The output of commands, and the three ways to write it: tables for people, JSON and CSV with the same rows.

Tables look like those of kafka-consumer-groups.sh (ConsumerGroupCommand.java of Apache Kafka 4.2).
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from group_coordinator.commands.output import json_of, put, put_as_it_is, put_json, tell
from group_coordinator.jobs.printable import printable_label, printable_name

_MISSING = "-"

Cell = str | int | Mapping[str, Sequence[int]] | None
"""A value of a table: a text, a number, or the partitions of topics. None: there is none."""

Row = tuple[Cell, ...]


class Column(NamedTuple):
    """A column of a table. `width`: its least; `grows`: whether longer values widen it; `margin`: is added.

    One that is `verbose` is only there if it is asked for.
    One that is `optional` is left out where a table has no value for it.
    One that is `for_programs` is only in JSON and CSV.
    """

    heading: str
    width: int = 0
    grows: bool = False
    margin: int = 0
    optional: bool = False
    verbose: bool = False
    for_programs: bool = False

    @property
    def key(self) -> str:
        """The heading in snake_case, for JSON."""
        return re.sub(r"\W+", "_", self.heading).strip("_").lower()


def as_wide_as_needed(headings: Iterable[str]) -> tuple[Column, ...]:
    """Columns that are as wide as their longest value."""
    return tuple(Column(heading, len(heading), grows=True, margin=1) for heading in headings)


@dataclass(frozen=True)
class Table:
    """Rows under headings.

    These flags are for the form for people. A table that is `bare` has no headings. A table that is `apart`
    comes after an empty line. A table that is `hidden` is not shown, because other words tell the same.
    """

    columns: tuple[Column, ...]
    rows: Sequence[Row]
    bare: bool = False
    apart: bool = True
    hidden: bool = False

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Iterable[Row], *, verbose: bool = False) -> Self:
        """Make a table, with or without the columns that are `verbose`; the rows have them all."""
        kept = [i for i, column in enumerate(columns) if verbose or not column.verbose]
        return cls(tuple(columns[i] for i in kept), [tuple(row[i] for i in kept) for row in rows])

    def lines(self) -> Iterator[str]:
        """The table for people."""
        if self.hidden:
            return
        shown = [
            (column, [printable_name(_text(row[i])) for row in self.rows])
            for i, column in enumerate(self.columns)
            if not column.for_programs
            and (not column.optional or any(row[i] is not None for row in self.rows))
        ]
        if self.apart:
            yield ""
        widths = [
            max([column.width, *(map(len, texts) if column.grows else ())]) + column.margin
            for column, texts in shown
        ]
        if not self.bare:
            yield _aligned([column.heading for column, _ in shown], widths)
        for texts in zip(*(texts for _, texts in shown), strict=True):
            yield _aligned(texts, widths)


@dataclass(frozen=True)
class Line:
    """Good news for people, after an empty line if `apart`; JSON and CSV say it in a table."""

    text: str
    apart: bool = False


@dataclass(frozen=True)
class File:
    """The text of a file, which programs read; JSON and CSV say it in a table."""

    text: str


@dataclass(frozen=True)
class Note:
    """A message that is not an error."""

    text: str


@dataclass(frozen=True)
class Failure:
    """Something that was asked for and cannot be had."""

    text: str


@dataclass
class Report:
    """All that an action has to say, in order."""

    items: list[Table | Line | File | Note | Failure] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if all that was asked for was done, otherwise 1."""
        return int(any(isinstance(item, Failure) for item in self.items))

    @property
    def is_empty(self) -> bool:
        """Whether no table has a row."""
        return not any(table.rows for table in self._tables())

    def fail(self, text: str) -> None:
        """Say that something that was asked for cannot be had."""
        self.items.append(Failure(text))

    def note(self, text: str) -> None:
        """Say something that is not an error."""
        self.items.append(Note(text))

    def written(self, form: str) -> Iterator[tuple[str, Callable[[str], None]]]:
        """Yield what to print, piece by piece, each with the function that prints it.

        Only programs get names as they are; the rest is printable.
        """
        apart = "\n" if form == "table" else ""
        for item in self.items:
            match item:
                case Note(text):
                    yield f"{apart}{printable_label(text)}\n", tell
                case Failure(text):
                    yield f"{apart}error: {printable_label(text)}\n", tell
                case Line(text, is_apart) if form == "table":
                    before = "\n" if is_apart else ""
                    yield f"{before}{printable_label(text)}\n", put
                case File(text) if form == "table":
                    yield text, put_as_it_is
                case Table() if form == "table":
                    yield "".join(f"{line}\n" for line in item.lines()), put
                case _:
                    pass
        if form == "json":
            yield self._json(), put_json
        elif form == "csv":
            yield self._csv(), put_as_it_is

    def _tables(self) -> list[Table]:
        return [item for item in self.items if isinstance(item, Table)]

    def _json(self) -> str:
        rows = [
            dict(zip([column.key for column in table.columns], row, strict=True))
            for table in self._tables()
            for row in table.rows
        ]
        return json_of(rows, indent=2) + "\n"

    def _csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        tables = self._tables()
        if tables:
            writer.writerow(column.heading for column in tables[0].columns)
        for table in tables:
            writer.writerows([_text(cell, missing="") for cell in row] for row in table.rows)
        return text.getvalue()


def _text(cell: Cell, missing: str = _MISSING) -> str:
    if cell is None:
        return missing
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, Mapping):
        topics = sorted(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in cell.items())
        return ";".join(topics) or missing
    return str(cell)


def _aligned(texts: Sequence[str], widths: Sequence[int]) -> str:
    # Blanks at the end of a line are of no use to anybody.
    return " ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip()
