"""Answers to questions about groups: the page shows them, and the API writes them as JSON.

They come from several sources. Some topics are read all the time (`live`, `measurements`). The coordinator
and the brokers are asked while somebody looks (`lags`). The history has tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from group_coordinator.client.lag_log import Measurement
from group_coordinator.client.progress import Progress
from group_coordinator.client.work import assigned_partitions
from group_coordinator.coordinator_state.consumer_protocol import CONSUMER
from group_coordinator.coordinator_state.responses import GroupPicture
from group_coordinator.history.errors import HistoryError
from group_coordinator.history.questions import About, Period, question_called
from group_coordinator.history.rows import ms_of
from group_coordinator.history.story import LagPoint, Story
from group_coordinator.page.answers import (
    Asked,
    Counted,
    Events,
    Group,
    GroupLag,
    GroupLine,
    HistoryAnswer,
    HistoryGroups,
    Lag,
    Partition,
    PartitionsAsked,
    Side,
    Timeline,
)
from group_coordinator.page.lags import Lags, Measured
from group_coordinator.page.live import Live
from group_coordinator.page.measurements import Measurements
from group_coordinator.page.memory import Kept, Listed
from group_coordinator.page.overview import LastDay, Overview
from group_coordinator.page.pulse import Pulse
from group_coordinator.page.queries import (
    EventsQuery,
    GroupsQuery,
    HistoryGroupsQuery,
    HistoryQuery,
    TimelineQuery,
)
from group_coordinator.page.web import BadQueryError, NotFoundError, time_in

if TYPE_CHECKING:
    from group_coordinator.history.reader import HistoryReader

_LONGEST = timedelta(days=400)
_MOST_ROWS = 100_000
"""Rows that the history may find for a question, of which an answer has the first ones."""
FAILURES: dict[type[Exception], HTTPStatus] = {
    BadQueryError: HTTPStatus.BAD_REQUEST,
    NotFoundError: HTTPStatus.NOT_FOUND,
    HistoryError: HTTPStatus.SERVICE_UNAVAILABLE,
}
"""The reasons why a question has no answer, and what HTTP calls them."""
Item = TypeVar("Item")


class Sources(NamedTuple):
    """The sources of all answers about one side.

    `past` opens the history; `measurements` are those of `measure-lag`.
    """

    live: Live
    lags: Lags
    past: Callable[[], HistoryReader] | None = None
    measurements: Callable[[], Measurements] = Measurements
    bootstrap_servers: str = ""
    of: Side = "coordinator"


class Found(NamedTuple):
    """The groups of a side: the `lines` of those that were asked for, in no order, and all that are `listed`.

    `lags`: those that are known, by group id. `are_asked`: the lag of some group is asked for, since it is
    not measured; `asked`: the newest answer.
    """

    of: Side
    lines: list[GroupLine]
    listed: list[Listed]
    lags: Mapping[str, Lag]
    are_asked: bool
    asked: Asked | None
    counted: Counted


class Questions:
    """Answers questions about the groups of one side. `clock`: the time in UTC.

    Raises `BadQueryError`, `NotFoundError`, `HistoryError`.
    """

    def __init__(self, sources: Sources, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._of = sources
        self.of = sources.of
        self.now = clock
        # Tables are read by all cores at once: two at a time are enough.
        self._reading = threading.Semaphore(2)
        self._overview = Overview(sources.past, clock)

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that all is about."""
        return self._of.bootstrap_servers

    @property
    def has_history(self) -> bool:
        """Whether there is a history to ask."""
        return self._of.past is not None

    # -- now ---------------------------------------------------------------------------------------------

    def found(self, query: GroupsQuery) -> Found:
        """The groups that were asked for."""
        memory = self._of.live.memory
        listed = memory.groups()
        lags, are_asked, asked = self._lags_of(listed)
        named = memory.named(query.q) if query.q else None
        day = self._overview.of(memory, listed, self.as_of(), query)
        until_ms = ms_of(self.as_of())
        lines = [
            _line(each, self.of, lags.get(each.group_id), day, until_ms)
            for each in listed
            if (named is None or each.group_id in named)
            and (day.chosen is None or each.group_id in day.chosen)
            and query.state in ("", each.state)
        ]
        counted = Counted(day.since_ms, day.problem)
        return Found(self.of, lines, listed, lags, are_asked, asked, counted)

    def group(self, group_id: str) -> Group:
        """A group as it is."""
        picture = self._of.live.memory.picture(group_id)
        if picture is None:
            raise NotFoundError(f"there is no group {group_id!r}")
        measured = self.measurement(group_id)
        lag = None if measured is None else _lag_measured(measured)
        return Group(self.of, picture, owned_by(picture), lag, targets_of(picture))

    def lag(self, group_id: str) -> GroupLag:
        """The lag of a group. Waits for the coordinator's and the brokers' answers."""
        if self._of.live.memory.picture(group_id) is None:
            # Anybody may type any name into an address; the coordinator is not asked about each.
            raise NotFoundError(f"there is no group {group_id!r}")
        measured = self._of.lags.ask(group_id)
        if measured is None:
            asked = PartitionsAsked(ms_of(self.now()), "too many others ask at the same time: ask again", [])
        else:
            rows = measured.rows.get(group_id, ())
            asked = PartitionsAsked(ms_of(measured.at), measured.problem, [_partition(row) for row in rows])
        return GroupLag(group_id, self.of, asked, self.measurement(group_id), self.points(group_id))

    def events(self, query: EventsQuery) -> Events:
        """Events of a group that are kept, the oldest first."""
        kept = self.kept(query.group_id, query.since, query.after)
        shown = kept[: query.limit]
        following = shown[-1].event_id if len(kept) > len(shown) else None
        return Events(query.group_id, self.of, [msgspec.Raw(each.body) for each in shown], following)

    def kept(self, group_id: str, since: str | None = None, after: str = "") -> list[Kept]:
        """The same, as they are in the topic."""
        kept = self._of.live.memory.events(group_id)
        if after:
            places = [place for place, each in enumerate(kept) if each.event_id == after]
            if places:
                return kept[places[0] + 1 :]
        since_ms = 0 if since is None else ms_of(time_in("since", since))
        return [each for each in kept if each.at_ms >= since_ms]

    def story(self, group_id: str) -> Story | None:
        """The story of a group as far as its events are kept; None if nothing is known of it."""
        story = self._of.live.memory.story(group_id)
        if story is not None:
            story.lag = self.points(group_id)
        return story

    def picture(self, group_id: str) -> GroupPicture | None:
        """A group as it is, if there is one."""
        return self._of.live.memory.picture(group_id)

    def measurement(self, group_id: str) -> Measurement | None:
        """The newest measurement of its lag, however old it is."""
        return self._of.measurements().newest(group_id)

    def points(self, group_id: str) -> list[LagPoint]:
        """Its lag over time."""
        return self._of.measurements().points(group_id)

    def asked(self, group_id: str | None) -> Measured | None:
        """The coordinator's and the brokers' newest answers about a group or all; None: on their way."""
        return self._of.lags.newest(group_id)

    # -- the past ----------------------------------------------------------------------------------------

    def timeline(self, query: TimelineQuery) -> Timeline:
        """The story of a group over a time."""
        until = self.now() if query.to is None else time_in("to", query.to)
        since = until - timedelta(hours=1) if query.from_ is None else time_in("from", query.from_)
        if not since < until <= since + _LONGEST:
            raise BadQueryError(f"from must be before to, by at most {_LONGEST.days} days")
        if query.past:
            return Timeline(since, until, self.past_story(query.group_id, since, until)[0])
        story = self.story(query.group_id)
        if story is None:
            raise NotFoundError(f"nothing is known of group {query.group_id!r}")
        return Timeline(since, until, story)

    def past_story(self, group_id: str, since: datetime, until: datetime) -> tuple[Story, datetime | None]:
        """The story as the history has it, and up to when it knows anything."""
        with self._opened() as past:
            return past.story(group_id, since, until), past.reaches_to()

    def history_groups(self, query: HistoryGroupsQuery) -> HistoryGroups:
        """The groups that the history knows, also those that are gone."""
        with self._opened() as past:
            group_ids, reaches_to = past.groups(), past.reaches_to()
        found = [each for each in group_ids if query.q in each]
        shown, following = some(found, query.offset, query.limit)
        return HistoryGroups(self.of, reaches_to, len(found), shown, following)

    def history(self, query: HistoryQuery) -> HistoryAnswer:
        """The answer of the history to a question."""
        question = question_called(query.question)
        about = About(query.group_id, self._period(query), query.member, query.topic, query.partition)
        if refused := question.refuses(about):
            raise BadQueryError(f"{refused} cannot be asked with {question.name}")
        if query.partition is not None and query.topic is None:
            raise BadQueryError("partition needs topic")
        with self._opened() as past:
            found = past.query(question.sql(about), most_rows=_MOST_ROWS)
            reaches_to = past.reaches_to()
        rows = found.slice(0, query.limit).to_pylist()
        return HistoryAnswer(found.column_names, rows, len(rows) == found.num_rows, reaches_to)

    def _period(self, query: HistoryQuery) -> Period:
        if query.at is not None:
            if query.from_ is not None or query.to is not None:
                raise BadQueryError("at cannot be asked with from and to")
            at = time_in("at", query.at)
            return Period(at, at)
        since = None if query.from_ is None else time_in("from", query.from_)
        until = None if query.to is None else time_in("to", query.to)
        try:
            return Period.ending(since, until, now=self.now())
        except HistoryError as error:
            raise BadQueryError(str(error)) from None

    @contextmanager
    def _opened(self) -> Iterator[HistoryReader]:
        if self._of.past is None:
            name = "history.path" if self.of == "coordinator" else "brokers.history.path"
            raise HistoryError(f"there is no history to look at: set {name} to where write-history writes")
        with self._reading:
            yield self._of.past()

    # -- what they need ----------------------------------------------------------------------------------

    def as_of(self) -> datetime:
        """The time up to which what is known holds."""
        return self._of.live.pulse.as_of(self.now())

    @property
    def silent_ms(self) -> int | None:
        """The time since the last sign of a coordinator, in ms; None if there was none."""
        heard_at = self._of.live.pulse.heard_at
        return None if heard_at is None else max(0, ms_of(self.now()) - ms_of(heard_at))

    @property
    def has_forgotten(self) -> bool:
        """Whether there was no room for some groups."""
        return self._of.live.memory.has_forgotten

    @property
    def problem(self) -> str | None:
        """The reason why this may not be all, or may not hold any more."""
        live = self._of.live
        return live.problem or self._silence(live.pulse)

    def _silence(self, pulse: Pulse) -> str | None:
        if not pulse.is_silent(self.now()):
            return None
        since = (
            "in the last hours" if pulse.heard_at is None else f"since {pulse.heard_at:%Y-%m-%d %H:%M:%S} UTC"
        )
        return (
            f"no coordinator has run {since}: groups are as they were then, and nobody is expired meanwhile"
        )

    def _lags_of(self, listed: Iterable[Listed]) -> tuple[dict[str, Lag], bool, Asked | None]:
        """The lags that are known: as measured, else as the coordinator and the brokers have answered.

        These are asked only if a group is not measured, since they are asked about all groups. Whether they
        are comes second, and their answer third.
        """
        fresh = self._of.measurements().fresh(self.now())
        found = {group_id: _lag_measured(each) for group_id, each in fresh.items()}
        others = [each.group_id for each in listed if each.group_id not in found]
        asked = self.asked(None) if others else None
        if asked is None:
            return found, bool(others), None
        for group_id in others if asked.problem is None else ():
            total = asked.total(group_id)
            if total is not None:
                found[group_id] = Lag(total, ms_of(asked.at))
        return found, True, when_asked(asked)


