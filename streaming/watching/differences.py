"""The differences between what a group knows of its topics and what brokers say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from group_coordinator.coordinator_state.requests.consumer import PatternTopics, TopicFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.responses import KnownTopic
    from group_coordinator.streaming.watching.telling import Telling, Told


class Differences(NamedTuple):
    """The things that a record of topic metadata tells a group."""

    topics: tuple[TopicFacts, ...] = ()
    gone: tuple[str, ...] = ()
    patterns: tuple[PatternTopics, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of it in JSON."""
        return len(msgspec.json.encode(self))

    def only(self, number: int) -> Differences:
        """One of them alone, as the number goes round."""
        at = number % (len(self.topics) + len(self.gone))
        if at < len(self.topics):
            return Differences(topics=self.topics[at : at + 1])
        at -= len(self.topics)
        return Differences(gone=self.gone[at : at + 1])


NOTHING = Differences()


def differences(
    topics: Iterable[KnownTopic], telling: Telling, since: int, most_bytes: int
) -> tuple[Differences, bool]:
    """Return what to tell a group that knows `topics` since round `since`, and whether there may be more.

    Only the next round shows whether that is so. `most_bytes`: with more of them in JSON, the
    rest is left out, apart from the first.
    """
    changed: list[TopicFacts] = []
    gone: list[str] = []
    is_doubtful = False
    room = most_bytes
    for topic in topics:
        told = telling.of(topic.name)
        if told is None or not _differs(topic, told):
            continue
        if topic.topic_id and told.topic_id != topic.topic_id and not telling.is_sure(told, since):
            # The group would never have the topic again.
            is_doubtful = True
            continue
        room -= _size(topic.name)
        if room < 0 and (changed or gone):
            break
        if told.topic_id:
            changed.append(TopicFacts(name=topic.name, partitions=told.partitions, topic_id=told.topic_id))
        else:
            gone.append(topic.name)
    return Differences(tuple(changed), tuple(gone)), is_doubtful


_FACTS_BYTES = 120
"""Bytes of a topic's id and number in JSON, with the names of the fields, at most."""
_ESCAPED_BYTES = 6
"""Bytes of a character in JSON, at most."""


def _size(name: str) -> int:
    return _FACTS_BYTES + _ESCAPED_BYTES * len(name)


def _differs(topic: KnownTopic, told: Told) -> bool:
    if told.topic_id == (topic.topic_id or ""):
        # The topic is the same one, or there was none and is none. One that was gone does not come back, and
        # a broker that tells of fewer partitions lags behind.
        return 0 < topic.partitions < told.partitions
    return bool(told.topic_id) or topic.partitions > 0
