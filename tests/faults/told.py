"""What must be true of the history's tables: they tell of each event once, and of what the members saw."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.coordinator_state.events import AnyEvent
from group_coordinator.history.fold import fold, table_of
from group_coordinator.history.tables import TABLES
from tests.faults.notes import Owned
from tests.faults.view import View, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.history import History

__all__ = ["expected_tables", "one_owner_at_a_time", "owners_as_members_saw_it", "rows_of_events"]


def expected_tables(history: History) -> dict[str, list[dict[str, Any]]]:
    """The tables, made of the events in one go, without Spark."""
    view = View(history)
    tables: dict[str, list[dict[str, Any]]] = {table.name: [] for table in TABLES}
    bodies = {msgspec.json.decode(it.value or b"{}")["event_id"]: it.value or b"" for it in history.events}
    tables["events"] = [{"event_id": name, "body": body.decode()} for name, body in bodies.items()]
    for events in view.events.values():
        for row in fold((0, msgspec.convert(event, AnyEvent)) for event in events):
            tables[table_of(row).name].append(msgspec.structs.asdict(row))
    return tables


def rows_of_events(view: View) -> Iterator[Violation]:
    """Each table has the rows that the events make, each once, whatever happened to who wrote them."""
    for name, wanted in expected_tables(view.history).items():
        # Of an event that was repeated, one or the other offset counts.
        columns = [name for name in (wanted[0] if wanted else ()) if name != "log_offset"]
        expected = Counter(_text(row, columns) for row in wanted)
        found = Counter(_text(row, columns) for row in view.history.tables[name])
        for row, times in (found - expected).items():
            rule = "a row is there twice" if expected[row] else "a row comes from nowhere"
            yield Violation(rule, name, f"{row}, {times} too many")
        for row in expected - found:
            yield Violation("a row is missing", name, row)


def _text(row: dict[str, Any], columns: list[str]) -> str:
    return msgspec.json.encode([row[name] for name in columns]).decode()


def one_owner_at_a_time(view: View) -> Iterator[Violation]:
    """No two members owned the same at the same time."""
    spans = defaultdict(list)
    for row in view.history.tables["assignments"]:
        if row["topic"] is not None:
            spans[row["group_id"], row["topic"], row["partition"]].append(row)
    for (group_id, *unit), rows in spans.items():
        rows.sort(key=lambda row: (row["since"], row["until"] is None, row["until"]))
        for before, after in pairwise(rows):
            if before["until"] is None or before["until"] > after["since"]:
                yield Violation("spans overlap", group_id, f"{unit}: {before} and {after}")


def owners_as_members_saw_it(view: View) -> Iterator[Violation]:
    """What a member says it was given in a generation is what the table says it owned."""
    owned: dict[tuple[str, int, str], set[tuple[str, int]]] = defaultdict(set)
    for row in view.history.tables["assignments"]:
        key = row["group_id"], row["generation_id"], row["member_id"]
        owned[key].add((row["topic"], row["partition"]))
    for note in view.history.notes:
        if isinstance(note, Owned):
            found = owned[note.group_id, note.generation_id, note.member_id]
            # Members call a partition by topic and number, and a unit, which is partition 0 of its name, so.
            if set(note.units) not in ({topic for topic, _ in found}, {f"{t}-{p}" for t, p in found}):
                yield Violation("a member saw something else", note.group_id, f"{note}, not {found}")