def when_asked(measured: Measured) -> Asked:
    """The time at which the coordinator and the brokers have answered, or why they have not."""
    return Asked(ms_of(measured.at), measured.problem)


def owned_by(picture: GroupPicture) -> dict[str, list[tuple[str, int]] | None]:
    """The partitions of each member, by member id; None if they cannot be read."""
    return _read({member.member_id: member.member_assignment for member in picture.members}, picture)


def targets_of(picture: GroupPicture) -> dict[str, list[tuple[str, int]] | None]:
    """The partitions that each member of a group of the consumer protocol is to have, likewise."""
    targets = {it.member_id: it.target_assignment for it in picture.members}
    return _read({name: it for name, it in targets.items() if it is not msgspec.UNSET}, picture)


def _read(assignments: Mapping[str, bytes], picture: GroupPicture) -> dict[str, list[tuple[str, int]] | None]:
    found = {name: assigned_partitions(picture.protocol_type or "", it) for name, it in assignments.items()}
    return {
        member_id: None if partitions is None else [(each.topic, each.partition) for each in partitions]
        for member_id, partitions in found.items()
    }


def _line(listed: Listed, of: Side, lag: Lag | None, day: LastDay, until_ms: int) -> GroupLine:
    recent = day.groups[listed.group_id]
    # Nobody writes down when a classic group at the brokers begins a rebalance, so one may last that nobody
    # knows of.
    is_hidden = of == "brokers" and listed.group_type != CONSUMER
    not_stable_ms = None if is_hidden else recent.not_stable_ms
    all_ms = max(1, until_ms - day.since_ms)
    return GroupLine(
        listed.group_id,
        of,
        listed.state,
        ms_of(listed.since),
        listed.generation_id,
        listed.members,
        recent.rebalances,
        recent.last_cause,
        not_stable_ms,
        None if not_stable_ms is None else round(min(100.0, 100 * not_stable_ms / all_ms), 3),
        lag,
        listed.group_type,
    )


