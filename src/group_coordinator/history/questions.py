"""The questions that people ask of a history, as SQL over its tables.

Spark and DataFusion both understand the SQL, so the query that `--sql` shows also runs in a notebook.
`tests/history/test_questions.py` asks both. Times are in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Self

from group_coordinator.history.errors import HistoryError
from group_coordinator.history.rows import AT_REST, ON_THE_WAY, REBALANCING, ms_of

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)


# -- words -----------------------------------------------------------------------------------------------


def text(value: str) -> str:
    """A string in SQL. A backslash is a call, because to Spark it is an escape."""
    parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\\")]
    return parts[0] if len(parts) == 1 else f"concat({', chr(92), '.join(parts)})"


def time(value: datetime) -> str:
    """A time in SQL."""
    return f"TIMESTAMP '{value.astimezone(UTC).isoformat(sep=' ', timespec='milliseconds')}'"


class Period(NamedTuple):
    """A time from `since` (included) to `until` (not). If they are the same, that moment."""

    since: datetime
    until: datetime

    @classmethod
    def ending(cls, since: datetime | None, until: datetime | None, *, now: datetime) -> Self:
        """The period that somebody means: of what is not said, since a day before now, and until now.

        Raises `HistoryError` if it begins after its end.
        """
        period = cls(since or now - _DAY, until or now)
        if period.since > period.until:
            raise HistoryError(f"the period begins at {period.since} and ends before, at {period.until}")
        return period

    @property
    def is_moment(self) -> bool:
        """Whether it has no length."""
        return self.since == self.until

    @property
    def end_of_moment(self) -> datetime:
        """The first instant that is not meant any more: people who say 14:05 mean the minute."""
        is_minute = not (self.until.second or self.until.microsecond)
        return self.until + (timedelta(minutes=1) if is_minute else timedelta(milliseconds=1))

    def has(self, column: str) -> str:
        """Whether a time is in the period. It names the day as well, by which the tables are partitioned."""
        first, last = self.since.astimezone(UTC).date(), self.until.astimezone(UTC).date()
        return (
            f"day BETWEEN DATE '{first}' AND DATE '{last}' "
            f"AND {column} >= {time(self.since)} AND {column} < {time(self.until)}"
        )

    def meets(self, since: str, until: str) -> str:
        """Whether a span and the period have some time in common."""
        begins = "<=" if self.is_moment else "<"
        return (
            f"({since} IS NULL OR {since} {begins} {time(self.until)}) "
            f"AND ({until} IS NULL OR {until} > {time(self.since)})"
        )


class About(NamedTuple):
    """The subject of a question. `member`: a member id, client id or instance id; None: any."""

    group_id: str
    period: Period
    member: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def group(self) -> str:
        """The condition on the group."""
        return f"group_id = {text(self.group_id)}"

    def of_member(self, table: str = "") -> str:
        """The condition on the member, to follow another one."""
        if self.member is None:
            return ""
        prefix = f"{table}." if table else ""
        names = ("member_id", "client_id", "group_instance_id")
        columns = ", ".join(f"coalesce({prefix}{name}, '')" for name in names)
        return f" AND {text(self.member)} IN ({columns})"

    def of_partition(self) -> str:
        """The condition on topic and partition, to follow another one."""
        topic = "" if self.topic is None else f" AND topic = {text(self.topic)}"
        return topic + ("" if self.partition is None else f" AND partition = {self.partition}")


_AT_REST, _ON_THE_WAY, _REBALANCING = (
    ", ".join(map(text, states)) for states in (AT_REST, ON_THE_WAY, REBALANCING)
)
_BEGINS = (
    "(to_state = 'PreparingRebalance' AND from_state <> 'CompletingRebalance' "
    f"OR to_state IN ({_ON_THE_WAY}) AND from_state NOT IN ({_ON_THE_WAY}))"
)
_ENDS = f"to_state IN ({_AT_REST}) AND from_state NOT IN ({_AT_REST}) AND cause IS NOT NULL"
"""Whether a transition is the end of a rebalance. How long it took is not known of a group at the brokers."""
_NUMBER = "CAST(at AS DECIMAL(26, 6))"
_AT_MS = f"CAST({_NUMBER} * 1000 / (CAST(at + INTERVAL '1' SECOND AS DECIMAL(26, 6)) - {_NUMBER}) AS BIGINT)"
"""A time as ms since 1970. As a number it is in seconds (Spark) or microseconds (DataFusion)."""


# -- questions -------------------------------------------------------------------------------------------


def _rebalances(about: About) -> str:
    # Of a moment people want to know why the group rebalanced then, and when it had done so before.
    chosen, order = about.period.meets("began", "ended"), "began"
    if about.period.is_moment:
        chosen, order = f"began < {time(about.period.end_of_moment)}", "began DESC LIMIT 2"
    return f"""\
