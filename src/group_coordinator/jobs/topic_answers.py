"""The answer to a Metadata request, read as far as it is needed.

Ten thousand topics are 5 MB. kafka-python takes two seconds to make objects of them. Nearly always they are
the bytes of the answer before. So bytes are compared first, and what has changed is read here, without the
leaders and replicas.

Source: MetadataResponse.json of Apache Kafka 4, versions 10 (the first with ids) to 13.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from group_coordinator.client.topic_ids import topic_id_of

OLDEST_VERSION, NEWEST_VERSION = 10, 13

_MORE = 0x80
"""In a byte of a number of variable length: another one follows."""
_MOST_SHIFT = 28
_ID_BYTES = 16
_PARTITION_HEAD_BYTES = 14
"""Error, number, leader and epoch of a partition."""
_REPLICA_LISTS = 3
"""Replicas, those in sync, and those that are offline."""


class MalformedAnswerError(ValueError):
    """A broker's answer is not as Kafka's are."""


class Said(NamedTuple):
    """A broker's answer about one topic. `topic_id`: as commits have it; empty if there is none."""

    error_code: int
    topic_id: str
    partitions: int


def topics_in(body: bytes) -> bytes:
    """The part of an answer, without its header, that is about topics, with all that comes after it.

    The part before that differs from answer to answer, as Kafka names any broker as the controller. Raises
    `MalformedAnswerError`.
    """
    try:
        place = _Place(body, 4)
        for _ in range(place.count()):
            place.at += 4
            place.skip_text()
            place.at += 4
            place.skip_text()
            place.skip_tags()
        place.skip_text()
        place.at += 4
    except IndexError:
        raise MalformedAnswerError("it ends before its topics") from None
    return body[place.at :]


def read_topics(topics: bytes) -> dict[str, Said]:
    """Read what `topics_in` returns, by name. Topics without a name are left out.

    Raises `MalformedAnswerError`.
    """
    found: dict[str, Said] = {}
    try:
        place = _Place(topics)
        for _ in range(place.count()):
            error_code = int.from_bytes(place.take(2), signed=True)
            name = place.text()
            topic_id = topic_id_of({"topic_id": UUID(bytes=place.take(_ID_BYTES))})
            place.at += 1
            partitions = place.count()
            place.skip_partitions(partitions)
            place.at += 4
            place.skip_tags()
            if name:
                found[name] = Said(error_code, topic_id, partitions)
    except (IndexError, ValueError) as error:
        raise MalformedAnswerError(f"its topics cannot be read: {error}") from None
    return found


class _Place:
    """A place in bytes. Reading beyond their end is an `IndexError`, wherever it is noticed."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self.at = data, at

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.at + size
        if end > len(self._data):
            raise IndexError("it ends too soon")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def count(self) -> int:
        """A length, which Kafka writes with one added to it; 0 for null."""
        return max(0, self._number() - 1)

    def text(self) -> str:
        """A text; empty for null."""
        return self.take(self.count()).decode()

    def skip_text(self) -> None:
        """Pass over a text."""
        # Not in one line, which would add to the place before the length.
        size = self.count()
        self.at += size

    def skip_tags(self) -> None:
        """Pass over fields that later versions have."""
        for _ in range(self._number()):
            self._number()
            size = self._number()
            self.at += size

    def skip_partitions(self, count: int) -> None:
        """Pass over so many partitions of a topic."""
        # There may be hundreds of thousands, most of them with few replicas and no tags. So no calls here.
        data, at = self._data, self.at
        for _ in range(count):
            at += _PARTITION_HEAD_BYTES
            for _ in range(_REPLICA_LISTS):
                replicas = data[at]
                if replicas >= _MORE:
                    self.at = at
                    replicas = self.count()
                    at = self.at + 4 * replicas
                else:
                    at += 4 * replicas - 3 if replicas else 1
            if data[at]:
                self.at = at
                self.skip_tags()
                at = self.at
            else:
                at += 1
        self.at = at

    def _number(self) -> int:
        number = shift = 0
        while (byte := self._data[self.at]) >= _MORE:
            if shift == _MOST_SHIFT:
                raise IndexError("a number is too long")
            number |= (byte - _MORE) << shift
            shift += 7
            self.at += 1
        self.at += 1
        return number | byte << shift