def in_order(lines: list[GroupLine], query: GroupsQuery) -> list[GroupLine]:
    """Sort lines, those that are equal by their ids; those of which it is not known come last."""

    def value(line: GroupLine) -> Any:
        if query.sort == "worst":
            age_ms = 0 if line.lag is None else line.lag.age_ms or 0
            return line.not_stable_ms or 0, line.rebalances, age_ms
        if query.sort in ("records", "age_ms"):
            return None if line.lag is None else getattr(line.lag, query.sort)
        return getattr(line, query.sort)

    known = sorted((each for each in lines if value(each) is not None), key=lambda it: it.group_id)
    known.sort(key=value, reverse=query.direction == "desc")
    return known + [each for each in lines if value(each) is None]


def some(items: Sequence[Item], offset: int, limit: int) -> tuple[list[Item], int | None]:
    """Some of the items, and the offset of those that follow, if any do."""
    end = offset + limit
    return list(items[offset:end]), end if end < len(items) else None


def _partition(row: Progress) -> Partition:
    owner = row.owner
    return Partition(
        row.partition.topic,
        row.partition.partition,
        row.offset,
        row.log_end,
        row.lag,
        None if owner is None else owner.member_id,
        None if owner is None else owner.client_id,
        None if owner is None else owner.client_host,
    )


def _lag_measured(each: Measurement) -> Lag:
    return Lag(
        each.records,
        each.measured_timestamp_ms,
        each.age_ms,
        each.error_ms,
        each.at_least,
        each.trend,
        each.clear_in_ms,
        each.lost_records,
        each.lost_in_ms,
    )