WITH steps AS (
  SELECT at AS began, to_state, {_BEGINS} AS begins, reason,
    lead(at) OVER (ORDER BY at, log_offset) AS ended,
    lead(to_state) OVER (ORDER BY at, log_offset) AS ended_in,
    lead(rebalance_ms) OVER (ORDER BY at, log_offset) AS took_ms,
    lead(generation_id) OVER (ORDER BY at, log_offset) AS generation_id,
    cause
  FROM transitions
  WHERE {about.group} AND (to_state IN ({_AT_REST}) OR {_BEGINS})
), changes AS (
  SELECT since AS at, 1 AS change FROM membership WHERE {about.group}
  UNION ALL SELECT until, -1 FROM membership WHERE {about.group} AND until IS NOT NULL
  UNION ALL SELECT ended, 0 FROM steps WHERE ended IS NOT NULL
), sizes AS (
  SELECT DISTINCT at, sum(change) OVER (ORDER BY at NULLS FIRST) AS members FROM changes
), last_joins AS (
  SELECT generation_id + 1 AS generation_id, at, client_id, join_phase_ms,
    row_number() OVER (PARTITION BY generation_id ORDER BY at DESC, log_offset DESC) AS place
  FROM joins WHERE {about.group} AND join_phase_ms IS NOT NULL
)
SELECT began, took_ms, ended_in, cause, reason, steps.generation_id, members,
  client_id AS last_to_join, join_phase_ms AS joined_after_ms
FROM steps
  LEFT JOIN sizes ON sizes.at = ended
  LEFT JOIN last_joins ON last_joins.generation_id = steps.generation_id
    AND last_joins.at BETWEEN began AND ended AND place = 1
WHERE begins AND {chosen}
ORDER BY {order}"""


def _causes(about: About) -> str:
    return f"""\
SELECT cause, count(*) AS rebalances, sum(rebalance_ms) AS total_ms,
  CAST(avg(rebalance_ms) AS BIGINT) AS average_ms, max(rebalance_ms) AS longest_ms
FROM transitions
WHERE {about.group} AND {_ENDS} AND {about.period.has("at")}
GROUP BY cause ORDER BY total_ms DESC NULLS LAST, cause"""


def _states(about: About) -> str:
    return f"""\
WITH states AS (
  SELECT at AS since, lead(at) OVER (ORDER BY at, log_offset) AS until, log_offset,
    to_state AS state, generation_id, cause, reason, principal
  FROM transitions WHERE {about.group}
)
SELECT since, until, state, generation_id, cause, reason, principal
FROM states WHERE {about.period.meets("since", "until")}
ORDER BY since, log_offset"""


def _members(about: About) -> str:
    return f"""\
SELECT client_id, group_instance_id, member_id, client_host, since, until, reason, client_reason,
  session_timeout_ms, last_commit_ms
FROM membership
WHERE {about.group} AND {about.period.meets("since", "until")}{about.of_member()}
ORDER BY since, client_id, member_id"""


def _assignments(about: About) -> str:
    return f"""\
WITH owned AS (
  SELECT topic, partition, member_id, generation_id, since, until
  FROM assignments
  WHERE {about.group} AND {about.period.meets("since", "until")}{about.of_partition()}
), {_members_of(about)}
SELECT topic, partition, client_id, group_instance_id, member_id, generation_id, since, until
FROM owned LEFT JOIN members ON id = member_id
WHERE true{about.of_member()}
ORDER BY topic, partition, since, client_id"""


def _members_of(about: About) -> str:
    # A member of the consumer protocol may have been in several times under one id.
    return f"""\
members AS (
  SELECT member_id AS id, max(client_id) AS client_id, max(group_instance_id) AS group_instance_id
  FROM membership WHERE {about.group} GROUP BY member_id
)"""


def _waits(about: About) -> str:
    # Somebody asks about a member that waits, or about one that others wait for.
    named = [f"{about.of_member(table)[5:]}" for table in ("holder", "waiting")]
    of_member = "" if about.member is None else f" AND ({' OR '.join(named)})"
    return f"""\
