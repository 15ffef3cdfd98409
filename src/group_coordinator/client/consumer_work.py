"""The work that a group of the consumer protocol can share: the partitions of topics, or units of any list.

The coordinator divides it. A member only says what it wants, and what it knows of that. A unit is a topic of
one partition that no broker knows. So a member gets units of its own list alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from kafka.structs import TopicPartition

from group_coordinator.client.consumer_requests import MemberPartition, Subscription
from group_coordinator.client.work import checked_names, natural
from group_coordinator.coordinator_state.requests import TopicFacts

log = logging.getLogger(__name__)


class SharedTopics:
    """The partitions of topics. `topic_facts`: looks topics up, without those that do not exist."""

    def __init__(
        self, topics: Collection[str], topic_facts: Callable[[Collection[str]], Mapping[str, TopicFacts]]
    ) -> None:
        self.names = tuple(sorted(checked_names(topics, "topics")))
        self._topic_facts = topic_facts

    def look_up(self) -> Subscription:
        """Return what to ask for, with all that is known of it now. Raises a KafkaError."""
        facts = self._topic_facts(self.names)
        for topic in self.names:
            if topic not in facts:
                # Otherwise a name that is misspelt would show in nothing but silence.
                log.warning(
                    "there is no topic %s: members are assigned its partitions once it is created", topic
                )
        return Subscription(self.names, tuple(facts[name] for name in self.names if name in facts))

    def unit(self, partition: MemberPartition) -> TopicPartition:
        """Return the unit that a partition stands for."""
        return TopicPartition(partition.topic, partition.partition)


class SharedUnits:
    """The units of a list."""

    def __init__(self, units: Collection[str]) -> None:
        self.names = tuple(sorted(checked_names(units, "units"), key=natural))

    def look_up(self) -> Subscription:
        """See `SharedTopics`."""
        return Subscription(self.names, tuple(TopicFacts(name, 1) for name in self.names))

    def unit(self, partition: MemberPartition) -> str:
        """See `SharedTopics`."""
        return partition.topic


ConsumerWork = SharedTopics | SharedUnits
"""The work of a group: what to ask for, and what the answer means. A member cannot change its kind."""
