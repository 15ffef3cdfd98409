"""Members that came late, in plain words: near misses, and the signs of life before an expiry.

A pure function of a story. Heartbeats are no events, so it tells of joins, of commits, and of what came
shortly before a session would have expired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from group_coordinator.history.rows import SignOfLife
from group_coordinator.history.signs import BEFORE_AN_EXPIRY, NEWEST_SIGNS
from group_coordinator.history.spans import Membership
from group_coordinator.history.story import Story, between
from group_coordinator.history.timeline.names import Names
from group_coordinator.history.timeline.sentence import Sentence
from group_coordinator.history.timeline.text import clean, span_of_time

_LOOKED_AT = 100
"""Signs of life of a member that are looked at, the newest."""

_WHAT = {"joined": "joined", "committed": "committed offsets"}


class Late:
    """Tells of the signs of life in a story."""

    def __init__(self, story: Story, names: Names) -> None:
        self._names = names
        self._hosts = {each.member_id: each.client_host for each in story.memberships}
        self._near = [each for each in story.signs if each.is_late]
        self._of_member: dict[str, list[SignOfLife]] = {}
        for each in story.signs:
            self._of_member.setdefault(each.member_id, []).append(each)

    def near_misses(self, since: datetime, until: datetime) -> list[Sentence]:
        """All near misses from `since` to `until`, both included."""
        return [self._sentence(each) for each in between(self._near, since, until, _at)]

    def of_member(self, member_id: str) -> list[Sentence]:
        """All near misses of a member."""
        return [self._sentence(each) for each in self._of_member.get(member_id, ()) if each.is_late]

    def before(self, member: Membership) -> list[Sentence]:
        """The newest signs of life before a session expired, with the gaps between them."""
        newest = self._newest(member)
        gaps = [None, *(after.at - before.at for before, after in pairwise(newest))]
        return [self._sentence(*each) for each in zip(newest, gaps, strict=False)]

    def _newest(self, member: Membership) -> Sequence[SignOfLife]:
        if member.reason != "session_expired" or member.until is None:
            return ()
        signs = self._of_member.get(member.member_id, ())
        until, since = bisect_right(signs, member.until, key=_at), member.until - BEFORE_AN_EXPIRY
        # A commit may be a near miss, or a member may join twice at a time: of each time one is told.
        times = {each.at: each for each in reversed(signs[max(0, until - _LOOKED_AT) : until])}
        return [each for at, each in sorted(times.items()) if at >= since][-NEWEST_SIGNS:]

    def _sentence(self, sign: SignOfLife, gap: timedelta | None = None) -> Sentence:
        text = self._names.name(sign.member_id)
        if sign.remaining_ms is None or sign.session_timeout_ms is None:
            text += f" {_WHAT.get(sign.what, 'showed a sign of life')}"
        else:
            host = self._hosts.get(sign.member_id)
            at = f" at {clean(host)}" if host else ""
            left, session = (_length(it) for it in (sign.remaining_ms, sign.session_timeout_ms))
            text += f"{at} showed a sign of life {left} before its session of {session} would have expired"
        text += "."
        if gap is not None and not sign.is_late:
            text += f" The log has a sign of life of it {span_of_time(gap)} before."
        return Sentence(sign.at, text, sign.event_id, sign.log_offset, sign.member_id)


def _at(sign: SignOfLife) -> datetime:
    return sign.at


def _length(ms: int) -> str:
    return span_of_time(timedelta(milliseconds=ms))
