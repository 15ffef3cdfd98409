"""The work that a group of the consumer protocol can share: the partitions of topics, or units of any list.

The coordinator divides it. A member only says what it wants, and what it knows of that. A unit is a topic of
one partition that no broker knows. So a member gets units of its own list alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from kafka.structs import TopicPartition

from group_coordinator.client.consumer_requests import MemberPartition, Subscription
from group_coordinator.client.work import Unit, checked_names, natural
from group_coordinator.coordinator_state.requests import TopicFacts

__all__ = ["ConsumerWork", "SharedTopics", "SharedUnits"]

log = logging.getLogger(__name__)


class ConsumerWork(Protocol):
    """The work of a group: what to ask for, and what the answer means."""

    @property
    def kind(self) -> str:
        """Topics or units. A member cannot change from one to the other."""

    @property
    def names(self) -> tuple[str, ...]:
        """The topics or units that are asked for, in order."""

    def look_up(self) -> Subscription:
        """Return what to ask for, with all that is known of it now. Raises a KafkaError."""

    def unit(self, partition: MemberPartition) -> Unit:
        """Return the unit that a partition stands for."""


class SharedTopics:
    """The partitions of topics. `topic_facts`: looks topics up, without those that do not exist."""

    kind = "topics"

    def __init__(
        self, topics: Collection[str], topic_facts: Callable[[Collection[str]], Mapping[str, TopicFacts]]
    ) -> None:
        self.names = tuple(sorted(checked_names(topics, "topics")))
        self._topic_facts = topic_facts

    def look_up(self) -> Subscription:
        """See `ConsumerWork`."""
        facts = self._topic_facts(self.names)
        for topic in self.names:
            if topic not in facts:
                # Otherwise a name that is misspelt would show in nothing but silence.
                log.warning(
                    "there is no topic %s: members are assigned its partitions once it is created", topic
                )
        return Subscription(self.names, tuple(facts[name] for name in self.names if name in facts))

    def unit(self, partition: MemberPartition) -> TopicPartition:
        """See `ConsumerWork`."""
        return TopicPartition(partition.topic, partition.partition)


class SharedUnits:
    """The units of a list."""

    kind = "units"

    def __init__(self, units: Collection[str]) -> None:
        self.names = tuple(sorted(checked_names(units, "units"), key=natural))

    def look_up(self) -> Subscription:
        """See `ConsumerWork`."""
        return Subscription(self.names, tuple(TopicFacts(name, 1) for name in self.names))

    def unit(self, partition: MemberPartition) -> str:
        """See `ConsumerWork`."""
        return partition.topic
