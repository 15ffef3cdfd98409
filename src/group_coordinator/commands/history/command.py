"""`group-coordinator history`: what the tables answer about a group, as a table, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from group_coordinator.commands.arguments import parse_topic, parsed
from group_coordinator.commands.output import put_as_it_is
from group_coordinator.commands.terminal import config_option, fail, need, of_option, say, show
from group_coordinator.commands.times import parsed_time, utc_text

if TYPE_CHECKING:
    from group_coordinator.commands.tables import Cell, Report
    from group_coordinator.history.questions import Period
    from group_coordinator.history.reader import HistoryReader

# The names of the questions, here because --help must not need what reads tables.
_VIEWS = {
    "rebalances": "Rebalances: cause, duration, last member to join (the default).",
    "causes": "Rebalances by cause: their number, and the time that they took.",
    "states": "States of the group, one after the other.",
    "members": "Members: from when to when, and why they went.",
    "assignments": "Owners of partitions and units over time (the default with --partition).",
    "waits": "Members that still hold what others are to have (consumer protocol).",
    "joins": "Members that keep the others waiting in join phases.",
    "offsets": "Commits: of what, when, and by which member.",
    "events": "All events.",
    "lag": "Lag in each topic, as measure-lag has found it.",
}


def _views(command: Callable[..., None]) -> Callable[..., None]:
    for name, what in reversed(_VIEWS.items()):
        command = click.option(f"--{name}", "views", flag_value=name, help=what)(command)
    return command


@click.command()
@click.argument("group", required=False)
@_views
@click.option(
    "--explain",
    is_flag=True,
    help="Say in plain words what happened in each rebalance, with the evidence of each sentence.",
)
@click.option(
    "--cause",
    metavar="CAUSE",
    help="Without a GROUP: show only groups that rebalanced for this cause, such as session_expired.",
)
@click.option(
    "--member",
    help="Show only this member: its member id, client id or instance id. Without a GROUP: groups with it.",
)
@click.option(
    "--partition",
    callback=parsed(parse_topic),
    metavar="TOPIC[:0]",
    help="Show only this topic, unit of work, or partition. Without a GROUP: groups that owned it.",
)
@click.option(
    "--from",
    "since",
    callback=parsed_time,
    is_eager=True,  # what --to means depends on it
    metavar="TIME",
    help="Begin of the period.  [default: 24h]",
)
@click.option(
    "--to",
    "until",
    callback=parsed_time,
    metavar="TIME",
    help="End of the period.  [default: now, or --as-of]",
)
@click.option(
    "--at",
    "moment",
    callback=parsed_time,
    metavar="TIME",
    help="Show what was true at this moment; of rebalances the two that had begun last, with 14:05 as the "
    "whole minute.",
)
@click.option(
    "--as-of",
    callback=parsed_time,
    metavar="TIME",
    help="Read the tables as they were then, up to a week ago.",
)
@click.option(
    "--timeline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw a timeline instead: as .svg, or as .html with a table of rebalances.",
)
@click.option("--sql", is_flag=True, help="Print the query instead of its answer. Spark can run it as well.")
@click.option("--output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
@of_option()
@click.option(
    "--history-path", help="Directory or object-store URI of the tables.  [default: the setting history.path]"
)
@config_option("Settings file (TOML), for history.path.")
def history(  # noqa: PLR0913 - one for each option
    *,
    group: str | None,
    of: str | None,
    views: str | None,
    explain: bool,
    since: datetime | None,
    until: datetime | None,
    moment: datetime | None,
    as_of: datetime | None,
    timeline: Path | None,
    sql: bool,
    output: str,
    history_path: str | None,
    config: Path | None,
    **narrowed: Any,
) -> None:
    """Ask what happened to a group.

    Without a GROUP it lists all groups, the worst first: not Stable for longest, then most rebalances, then
    the oldest record that is left. The answers come from the tables of
    `group-coordinator write-history`. All times are UTC. Write a time as 2026-01-31T14:05, as 14:05 (today or
    yesterday), as now, or as 30m, 24h, 7d ago.

    \b
    Which groups rebalance most?
      group-coordinator history --from 7d
    In which groups did sessions expire tonight?
      group-coordinator history --cause session_expired --from 22:00 --to 06:00
    Why did it rebalance at 14:05?
      group-coordinator history orders --at 14:05
    What happened then, in plain words?
      group-coordinator history orders --explain --at 14:05
    Why were there so many rebalances last night?
      group-coordinator history orders --from 22:00 --to 06:00
    How long does it rebalance, and what costs most?
      group-coordinator history orders --causes --from 7d
    When was it not Stable?
      group-coordinator history orders --states
    Which member slows every join phase?
      group-coordinator history orders --joins --from 7d
    Who owned orders-3 at 14:05?
      group-coordinator history orders --partition orders:3 --at 14:05
    What did worker-7 own, and when?
      group-coordinator history orders --assignments --member worker-7
    Who still holds what another member waits for, and since when?
      group-coordinator history orders --waits --at now
    Who went, and why?
      group-coordinator history orders --members
    Which generation is it, and who is in it with what?
      group-coordinator history orders --assignments --at now
    Who committed what on orders-3, and when?
      group-coordinator history orders --offsets --partition orders:3
    How far was it behind last night?
      group-coordinator history orders --lag --from 22:00 --to 06:00
    What was known of that on Friday at noon?
      group-coordinator history orders --members --as-of 2026-01-30T12:00
    Draw the last hour
      group-coordinator history orders --from 1h --timeline orders.svg
    """  # noqa: D301 - click's mark for a block that is not to be wrapped is this very character
    need("history", "deltalake", "pyarrow")
    from group_coordinator.commands.history.explaining import explained
    from group_coordinator.commands.settings import history_settings
    from group_coordinator.history.errors import HistoryError
    from group_coordinator.history.reader import HistoryReader

    period = _period(since, until, moment, as_of or datetime.now(UTC))
    if explain and (group is None or views or sql or timeline or any(narrowed.values())):
        raise click.UsageError("--explain takes a group, and --at or --from and --to, and no other question")
    narrowed["at"] = moment
    if timeline is not None:
        _check_timeline(timeline, group, views or sql or any(narrowed.values()))
    query = _query(group, period, views, narrowed)
    if sql:
        put_as_it_is(f"{query};\n")
        return
    reader = HistoryReader(history_path or history_settings(config, {"of": of}).history_path, as_of)
    try:
        if timeline is not None:
            _draw(reader, str(group), period, timeline)
            return
        report = explained(reader, str(group), period) if explain else _report(reader, query)
        _add_reach(report, reader, group, moment)
    except HistoryError as error:
        fail(error)
    show(report, output)
    sys.exit(report.exit_code)


def _period(since: datetime | None, until: datetime | None, moment: datetime | None, now: datetime) -> Period:
    from group_coordinator.history.errors import HistoryError
    from group_coordinator.history.questions import Period

    if moment is not None and (since or until):
        raise click.UsageError("--at cannot be used with --from and --to")
    try:
        return Period.ending(moment or since, moment or until, now=now)
    except HistoryError:
        raise click.UsageError("--from is later than --to") from None


def _query(group: str | None, period: Period, view: str | None, narrowed: Mapping[str, Any]) -> str:
    from group_coordinator.coordinator_state.events import RebalanceCause
    from group_coordinator.history.questions import About, fleet, question_called

    topic, numbers = narrowed["partition"] or (None, None)
    if numbers and len(numbers) > 1:
        raise click.UsageError("--partition takes one partition")
    partition = numbers[0] if numbers else None
    member, cause = narrowed["member"], narrowed["cause"]
    if group is None:
        if view or narrowed["at"]:
            raise click.UsageError("name a group, or ask for all groups without --at and questions")
        if cause is not None and cause not in list(RebalanceCause):
            raise click.UsageError(f"--cause must be one of {', '.join(RebalanceCause)}")
        return fleet(period, cause=cause, member=member, topic=topic, partition=partition)
    if cause is not None:
        raise click.UsageError("--cause is for all groups: --causes shows those of a group")
    name = view or ("assignments" if narrowed["partition"] else "rebalances")
    question = question_called(name)
    about = About(group, period, member, topic, partition)
    if refused := question.refuses(about):
        raise click.UsageError(f"--{refused} cannot be used with --{question.name}")
    return question.sql(about)


def _check_timeline(file: Path, group: str | None, others: object) -> None:
    if group is None or others:
        raise click.UsageError("--timeline takes a group, --from and --to, and nothing else")
    if file.suffix not in (".svg", ".html"):
        raise click.UsageError("--timeline wants a file called .svg or .html")


def _draw(reader: HistoryReader, group: str, period: Period, file: Path) -> None:
    from group_coordinator.history.timeline import timeline_html, timeline_svg

    story = reader.story(group, *period)
    if not story.transitions and group not in reader.groups():
        fail(_nothing(reader, group))
    draw = timeline_svg if file.suffix == ".svg" else timeline_html
    try:
        file.write_text(draw(story, *period), encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")
    say(f"{file} has the timeline of group {group}")


def _report(reader: HistoryReader, query: str) -> Report:
    from group_coordinator.commands.tables import Report, Table, as_wide_as_needed

    found = reader.query(query)
    headings = [name.replace("_", "-").upper() for name in found.column_names]
    rows = [tuple(map(_cell, row.values())) for row in found.to_pylist()]
    columns = tuple(each._replace(optional=True) for each in as_wide_as_needed(headings))
    return Report([Table(columns, rows, apart=False, hidden=not rows)])


def _add_reach(report: Report, reader: HistoryReader, group: str | None, moment: datetime | None) -> None:
    """Say why there is nothing, and how far the tables reach."""
    if report.is_empty:
        is_known = group in (None, *reader.groups())
        tell = report.note if is_known else report.fail
        tell(_nothing(reader, group, moment))
    newest = reader.reaches_to()
    if newest is not None:
        report.note(f"The tables reach to {utc_text(newest)}.")


def _nothing(reader: HistoryReader, group: str | None, moment: datetime | None = None) -> str:
    """Why there is nothing to see."""
    if group is None:
        return "There was no such group in that time."
    if group not in reader.groups():
        return f"The history knows no group '{group}'."
    if moment is not None:
        return f"Nothing of that kind is known of group '{group}' at that time."
    return f"Nothing of that kind is known of group '{group}' in that time. Look further back with --from?"


def _cell(value: Any) -> Cell:
    if isinstance(value, datetime):
        return utc_text(value)
    cell: Cell = value
    return cell
