"""The committed offsets of one group, kept apart from the group and read only when they are asked for.

A group may have thousands of offsets, and most requests are heartbeats, which do not need them. So all
offsets are one string of bytes within the group's state, which a heartbeat does not decode. Within it each
topic is a string of bytes again, so that a commit decodes only the topics that it names.

Source: OffsetMetadataManager.Offsets and OffsetAndMetadata of Apache Kafka 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Bytes that names and numbers take in the answer to an OffsetFetch, for a topic and for a partition.
_TOPIC_FRAME_BYTES = 40
_PARTITION_FRAME_BYTES = 140
_TOPIC_ID_FRAME_BYTES = 16


class OffsetPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A committed offset as `coordinator.offsets` has it."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None
    topic_id: str | msgspec.UnsetType = msgspec.UNSET


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset: `offset` is the next to be read. Times in ms of log time.

    New fields go to the end and have defaults: states written before must still be readable.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    """When it expires, if the commit said so (up to version 4)."""
    topic_id: str = ""
    """Kafka's id of the topic that it was committed for, in the committer's words; empty if it gave none."""

    @property
    def size(self) -> int:
        """Bytes that this takes in the answer that lists all offsets of the group."""
        of_id = _TOPIC_ID_FRAME_BYTES + len(msgspec.json.encode(self.topic_id)) if self.topic_id else 0
        return _PARTITION_FRAME_BYTES + len(msgspec.json.encode(self.metadata)) + of_id

    def picture(self, group_id: str, topic: str, partition: int) -> OffsetPicture:
        """This, as committed by `group_id` for a partition."""
        return OffsetPicture(
            group_id=group_id,
            topic=topic,
            partition=partition,
            committed_offset=self.offset,
            committed_leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp_ms=self.commit_timestamp_ms,
            expire_timestamp_ms=self.expire_timestamp_ms,
            topic_id=self.topic_id or msgspec.UNSET,
        )


_Partitions = dict[int, CommittedOffset]


class _Stored(msgspec.Struct, array_like=True):
    """The stored form; `bytes_held` and `count` so that limits can be kept without reading all."""

    count: int = 0
    bytes_held: int = 0
    topics: dict[str, msgspec.Raw] = {}


class CommittedOffsets:
    """The offsets of one group by topic and partition, with a record of what has changed.

    `encoded`: what `encode` returned, or nothing.
    """

    def __init__(self, encoded: bytes = b"") -> None:
        self._encoded = encoded
        # None: not read yet.
        self._topics: dict[str, msgspec.Raw | _Partitions] | None = None
        self._count = self._bytes_held = 0
        self._has_changed = False
        self.changes: dict[tuple[str, int], tuple[CommittedOffset | None, int]] = {}
        """Newest value of what was changed here, None if it was deleted; and the place of the change.

        For a caller to publish and to clear.
        """

    def encode(self) -> bytes:
        """The stored form; as it came if nothing has changed, and empty if there is nothing."""
        if not self._has_changed:
            return self._encoded
        if not self._read():
            return b""
        return msgspec.msgpack.encode((self._count, self._bytes_held, self._topics))

    # -- questions -------------------------------------------------------------------------------

    def __len__(self) -> int:
        self._read()
        return self._count

    @property
    def bytes_held(self) -> int:
        """Bytes that the answer takes which lists all offsets, at most."""
        self._read()
        return self._bytes_held

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset of a partition; None if there is none."""
        return self._partitions(topic).get(partition)

    def topics(self) -> list[str]:
        """The topics that something is committed for, in the order of their first commits."""
        return list(self._read())

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All topics, partitions and what is committed for them, as of now: they may be changed meanwhile."""
        return iter([(topic, *each) for topic in self.topics() for each in self.of_topic(topic)])

    def of_topic(self, topic: str) -> Iterable[tuple[int, CommittedOffset]]:
        """Partitions of `topic` and what is committed for each."""
        return self._partitions(topic).items()

    # -- changes ---------------------------------------------------------------------------------

    def put(self, topic: str, partition: int, offset: CommittedOffset, place: int) -> None:
        """Commit `offset`. `place`: `Turn.place`."""
        partitions = self._partitions(topic)
        if not partitions:
            self._read()[topic] = partitions
            self._bytes_held += _topic_size(topic)
        before = partitions.get(partition)
        self._count += before is None
        self._bytes_held += offset.size - (before.size if before else 0)
        partitions[partition] = offset
        self._has_changed = True
        self.changes[topic, partition] = offset, place

    def delete(self, topic: str, partition: int, place: int) -> bool:
        """Delete a committed offset; return False if there was none. `place`: `Turn.place`."""
        partitions = self._partitions(topic)
        before = partitions.pop(partition, None)
        if before is None:
            return False
        self._count -= 1
        self._bytes_held -= before.size
        if not partitions:
            del self._read()[topic]
            self._bytes_held -= _topic_size(topic)
        self._has_changed = True
        self.changes[topic, partition] = None, place
        return True

    def growth(self, topic: str, partition: int, offset: CommittedOffset) -> tuple[int, int]:
        """The offsets and bytes that `put` would add to this."""
        partitions = self._partitions(topic)
        before = partitions.get(partition)
        if before is not None:
            return 0, offset.size - before.size
        return 1, offset.size + (0 if partitions else _topic_size(topic))

    # -- reading -----------------------------------------------------------------------------------

    def _read(self) -> dict[str, msgspec.Raw | _Partitions]:
        if self._topics is None:
            stored = msgspec.msgpack.decode(self._encoded, type=_Stored) if self._encoded else _Stored()
            self._count, self._bytes_held = stored.count, stored.bytes_held
            self._topics = dict(stored.topics)
        return self._topics

    def _partitions(self, topic: str) -> _Partitions:
        topics = self._read()
        partitions = topics.get(topic, {})
        if isinstance(partitions, msgspec.Raw):
            partitions = topics[topic] = msgspec.msgpack.decode(partitions, type=_Partitions)
        return partitions


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Record key in `coordinator.offsets`."""
    return msgspec.json.encode((group_id, topic, partition))


def _topic_size(topic: str) -> int:
    return _TOPIC_FRAME_BYTES + len(msgspec.json.encode(topic))
