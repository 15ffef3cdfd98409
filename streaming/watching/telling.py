"""The newest that brokers say of topics. Each round asks about all names, and another broker if it can.

A broker that lags behind says what was so before. That harms nobody if it says that there are fewer
partitions. But an id that was replaced never comes back to a group. So what takes something from a group
counts only if it was said in two rounds, one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from group_coordinator.jobs.topic_answers import Said

_NONE, _UNKNOWN_TOPIC, _TOPIC_AUTHORIZATION_FAILED = 0, 3, 29
"""Kafka's error codes."""
_SURE = 2
"""Rounds, one after the other, that have to say the same."""
_MOST_FORMER = 100


class Told(NamedTuple):
    """The topic that brokers tell of when they are asked about a name, in each round from `since` on.

    There is no such topic if `topic_id` is empty; `partitions` is 0 then.
    """

    topic_id: str
    partitions: int
    since: int


class Telling:
    """The topic of each name, as brokers say; nothing if they have just said something else."""

    def __init__(self) -> None:
        self.round = 0
        """The number of the newest round."""
        self._told: dict[str, Told] = {}
        self.unseen: set[str] = set()
        """Names of topics that the watcher may not see."""
        self._sure_ids: dict[str, str] = {}
        """The id that surely was a name's before what is told now; empty if there was no such topic."""
        self._former_ids: dict[str, dict[str, None]] = {}
        """The ids that surely were a name's before that. A broker that says one of them lags behind."""

    def of(self, name: str) -> Told | None:
        """The topic of a name, as brokers say; None if nothing is known."""
        return self._told.get(name)

    def is_sure(self, told: Told, since: int) -> bool:
        """Whether two rounds have said this, one after the other, both after round `since`."""
        return self.round - max(told.since - 1, since) >= _SURE

    def take(self, names: Iterable[str], said: Mapping[str, Said]) -> list[str]:
        """Take in what a broker has said of `names` in this round. Returns those with news."""
        return [name for name in names if self._take(name, said.get(name))]

    def missed(self, names: Iterable[str]) -> None:
        """Take in that nothing was said of `names` in this round, so that a new row begins."""
        for name in names:
            self._forget(name)

    def stop(self) -> None:
        """Take in that nobody asks for now: what was said may not be so any more."""
        for name in list(self._told):
            self._forget(name)
        self.unseen.clear()

    def drop(self, name: str) -> None:
        """Forget a name about which nobody will ask again."""
        self._told.pop(name, None)
        self._sure_ids.pop(name, None)
        self._former_ids.pop(name, None)
        self.unseen.discard(name)

    def _take(self, name: str, said: Said | None) -> bool:
        """Return whether it is news."""
        if said is not None and said.error_code == _TOPIC_AUTHORIZATION_FAILED:
            self.unseen.add(name)
        else:
            self.unseen.discard(name)
        before = self._told.get(name)
        now = _identity(said)
        if now is not None and before is not None and now[0] == before.topic_id:
            self._told[name] = Told(*now, before.since)
            return now[1] != before.partitions
        self._forget(name)
        if now is None or now[0] in self._former_ids.get(name, ()):
            return False
        self._told[name] = Told(*now, self.round)
        return True

    def _forget(self, name: str) -> None:
        """Something else is said from this round on. Remember the id if it surely was the name's."""
        told = self._told.pop(name, None)
        # It was not said in this round.
        if told is None or self.round - told.since < _SURE:
            return
        before = self._sure_ids.get(name)
        if before and before != told.topic_id:
            former = self._former_ids.setdefault(name, {})
            former[before] = None
            if len(former) > _MOST_FORMER:
                del former[next(iter(former))]
        self._sure_ids[name] = told.topic_id


def _identity(said: Said | None) -> tuple[str, int] | None:
    """The topic's id and partitions, nothing if it is gone; None if that is not said."""
    if said is None:
        return None
    if said.error_code == _UNKNOWN_TOPIC:
        return "", 0
    if said.error_code == _NONE and said.topic_id and said.partitions:
        return said.topic_id, said.partitions
    return None