WITH waited AS (
  SELECT topic, partition, holder_id, member_id AS waiting_id, assignment_epoch, since, until
  FROM waits
  WHERE {about.group} AND {about.period.meets("since", "until")}{about.of_partition()}
), {_members_of(about)}, named AS (
  SELECT id AS member_id, client_id, group_instance_id FROM members
)
SELECT topic, partition, holder.client_id AS held_by, holder_id, waiting.client_id AS waited_for_by,
  waiting_id, assignment_epoch, since, until
FROM waited
  LEFT JOIN named AS holder ON holder.member_id = holder_id
  LEFT JOIN named AS waiting ON waiting.member_id = waiting_id
WHERE true{of_member}
ORDER BY since, topic, partition, holder_id"""


def _joins(about: About) -> str:
    # One member is always the last. A slow member is not the one that is last most often, but the one that
    # all others waited for.
    return f"""\
WITH phases AS (
  SELECT client_id, group_instance_id, member_id, join_phase_ms,
    row_number() OVER (PARTITION BY generation_id ORDER BY at DESC, log_offset DESC) AS place,
    lead(join_phase_ms) OVER (PARTITION BY generation_id ORDER BY at DESC, log_offset DESC) AS others_ms
  FROM joins WHERE {about.group} AND join_phase_ms IS NOT NULL AND {about.period.has("at")}
)
SELECT client_id, group_instance_id, count(*) AS joins,
  sum(CASE WHEN place = 1 AND others_ms IS NOT NULL THEN 1 ELSE 0 END) AS last_to_join,
  sum(CASE WHEN place = 1 THEN coalesce(join_phase_ms - others_ms, 0) ELSE 0 END) AS waited_for_ms,
  CAST(avg(join_phase_ms) AS BIGINT) AS average_ms, max(join_phase_ms) AS longest_ms
FROM phases WHERE true{about.of_member()}
GROUP BY client_id, group_instance_id ORDER BY waited_for_ms DESC, average_ms DESC, client_id"""


def _offsets(about: About) -> str:
    # The client is told with a commit, the instance is not.
    member = "" if about.member is None else f" AND {text(about.member)} IN (member_id, client_id)"
    return f"""\
SELECT at, topic, partition, change, committed_offset, metadata, principal, client_id, client_reason,
  member_id, generation_id
FROM offsets
WHERE {about.group} AND {about.period.has("at")}{about.of_partition()}{member}
ORDER BY at, log_offset, topic, partition"""


def _events(about: About) -> str:
    return f"""\
SELECT at, event, generation_id, principal, event_id, body
FROM events
WHERE {about.group} AND {about.period.has("at")}
ORDER BY at, log_offset"""


def _lag(about: About) -> str:
    return f"""\
SELECT at, topic, partitions, records, age_ms, error_ms, at_least, status, trend, clear_in_ms,
  lost_records
FROM lag
WHERE {about.group} AND {about.period.has("at")}
ORDER BY at, topic"""


class Question(NamedTuple):
    """A question about one group. `takes`: which of member, partition and moment it can be narrowed to."""

    name: str
    sql: Callable[[About], str]
    takes: frozenset[str] = frozenset()

    def refuses(self, about: About) -> str | None:
        """The narrowing (member, partition or at) that is asked for and means nothing to this question."""
        narrowed = {
            _MEMBER: about.member is not None,
            _PARTITION: (about.topic, about.partition) != (None, None),
            _AT: about.period.is_moment,
        }
        return next(
            (each for each, is_asked in narrowed.items() if is_asked and each not in self.takes), None
        )


_MEMBER, _PARTITION, _AT = "member", "partition", "at"
QUESTIONS = (
    Question("rebalances", _rebalances, frozenset({_AT})),
    Question("causes", _causes),
    Question("states", _states, frozenset({_AT})),
    Question("members", _members, frozenset({_MEMBER, _AT})),
    Question("assignments", _assignments, frozenset({_MEMBER, _PARTITION, _AT})),
    Question("waits", _waits, frozenset({_MEMBER, _PARTITION, _AT})),
    Question("joins", _joins, frozenset({_MEMBER})),
    Question("offsets", _offsets, frozenset({_MEMBER, _PARTITION})),
    Question("events", _events),
    Question("lag", _lag),
)
"""`group-coordinator history --help` says what each is."""


def question_called(name: str) -> Question:
    """The question of this name. Raises `HistoryError` if there is none."""
    for question in QUESTIONS:
        if question.name == name:
            return question
    names = ", ".join(question.name for question in QUESTIONS)
    raise HistoryError(f"there is no question {name!r}: choose from {names}")


def fleet(
    period: Period,
    *,
    cause: str | None = None,
    member: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> str:
    """All groups that moved, were measured or had members, the worst first.

    Worst is the group that was not Stable for longest, then the one with most rebalances, then the one with
    the oldest record left. The time in which a group was Empty does not count. `not_stable_ms` is null if the
    length of a rebalance is not known. With `cause`, `member`, `topic` and `partition` it is groups that had
    such a rebalance, such a member, or a member that owned that.
    """
    since_ms, until_ms = map(ms_of, period)
    before = period._replace(since=period.since - _DAY)
    measured = period._replace(since=max(period.since, period.until - _HOUR))
    about = About("", period, member, topic, partition)
    chosen = ""
    if cause is not None:
        of_cause = f"{period.has('at')} AND cause = {text(cause)}"
        chosen += f"\n  AND it.group_id IN (SELECT group_id FROM transitions WHERE {of_cause})"
    if member is not None:
        of_member = f"{period.meets('since', 'until')}{about.of_member()}"
        chosen += f"\n  AND it.group_id IN (SELECT group_id FROM membership WHERE {of_member})"
    if topic is not None:
        of_topic = f"{period.meets('since', 'until')}{about.of_partition()}"
        chosen += f"\n  AND it.group_id IN (SELECT group_id FROM assignments WHERE {of_topic})"
    return f"""\
