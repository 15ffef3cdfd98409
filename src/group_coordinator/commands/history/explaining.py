"""`group-coordinator history GROUP --explain`: rebalances in plain words, each sentence with its evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from group_coordinator.commands.tables import Line, Note, Report, Table, as_wide_as_needed
from group_coordinator.history.timeline.text import cause_in_words, clean, counted, span_of_time, writer

if TYPE_CHECKING:
    from group_coordinator.history.questions import Period
    from group_coordinator.history.reader import HistoryReader
    from group_coordinator.history.timeline.explain import Rebalance, Sentence

__all__ = ["explained"]

_MOST = 200
"""Rebalances that are explained at once, the newest."""
_COLUMNS = as_wide_as_needed(
    ("BEGAN", "ENDED", "CAUSE", "TOOK-MS", "AT", "TEXT", "EVENT-ID", "LOG-OFFSET", "MEMBER-ID")
)


def explained(reader: HistoryReader, group: str, period: Period) -> Report:
    """The rebalances of the period, or the one of its moment. JSON and CSV have a row for each sentence."""
    if period.is_moment:
        found = reader.explain(group, at=period.since)
    else:
        found = reader.explain(group, since=period.since, until=period.until)
    report = Report()
    if len(found) > _MOST:
        report.items.append(Note(f"The newest {_MOST} of {len(found):,} rebalances. Ask for a shorter time?"))
    rows = []
    for number, (rebalance, sentences) in enumerate(found[-_MOST:]):
        report.items.append(Line(_heading(rebalance), apart=number > 0))
        write = writer(rebalance.began, rebalance.ended or rebalance.began)
        for each in sentences:
            report.items += [Line(f"  {write(each.at)}  {each.text}"), Line(f"      {_evidence(each)}")]
            whole = (_time(rebalance.began), _time(rebalance.ended), rebalance.cause, rebalance.took_ms)
            rows.append((*whole, _time(each.at), each.text, each.event_id, each.log_offset, each.member_id))
    report.items.append(Table(_COLUMNS, rows, hidden=True))
    return report


def _heading(rebalance: Rebalance) -> str:
    began = f"{rebalance.began.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    took = rebalance.took_ms
    length = "for an unknown time" if took is None else f"for {span_of_time(timedelta(milliseconds=took))}"
    if rebalance.ended is None:
        length = "not over"
    members = "" if rebalance.members is None else f", {counted(rebalance.members, 'member')} in the end"
    return f"Rebalance at {began}: {clean(cause_in_words(rebalance.cause))}, {length}{members}"


def _evidence(sentence: Sentence) -> str:
    parts = [f"event {sentence.event_id or 'not known'}"]
    if sentence.log_offset is not None:
        parts.append(f"log offset {sentence.log_offset}")
    if sentence.member_id is not None:
        parts.append(f"member {sentence.member_id}")
    return f"[{', '.join(parts)}]"


def _time(at: datetime | None) -> str | None:
    return (
        None
        if at is None
        else f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
    )
