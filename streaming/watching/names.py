"""The topics that groups name, and the parts in which brokers are asked about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from group_coordinator.coordinator_state.responses import KnownTopic
    from group_coordinator.streaming.watching.telling import Telling

_PART_NAMES = 1_000
_PART_PARTITIONS = 50_000
"""Partitions of all topics of a part, as far as is known: an answer of about 3 MB."""
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Names of topics (org.apache.kafka.common.internals.Topic)."""


def brokers_know(topic: KnownTopic) -> bool:
    """Whether brokers may know a topic that a group names.

    They know no units of work, which have no id. And they end the connection if they are asked about a name
    that is very long.
    """
    is_unit = topic.topic_id is None and topic.partitions > 0
    return not is_unit and _LEGAL.fullmatch(topic.name) is not None


class Part:
    """Names that one question is about. `digest`: of the answer to it that was read last."""

    __slots__ = ("digest", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.digest = b""


class Names:
    """Names of topics, each with the ids of the groups that name it."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, None]] = {}
        self._parts: list[Part] | None = None
        self.pairs = 0
        """Names in all groups, each as often as there are groups that name it."""

    @property
    def all(self) -> Collection[str]:
        """The names."""
        return self._groups.keys()

    def groups(self, name: str) -> dict[str, None]:
        """The groups that name a topic."""
        return self._groups[name]

    def add(self, group_id: str, names: Collection[str]) -> bool:
        """Take in that a group names these as well; return whether nobody has named one of them before."""
        are_new = False
        self.pairs += len(names)
        for name in names:
            if name not in self._groups:
                self._groups[name] = {}
                self._parts = None
                are_new = True
            self._groups[name][group_id] = None
        return are_new

    def remove(self, group_id: str, names: Collection[str]) -> list[str]:
        """Take in that a group does not name these any more; return those that nobody does now."""
        self.pairs -= len(names)
        unnamed = []
        for name in names:
            groups = self._groups[name]
            del groups[group_id]
            if not groups:
                del self._groups[name]
                self._parts = None
                unnamed.append(name)
        return unnamed

    def restart(self) -> None:
        """Forget which answers were read."""
        self._parts = None

    def parts(self, telling: Telling) -> list[Part]:
        """All names in order, in parts. They are the same as before if the names are."""
        if self._parts is None:
            self._parts = [Part(names) for names in _divided(sorted(self._groups), telling)]
        return self._parts


def _divided(names: Iterable[str], telling: Telling) -> Iterable[list[str]]:
    part: list[str] = []
    partitions = 0
    for name in names:
        told = telling.of(name)
        count = 1 if told is None else told.partitions
        if part and (len(part) == _PART_NAMES or partitions + count > _PART_PARTITIONS):
            yield part
            part, partitions = [], 0
        part.append(name)
        partitions += count
    if part:
        yield part
