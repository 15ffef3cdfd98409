"""The topics that the members of a group name, and what the group knows of each.

The core asks no broker. It knows a topic because a heartbeat has told it (a hint), or because a record of
topic metadata has. A hint only adds: a topic of which nothing is known, or partitions under the same id. So
members that see different numbers cannot make the group go back and forth. Only topic metadata says that a
topic is gone, or that another one has its name.

A group numbers its topics, so that assignments are small. Two topics of one name, of which one was deleted,
are two numbers. A topic keeps its number as long as a member has a partition of it, so that a partition is
never two. The id says which topic it is, and of units, which have none, the name does.

Source: TopicIds and TopicsImage of Apache Kafka 4, which take it from the brokers' metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from group_coordinator.coordinator_state.requests.consumer import OwnedTopic, TopicFacts
from group_coordinator.coordinator_state.responses import AssignedTopic, KnownTopic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from group_coordinator.coordinator_state.consumer.partitions import Partitions

NOBODYS = -1
"""The number of every topic that the group does not know."""
_PARTITION_FRAME_BYTES = 40
"""Bytes of a partition and its topic in an answer or a picture, beside the topic's name and id."""


class Topic(msgspec.Struct, frozen=True, array_like=True):
    """A topic that a group knows, or units that its members share.

    `number` is the group's own for it. `topic_id` is Kafka's id, empty for units that no broker knows.
    `partitions`: how many.
    """

    number: int
    name: str
    topic_id: str
    partitions: int


class _Stored(msgspec.Struct, array_like=True):
    version: int = 0
    next_number: int = 0
    current: dict[str, Topic] = {}
    former: dict[int, Topic] = {}
    gone: dict[str, str] = {}


