"""The signs of life of members, as the tables have them: near misses, and the last ones before an expiry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from group_coordinator.history.questions import Period, text, time
from group_coordinator.history.rows import SignOfLife, read_event, sign_of_life

if TYPE_CHECKING:
    import pyarrow as pa

    from group_coordinator.history.spans import Membership

BEFORE = timedelta(minutes=10)
"""Near misses are told with a rebalance that begins within so long."""
BEFORE_AN_EXPIRY = timedelta(minutes=2)
"""The last signs of life are told of a member whose session expires within so long."""

NEWEST_SIGNS = 4
"""Signs of life before an expiry that are told of, the newest."""
_MOST_NEAR = 2_000
_MOST_GONE = 200
"""Members that a query names, those that went last."""


def signs_of_life(
    query: Callable[[str], pa.Table],
    group_id: str,
    period: Period,
    memberships: Iterable[Membership],
) -> list[SignOfLife]:
    """The near misses of a period and of the time before it, and the last signs of life before expiries.

    `memberships`: of the group, in that period. Of very many near misses it is the newest.
    """
    near = _near(query, group_id, period._replace(since=period.since - BEFORE))
    ended = ((each.until, each.member_id) for each in memberships if each.reason == "session_expired")
    expired = sorted((until, member_id) for until, member_id in ended if until is not None)[-_MOST_GONE:]
    found = [*near, *_last_signs(query, group_id, expired)]
    return sorted(found, key=lambda it: it.place)


def _near(query: Callable[[str], pa.Table], group_id: str, period: Period) -> list[SignOfLife]:
    rows = query(
        f"SELECT body, log_offset FROM events WHERE group_id = {text(group_id)} "
        f"AND event = 'session_nearly_expired' AND {period.has('at')} "
        f"ORDER BY at DESC, log_offset DESC LIMIT {_MOST_NEAR}"
    ).to_pylist()
    told = ((read_event(row["body"]), row["log_offset"]) for row in rows)
    signs = (sign_of_life(event, log_offset) for event, log_offset in told if event is not None)
    return [each for each in signs if each is not None]


def _last_signs(
    query: Callable[[str], pa.Table],
    group_id: str,
    expired: Sequence[tuple[datetime, str]],
) -> list[SignOfLife]:
    if not expired:
        return []
    gone = ", ".join(f"({text(member_id)}, {time(until)})" for until, member_id in expired)
    # A member that waits for an answer does not expire, so nothing came in that very millisecond.
    period = Period(expired[0][0] - BEFORE_AN_EXPIRY, expired[-1][0])
    condition = f"group_id = {text(group_id)} AND {period.has('at')}"
    # A commit has a row for each partition.
    rows = query(f"""\
WITH gone(id, until) AS (VALUES {gone}),
signs AS (
  SELECT DISTINCT event_id, at, log_offset, generation_id, member_id, 'committed' AS what
  FROM offsets WHERE {condition} AND change = 'committed'
  UNION ALL
  SELECT event_id, at, log_offset, generation_id, member_id, 'joined' AS what FROM joins WHERE {condition}
),
ranked AS (
  SELECT signs.*, row_number() OVER (PARTITION BY member_id ORDER BY at DESC, log_offset DESC) AS rank
  FROM signs JOIN gone ON member_id = id WHERE at < until
)
SELECT event_id, at, log_offset, generation_id, member_id, what FROM ranked WHERE rank <= {NEWEST_SIGNS}""")
    return [SignOfLife(group_id=group_id, **row) for row in rows.to_pylist()]
