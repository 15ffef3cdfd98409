"""Groups for which there is no room, with as much of them as is needed to measure them later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka.structs import TopicPartition


class Commit(NamedTuple):
    """The newest commit of a group in a partition. `topic_id`: as the commit has given it, or empty."""

    at_ms: int
    offset: int
    topic_id: str


Commits = dict[TopicPartition, Commit]


class WaitingGroups:
    """The newest commits of groups, of `most_partitions` at most. Of groups beyond that only the ids."""

    def __init__(self, most_partitions: int) -> None:
        self._most = most_partitions
        self._commits: dict[str, Commits] = {}
        self._count = 0
        self._forgotten: set[str] = set()

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._commits or group_id in self._forgotten

    @property
    def group_ids(self) -> set[str]:
        """All groups that wait."""
        return self._commits.keys() | self._forgotten

    @property
    def has_forgotten(self) -> bool:
        """Whether there are groups of which only the id is known."""
        return bool(self._forgotten)

    def committed(self, group_id: str, partition: TopicPartition, commit: Commit) -> None:
        """A group that waits has committed, or one begins to wait."""
        if group_id in self._forgotten:
            return
        commits = self._commits.setdefault(group_id, {})
        if partition not in commits and self._count >= self._most:
            self._count -= len(self._commits.pop(group_id))
            self._forgotten.add(group_id)
            return
        self._count += partition not in commits
        commits[partition] = commit

    def deleted(self, group_id: str, partition: TopicPartition) -> bool:
        """A group has no offset there any more; returns whether that is known of a group that waits."""
        commits = self._commits.get(group_id, {})
        if commits.pop(partition, None) is None:
            return False
        self._count -= 1
        if not commits:
            del self._commits[group_id]
        return True

    def take(self, room: int) -> Iterator[tuple[str, Commits]]:
        """Let the groups go that fit into the room, in partitions. The ones that wait longest go first."""
        for group_id in [*self._commits] if room > 0 else ():
            if len(self._commits[group_id]) <= room:
                commits = self._commits.pop(group_id)
                self._count -= len(commits)
                room -= len(commits)
                yield group_id, commits