class TopicTable:
    """The topics of one group. `encoded`: what `encode` returned, or nothing."""

    def __init__(self, encoded: bytes = b"") -> None:
        stored = msgspec.msgpack.decode(encoded, type=_Stored) if encoded else _Stored()
        self.version = stored.version
        """How often it has changed; a record of topic metadata is based on a version."""
        self._next_number = stored.next_number
        self._current = dict(stored.current)
        self._gone = dict(stored.gone)
        """The ids of topics that are gone, by name. None of them comes back."""
        self._by_number = stored.former | {topic.number: topic for topic in self._current.values()}
        """All that a partition can be of. Those that are not current are gone, or another one has their name,
        while members still have their partitions."""
        self._numbers = {
            _identity(topic.topic_id, topic.name): topic.number for topic in self._by_number.values()
        }
        self.bytes_held = sum(map(_size, self._current.values()))
        """Bytes of all partitions in a picture, if each is another member's."""

    def encode(self) -> bytes:
        """The stored form."""
        former: dict[int, Topic] = {}
        if self._has_former():
            former = {
                each: self._by_number[each] for each in sorted(self._by_number) if not self._is_current(each)
            }
        stored = _Stored(self.version, self._next_number, self._current, former, self._gone)
        return msgspec.msgpack.encode(stored)

    # -- questions -------------------------------------------------------------------------------

    def existing(self, names: Iterable[str]) -> list[Topic]:
        """The topics of these names that there are."""
        return [self._current[name] for name in names if name in self._current]

    def number_of(self, name: str) -> int:
        """The number of the topic that has this name; `NOBODYS` if there is none."""
        topic = self._current.get(name)
        return NOBODYS if topic is None else topic.number

    def is_replaced(self, topic: Topic) -> bool:
        """Whether another topic has its name now."""
        return self.number_of(topic.name) not in (NOBODYS, topic.number)

    def named(self, number: int) -> Topic:
        """The topic of a number, which may be gone."""
        return self._by_number[number]

    def owned(self, topics: Iterable[OwnedTopic]) -> Partitions:
        """The partitions that a member says it owns, by the group's numbers; `NOBODYS` for unknown topics."""
        owned: Partitions = {}
        for topic in topics:
            name = topic.name or ""
            number = self._numbers.get(_identity(topic.topic_id, name))
            if number is None:
                number = NOBODYS if topic.topic_id else self.number_of(name)
            owned.setdefault(number, set()).update(topic.partitions)
        return owned

    def known(self, names: Iterable[str]) -> list[KnownTopic]:
        """The topics of these names as a picture has them, as far as they are known."""
        known = []
        for name in names:
            topic = self._current.get(name)
            if topic is None:
                known.append(KnownTopic(name=name, topic_id=self._gone.get(name)))
            else:
                topic_id = topic.topic_id or None
                known.append(KnownTopic(name=name, topic_id=topic_id, partitions=topic.partitions))
        return known

    def told(self, partitions: Mapping[int, Collection[int]]) -> list[AssignedTopic]:
        """Partitions as an answer has them, by name and number. Topics that are gone are among them."""
        topics = sorted(map(self.named, partitions), key=lambda topic: (topic.name, topic.number))
        return [
            AssignedTopic(topic.topic_id or None, topic.name, sorted(partitions[topic.number]))
            for topic in topics
        ]

    def by_name(self, partitions: Mapping[int, Collection[int]]) -> list[tuple[str, list[int]]]:
        """Partitions by the names of their topics, in order."""
        found: dict[str, set[int]] = {}
        for number, each in partitions.items():
            found.setdefault(self.named(number).name, set()).update(each)
        return [(name, sorted(found[name])) for name in sorted(found)]

    # -- changes ---------------------------------------------------------------------------------

    def hints(self, topics: Iterable[TopicFacts], names: Collection[str]) -> list[Topic]:
        """The topics that hints about `names` bring, as they would be: only what adds something."""
        taken: dict[str, Topic] = {}
        ids: set[str] = set()
        for facts in topics:
            known = taken.get(facts.name) or self._current.get(facts.name)
            topic_id = facts.topic_id or ""
            if facts.name not in names:
                continue
            if known is None:
                if topic_id and self._gone.get(facts.name) == topic_id:
                    continue
                number = self._number_for(facts, len(taken))
                if topic_id not in ids and not self._is_current(number):
                    taken[facts.name] = Topic(number, facts.name, topic_id, facts.partitions)
                    ids |= {topic_id} - {""}
            elif known.topic_id == topic_id and facts.partitions > known.partitions:
                taken[facts.name] = Topic(known.number, facts.name, topic_id, facts.partitions)
        return list(taken.values())

    def refusal(self, topics: Iterable[TopicFacts], names: Collection[str]) -> str | None:
        """The reason why topic metadata about `names` cannot be; None if it can."""
        ids: dict[str | None, str] = {}
        for facts in topics:
            known = self._current.get(facts.name)
            if facts.name not in names:
                continue
            other = ids.setdefault(facts.topic_id, facts.name)
            if other != facts.name and facts.topic_id is not None:
                return f"{facts.name}: {other} has the same id"
            if facts.topic_id is not None and self._gone.get(facts.name) == facts.topic_id:
                return f"{facts.name}: the topic of this id is gone"
            if known is None or known.topic_id != (facts.topic_id or ""):
                continue
            if facts.partitions < known.partitions:
                return f"{facts.name}: {facts.partitions} partitions, and there were {known.partitions}"
        return None

    def changed_by(self, topics: Iterable[TopicFacts], names: Collection[str]) -> list[Topic]:
        """The topics as they would be by topic metadata about `names`: only those that it changes."""
        changed: dict[str, Topic] = {}
        for facts in topics:
            known, topic_id = self._current.get(facts.name), facts.topic_id or ""
            if facts.name not in names:
                continue
            if known is not None and known.topic_id == topic_id:
                number = known.number
            else:
                number = self._number_for(facts, len(changed))
            topic = Topic(number, facts.name, topic_id, facts.partitions)
            if topic != known:
                changed[facts.name] = topic
        return list(changed.values())

    def _number_for(self, facts: TopicFacts, others: int) -> int:
        """The number of a topic that comes, together with so many others: its own, if it had one."""
        number = self._numbers.get(_identity(facts.topic_id, facts.name))
        return self._next_number + others if number is None else number

    def _is_current(self, number: int) -> bool:
        topic = self._by_number.get(number)
        return topic is not None and self._current.get(topic.name) == topic

    def growth(self, topics: Iterable[Topic]) -> int:
        """The bytes that `put` would add to `bytes_held`."""
        before = (self._current.get(topic.name) for topic in topics)
        return sum(map(_size, topics)) - sum(_size(topic) for topic in before if topic is not None)

    def put(self, topics: Iterable[Topic]) -> None:
        """Know these topics from now on, in the place of others of their names."""
        for topic in topics:
            self._drop(topic.name, is_gone=self.number_of(topic.name) != topic.number)
            if self._is_current(topic.number):
                # The brokers have its id under another name than a hint has said.
                self._drop(self._by_number[topic.number].name, is_gone=False)
            self.bytes_held += _size(topic)
            self._current[topic.name] = self._by_number[topic.number] = topic
            self._numbers[_identity(topic.topic_id, topic.name)] = topic.number
            self._next_number = max(self._next_number, topic.number + 1)
        self.version += 1

    def remove(self, names: Iterable[str]) -> list[str]:
        """Let topics be gone; the names of those that there were."""
        gone = [name for name in dict.fromkeys(names) if name in self._current]
        for name in gone:
            self._drop(name, is_gone=True)
        self.version += bool(gone)
        return gone

    def _drop(self, name: str, *, is_gone: bool) -> None:
        """Let no topic have this name. `is_gone`: the one that has it does not come back."""
        topic = self._current.pop(name, None)
        if topic is not None:
            self.bytes_held -= _size(topic)
            if is_gone and topic.topic_id:
                self._gone[name] = topic.topic_id

    def _has_former(self) -> bool:
        return len(self._by_number) > len(self._current)

    def has_others_than(self, names: Collection[str]) -> bool:
        """Whether there may be something to `prune`: topics of other names, or that are gone."""
        return self._has_former() or any(each not in names for each in (*self._current, *self._gone))

    def prune(self, names: Collection[str], numbers: Collection[int]) -> None:
        """Forget all but the topics of these names, and those of these numbers, which somebody still has."""
        for name in [each for each in self._current if each not in names]:
            self._drop(name, is_gone=False)
        kept = {topic.number for topic in self._current.values()}.union(numbers)
        for number in [each for each in self._by_number if each not in kept]:
            topic = self._by_number.pop(number)
            del self._numbers[_identity(topic.topic_id, topic.name)]
        self._gone = {name: each for name, each in self._gone.items() if name in names}


def _identity(topic_id: str | None, name: str) -> tuple[str, str]:
    """The id says which topic it is; of units, which have none, the name does."""
    return (topic_id, "") if topic_id else ("", name)


def _size(topic: Topic) -> int:
    names = len(msgspec.json.encode((topic.name, topic.topic_id)))
    return topic.partitions * (names + _PARTITION_FRAME_BYTES)
