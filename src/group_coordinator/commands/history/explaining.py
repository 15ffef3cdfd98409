"""`group-coordinator history GROUP --explain`: rebalances in plain words, each sentence with its evidence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from group_coordinator.commands.tables import Line, Report, Table, as_wide_as_needed
from group_coordinator.commands.times import utc_text
from group_coordinator.history.timeline.text import cause_in_words, clean, counted, span_of_time, writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from group_coordinator.commands.tables import Cell
    from group_coordinator.history.questions import Period
    from group_coordinator.history.reader import HistoryReader
    from group_coordinator.history.timeline.explain import Rebalance
    from group_coordinator.history.timeline.sentence import Sentence

_MOST = 200
"""Rebalances that are explained at once, the newest."""
_MOST_NEAR = 20
"""Near misses besides, the newest."""
_COLUMNS = as_wide_as_needed(
    ("BEGAN", "ENDED", "CAUSE", "TOOK-MS", "AT", "TEXT", "EVENT-ID", "LOG-OFFSET", "MEMBER-ID")
)


def explained(reader: HistoryReader, group: str, period: Period) -> Report:
    """The rebalances of the period, or the one of its moment, and near misses besides.

    JSON and CSV have a row for each sentence; that of a near miss besides has no rebalance.
    """
    asked = {"at": period.since} if period.is_moment else {"since": period.since, "until": period.until}
    found = reader.explain(group, **asked)
    report = Report()
    if len(found) > _MOST:
        report.note(f"The newest {_MOST} of {len(found):,} rebalances. Ask for a shorter time?")
    rows: list[tuple[Cell, ...]] = []
    for rebalance, sentences in found[-_MOST:]:
        report.items.append(Line(_heading(rebalance), apart=bool(rows)))
        write = writer(rebalance.began, rebalance.ended or rebalance.began)
        report.items += _lines(sentences, write)
        whole = (_time(rebalance.began), _time(rebalance.ended), rebalance.cause, rebalance.took_ms)
        rows += (_row(whole, each) for each in sentences)
    told = {each.event_id for _, sentences in found for each in sentences}
    near = [each for each in reader.near_misses(group, **asked) if each.event_id not in told][-_MOST_NEAR:]
    if near:
        report.items.append(Line("Sessions that had nearly expired, without a rebalance", apart=bool(rows)))
        report.items += _lines(near, writer(near[0].at, near[-1].at))
        rows += (_row((None, None, None, None), each) for each in near)
    report.items.append(Table(_COLUMNS, rows, hidden=True))
    return report


def _lines(sentences: Iterable[Sentence], write: Callable[[datetime], str]) -> Iterator[Line]:
    for each in sentences:
        yield Line(f"  {write(each.at)}  {each.text}")
        yield Line(f"      {_evidence(each)}")


def _row(of_rebalance: tuple[Cell, ...], sentence: Sentence) -> tuple[Cell, ...]:
    evidence = (sentence.event_id, sentence.log_offset, sentence.member_id)
    return (*of_rebalance, _time(sentence.at), sentence.text, *evidence)


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
    return None if at is None else utc_text(at)