WITH steps AS (
  SELECT group_id, at, from_state, to_state, cause, rebalance_ms, {_AT_MS} AS at_ms,
    lead({_AT_MS}) OVER (PARTITION BY group_id ORDER BY at, log_offset) AS next_ms,
    row_number() OVER (PARTITION BY group_id, cause IS NULL ORDER BY at DESC, log_offset DESC) AS place
  FROM transitions WHERE {before.has("at")}
), moves AS (
  SELECT *, at_ms >= {since_ms} AS is_in, CASE WHEN to_state IN ({_REBALANCING})
    THEN greatest(least(coalesce(next_ms, {until_ms}), {until_ms}) - greatest(at_ms, {since_ms}), 0)
    ELSE 0 END AS not_stable_ms
  FROM steps
), moved AS (
  SELECT group_id, count(CASE WHEN is_in AND {_ENDS} THEN 1 END) AS rebalances,
    max(CASE WHEN place = 1 AND (is_in OR not_stable_ms > 0) THEN cause END) AS last_cause,
    CASE WHEN count(CASE WHEN is_in AND {_ENDS} AND rebalance_ms IS NULL THEN 1 END) = 0
      THEN sum(not_stable_ms) END AS not_stable_ms,
    max(CASE WHEN is_in THEN rebalance_ms END) AS longest_ms,
    max(CASE WHEN is_in THEN at END) AS last_move
  FROM moves GROUP BY group_id HAVING max(is_in OR not_stable_ms > 0)
), newest AS (
  SELECT group_id, max(at) AS newest_at FROM lag WHERE {measured.has("at")} GROUP BY group_id
), lags AS (
  SELECT lag.group_id, sum(records) AS records, max(age_ms) AS age_ms, max(trend) AS trend
  FROM lag JOIN newest ON lag.group_id = newest.group_id AND lag.at = newest_at
  WHERE {measured.has("at")} GROUP BY lag.group_id
), ids AS (
  SELECT group_id FROM moved UNION SELECT group_id FROM lags
  UNION SELECT group_id FROM membership WHERE {period.meets("since", "until")}
), it AS (
  SELECT ids.group_id, coalesce(rebalances, 0) AS rebalances, last_cause,
    CASE WHEN moved.group_id IS NULL THEN 0 ELSE not_stable_ms END AS not_stable_ms,
    longest_ms, last_move, records, age_ms, trend
  FROM ids LEFT JOIN moved ON moved.group_id = ids.group_id LEFT JOIN lags ON lags.group_id = ids.group_id
)
SELECT group_id, rebalances, last_cause, not_stable_ms,
  round(100.0 * CAST(not_stable_ms AS DOUBLE) / {max(until_ms - since_ms, 1)}, 3) AS not_stable_percent,
  longest_ms, last_move, records, age_ms, trend
FROM it WHERE true{chosen}
ORDER BY coalesce(not_stable_ms, 0) DESC, rebalances DESC, coalesce(age_ms, 0) DESC, group_id"""
