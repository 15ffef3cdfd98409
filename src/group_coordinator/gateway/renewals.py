"""Patterns of groups, whose topics this gateway looks up again and again for its clients.

A group keeps the topics of a pattern for each user that may see them. So a gateway asks on the connection of
a client of that user, which is a member of the group. It writes to the group what has changed, and the group
takes that only if it is based on what it knows now. So several gateways do no harm. Time is an argument, in
seconds.

Source: GroupMetadataManager.maybeUpdateRegularExpressions of Apache Kafka 4.4, where heartbeats bring it
about: ten seconds after the last time if there are new topics, else after ten minutes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from group_coordinator.coordinator_state.requests import PatternTopics, TopicFacts
from group_coordinator.jobs.topic_patterns import Renewal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from group_coordinator.coordinator_state.responses import KnownPattern
    from group_coordinator.gateway.client import Client
    from group_coordinator.gateway.patterns import Patterns
    from group_coordinator.jobs.topic_patterns import Matched

_EVERY_S = 10.0
_JUDGED_S = 600.0
"""How long the rights on the same topics are not asked for again."""
_LOOK_S = 1.0
_AGAIN_S = 30.0
"""A group whose picture does not follow is written to again after so long. It may have refused the record."""
_PATIENCE_S = 5.0
_MOST_AT_ONCE = 100
"""Patterns that are looked up in one look."""


class KnownPatterns(NamedTuple):
    """The patterns of a group, and the version of its topic metadata."""

    version: int
    patterns: Sequence[KnownPattern]


class Told(NamedTuple):
    """The topics of a pattern, for a group that has this version of topic metadata.

    `topics`: what is known of those that it does not know.
    """

    group_id: str
    based_on: int
    pattern: PatternTopics
    topics: list[TopicFacts]


class _Key(NamedTuple):
    group_id: str
    pattern: str
    user: str


@dataclass(eq=False, slots=True)
class _Looked:
    """A pattern of a group for a user, and what the newest look at it has found."""

    due_s: float
    renewal: Renewal = field(default_factory=Renewal)
    matched: Matched | None = None
    """All topics that it matches, ..."""
    seen: frozenset[str] = frozenset()
    """... and those of them that its user may see, as was asked ..."""
    judged_s: float = 0.0
    """... then."""
    written: list[str] | None = None
    version: int = -1
    """The version of the group's topic metadata that this was based on."""
    again_s: float = 0.0


class Renewals:
    """Renews the patterns of groups."""

    def __init__(self, patterns: Patterns) -> None:
        self.patterns = patterns
        """The topics that patterns match."""
        self.tell: Callable[[Told], None] = _nobody
        """Writes to a group what it does not know."""
        self._known: dict[str, KnownPatterns] = {}
        """By group, those that have patterns."""
        self._looked: dict[_Key, _Looked] = {}
        self._clients: defaultdict[tuple[str, str], dict[Client, None]] = defaultdict(dict)
        """By group and user, the clients that are members with the rights of that user."""
        self._place_of: dict[Client, tuple[str, str]] = {}
        """The group and user of each."""
        self._now_s = self._looked_s = 0.0

    # -- groups and clients ------------------------------------------------------------------------

    def pictured(self, group_id: str, known: KnownPatterns | None) -> None:
        """Take in a group's newest picture; None: it has no patterns, or is gone."""
        before = self._known.pop(group_id, None)
        after = set() if known is None else set(_keys(group_id, known))
        for key in () if before is None else _keys(group_id, before):
            if key not in after:
                self._looked.pop(key, None)
        if known is None:
            return
        self._known[group_id] = known
        for key in after:
            # It knows what this gateway has sent along with a join.
            self._looked.setdefault(key, _Looked(self._now_s + _EVERY_S))

    def heard(self, client: Client, group_id: str, member_id: str) -> None:
        """Take in that a client is a member of a group."""
        place = group_id, client.user_as(member_id)
        if self._place_of.get(client) != place:
            self.gone(client)
            self._place_of[client] = place
            self._clients[place][client] = None

    def gone(self, client: Client) -> None:
        """Take in that a client is no member any more."""
        place = self._place_of.pop(client, None)
        if place is not None:
            clients = self._clients[place]
            del clients[client]
            if not clients:
                del self._clients[place]

    # -- time passes -------------------------------------------------------------------------------

    def expire(self, now_s: float) -> None:
        """Look at the patterns whose time has come."""
        self._now_s = now_s
        if now_s < self._looked_s + _LOOK_S:
            return
        self._looked_s = now_s
        due = [(looked.due_s, key) for key, looked in self._looked.items() if looked.due_s <= now_s]
        for _, key in sorted(due)[:_MOST_AT_ONCE]:
            looked = self._looked[key]
            looked.due_s = now_s + _EVERY_S
            client = self._client_of(key)
            if client is not None:
                then = client.later(partial(self._matched, key, looked, client))
                self.patterns.find(key.pattern, then, _PATIENCE_S)

    def _client_of(self, key: _Key) -> Client | None:
        """A client whose rights are those of the pattern's user."""
        return next(iter(self._clients.get((key.group_id, key.user), ())), None)

    def _matched(self, key: _Key, looked: _Looked, client: Client, matched: Matched | None) -> None:
        if matched is None or matched.problem is not None or self._looked.get(key) is not looked:
            return
        if looked.matched is matched and self._now_s < looked.judged_s + _JUDGED_S:
            self._compare(key, looked, looked.seen)
            return

        def judged(seen: frozenset[str]) -> None:
            looked.matched, looked.judged_s = matched, self._now_s
            looked.seen = seen & matched.topics.keys()
            self._compare(key, looked, looked.seen)

        client.may_describe(matched.topics, judged)

    def _compare(self, key: _Key, looked: _Looked, seen: Collection[str]) -> None:
        """Write to the group what it does not know yet."""
        known = self._known.get(key.group_id)
        if known is None or self._looked.get(key) is not looked:
            return
        before = next(each for each in known.patterns if (each.pattern, each.user) == key[1:])
        names = looked.renewal.news(before.topics, seen)
        is_same = looked.written == names and looked.version == known.version
        if names is None or (is_same and self._now_s < looked.again_s):
            return
        looked.written, looked.version, looked.again_s = names, known.version, self._now_s + _AGAIN_S
        topics = {} if looked.matched is None else looked.matched.topics
        new = sorted(set(names).difference(before.topics or ()))
        facts = [topics[name] for name in new if name in topics]
        matched = PatternTopics(pattern=key.pattern, topics=names, user=key.user)
        self.tell(Told(key.group_id, known.version, matched, facts))


def _nobody(_told: Told) -> None:
    """Nothing can be written yet, and no client has come."""


def _keys(group_id: str, known: KnownPatterns) -> list[_Key]:
    """The patterns of a group that gateways resolve: all but those that are left to the watcher of topics."""
    return [_Key(group_id, each.pattern, each.user) for each in known.patterns if each.user is not None]
