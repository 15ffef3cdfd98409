"""The topics that sequences are about: what a broker has, and what is known of it.

Kafka goes through topics in the order of hash maps, and in that of their ids. Those of `TOPICS` are made such
that it is the order of their names in each of them: then its assignors can be compared to the partition.
"""

from __future__ import annotations

import base64
import re
import uuid
from contextlib import closing
from typing import TYPE_CHECKING, Any

from kafka.admin import KafkaAdminClient

from tests.conformance.consumer.sequence import NEW, OWN, TOPICS
from tests.conformance.messages import topic_id_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.conformance.game import Topic

__all__ = ["Topics", "bucket", "create_topic", "delete_topic", "make_topics"]

_NOBODYS = "AAAAAAAAAAAAAAAAAAAAbg"
_BUCKETS = 16
_LEAST = -(2**63)
_MOST = (0, 2**62, 2**63)
"""So there is room left for the topics that follow."""


class Topics:
    """What one sequence knows of its topics, which it calls by one letter."""

    def __init__(self, shared: Mapping[str, Topic], group_id: str) -> None:
        self.known = dict(shared)
        """What there is, by letter."""
        self._suffix = f"-{group_id}"
        self._letters = {topic_id: letter for letter, (topic_id, _) in shared.items()}

    def name(self, letter: str) -> str:
        """The topic's name at the broker."""
        return letter + self._suffix if letter in NEW else letter

    def names(self, letters: str) -> list[str]:
        """The names of all that `letters` says."""
        return [] if letters == "none" else [self.name(letter) for letter in letters]

    def pattern(self, text: str) -> str:
        """A pattern of a sequence, as the broker gets it."""
        return text.replace(OWN, self._suffix)

    def pattern_text(self, pattern: str) -> str:
        """A pattern that the broker has, as a sequence says it."""
        return pattern.replace(self._suffix, OWN)

    def matched(self, text: str) -> str:
        """The letters of the topics that are there and that a pattern of a sequence matches."""
        pattern = re.compile(self.pattern(text))
        return "".join(letter for letter in sorted(self.known) if pattern.fullmatch(self.name(letter)))

    def learn(self, letter: str, topic: Topic | None) -> None:
        """Note what there is now; None if the topic is gone."""
        if topic is None:
            self.known.pop(letter, None)
            return
        self.known[letter] = topic
        # One that was made again goes by another letter.
        again = letter
        while topic[0] not in self._letters and again in self._letters.values():
            again += "'"
        self._letters.setdefault(topic[0], again)

    def with_ids(self, partitions: Mapping[str, list[int]]) -> list[dict[str, Any]]:
        """Partitions by letter as a request says them; an unknown letter is an id that nobody has."""
        ids = {letter: topic_id for topic_id, letter in self._letters.items()}
        return [
            {"topic_id": ids.get(letter, _NOBODYS), "partitions": numbers}
            for letter, numbers in partitions.items()
        ]

    def letters(self, partitions: Iterable[Mapping[str, Any]]) -> dict[str, list[int]]:
        """Partitions of an answer by letter, in order."""
        found = {
            self._letters.get(each["topic_id"], each["topic_id"]): sorted(each["partitions"])
            for each in partitions
        }
        return dict(sorted(found.items()))

    def letter(self, name: str) -> str:
        """The letter of a topic's name."""
        return name.removesuffix(self._suffix)

    def hints(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """What a sender can say of the topics that are there."""
        known = {self.name(letter): topic for letter, topic in self.known.items()}
        return [
            {"name": name, "topic_id": known[name][0], "partitions": known[name][1]}
            for name in names
            if name in known
        ]


def make_topics(bootstrap_servers: str) -> dict[str, Topic]:
    """Make `TOPICS`, with ids that keep them in order in whatever map; return what there is."""
    made: dict[str, Topic] = {}
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap_servers)) as admin:
        least = _LEAST
        for place, (letter, partitions) in enumerate(TOPICS.items()):
            topic_id = create_topic(admin, letter, partitions)
            while not (bucket(topic_id) == place and least < _rank(topic_id) < _MOST[place]):
                delete_topic(admin, letter)
                topic_id = create_topic(admin, letter, partitions)
            least = _rank(topic_id)
            made[letter] = (topic_id, partitions)
    return made


def create_topic(admin: KafkaAdminClient, name: str, partitions: int) -> str:
    """Make a topic and return its id."""
    answer = admin.create_topics({name: {"num_partitions": partitions}})
    (topic,) = answer["topics"]
    admin.wait_for_topics([name])
    return topic_id_of(uuid.UUID(str(topic["topic_id"])))


def delete_topic(admin: KafkaAdminClient, name: str) -> None:
    """Delete a topic."""
    admin.delete_topics([name])


def _rank(topic_id: str) -> int:
    """What `Uuid.compareTo` compares first."""
    return int.from_bytes(_bytes(topic_id)[:8], signed=True)


def bucket(topic_id: str) -> int:
    """Where a `HashMap` of up to twelve topics keeps it."""
    high, low = int.from_bytes(_bytes(topic_id)[:8]), int.from_bytes(_bytes(topic_id)[8:])
    folded = high ^ low
    code = (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return (code ^ (code >> 16)) % _BUCKETS


def _bytes(topic_id: str) -> bytes:
    return base64.urlsafe_b64decode(f"{topic_id}==")
