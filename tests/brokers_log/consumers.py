"""The records of a group of the consumer protocol as Kafka's coordinator writes them, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from group_coordinator.coordinator_state.log import Record
from group_coordinator.gateway.wire import count, text, varint_of
from tests.brokers_log.kafka import Log
from tests.brokers_log.kafka import text as text_of_key

__all__ = ["AWAY", "NAMES", "UNRELEASED", "UNREVOKED", "ConsumerLog", "topic_id"]

AWAY = -2
UNREVOKED, UNRELEASED = 1, 2
NO_TAGS = b"\0"


def topic_id(name: str) -> str:
    return str(UUID(int=int.from_bytes(name.encode())))


NAMES = {topic_id(name): name for name in ("t", "u", "v")}
"""The topics whose names can be found out."""


def _text_or_null(value: str | None) -> bytes:
    return b"\0" if value is None else text(value, is_flexible=True)


def _texts(values: Iterable[str]) -> bytes:
    every = list(values)
    return count(len(every), is_flexible=True) + b"".join(text(each, is_flexible=True) for each in every)


def _partitions(topics: Mapping[str, Iterable[int]]) -> bytes:
    written = count(len(topics), is_flexible=True)
    for name, each in topics.items():
        numbers = list(each)
        written += UUID(topic_id(name)).bytes + count(len(numbers), is_flexible=True)
        written += struct.pack(f">{len(numbers)}i", *numbers) + NO_TAGS
    return written


def _tags(tags: Mapping[int, bytes]) -> bytes:
    return varint_of(len(tags)) + b"".join(varint_of(n) + varint_of(len(it)) + it for n, it in tags.items())


class ConsumerLog(Log):
    """Each method writes one record, at the time of the one before, unless `ms` later, and returns it."""

    def of_member(self, kind: int, member_id: str) -> bytes:
        return self.key_of(kind) + text_of_key(member_id)

    def key_of(self, kind: int) -> bytes:
        return struct.pack(">h", kind) + text_of_key(self.group)

    def epoch(self, epoch: int, *, metadata_hash: int = 1, ms: int = 0) -> Record:
        """`metadata_hash`: of the topics that members name; 0 if there are none, and up to Kafka 4.0."""
        tags = {0: struct.pack(">q", metadata_hash)} if metadata_hash else {}
        return self.write(self.key_of(3), struct.pack(">hi", 0, epoch) + _tags(tags), ms)

    def member(
        self,
        member_id: str,
        *topics: str,
        instance: str | None = None,
        pattern: str | None = None,
        assignor: str | None = None,
        host: str = "/10.0.0.7",
        classic_session_ms: int | None = None,
        ms: int = 0,
    ) -> Record:
        value = struct.pack(">h", 0) + _text_or_null(instance) + _text_or_null(None)
        value += text(member_id.partition("-")[0], is_flexible=True) + text(host, is_flexible=True)
        value += _texts(topics) + _text_or_null(pattern) + struct.pack(">i", 300_000)
        classic = b"\0" if classic_session_ms is None else struct.pack(">bi", 1, classic_session_ms) + b"\1\0"
        value += _text_or_null(assignor) + _tags({0: classic})
        return self.write(self.of_member(5, member_id), value, ms)

    def assigned(self, epoch: int, *, ms: int = 0) -> Record:
        return self.write(self.key_of(6), struct.pack(">hi", 0, epoch) + NO_TAGS, ms)

    def target(self, member_id: str, *, ms: int = 0, **topics: Iterable[int]) -> Record:
        value = struct.pack(">h", 0) + _partitions(topics) + NO_TAGS
        return self.write(self.of_member(7, member_id), value, ms)

    def share(
        self,
        member_id: str,
        epoch: int,
        *,
        state: int = 0,
        pending: Mapping[str, Iterable[int]] | None = None,
        ms: int = 0,
        **topics: Iterable[int],
    ) -> Record:
        value = struct.pack(">hiib", 0, epoch, epoch - 1, state) + _partitions(topics)
        value += _partitions(pending or {}) + NO_TAGS
        return self.write(self.of_member(8, member_id), value, ms)

    def pattern(self, pattern: str, *topics: str, ms: int = 0) -> Record:
        value = struct.pack(">h", 0) + _texts(topics) + struct.pack(">qq", 900, self.now_ms) + NO_TAGS
        return self.write(self.key_of(16) + text_of_key(pattern), value, ms)

    def no_pattern(self, pattern: str) -> Record:
        return self.write(self.key_of(16) + text_of_key(pattern), None, 0)

    def gone(self, member_id: str, *, ms: int = 0) -> list[Record]:
        """The tombstones of a member."""
        return [
            self.write(self.of_member(kind, member_id), None, each)
            for kind, each in ((8, ms), (7, 0), (5, 0))
        ]

    def no_more_consumers(self, *members: str, ms: int = 0) -> list[Record]:
        """All tombstones of the group, as it is deleted or becomes a classic one."""
        self.now_ms += ms
        written = [self.write(self.of_member(8, each), None, 0) for each in members]
        written += [self.write(self.of_member(7, each), None, 0) for each in members]
        written.append(self.write(self.key_of(6), None, 0))
        written += [self.write(self.of_member(5, each), None, 0) for each in members]
        return [*written, self.write(self.key_of(3), None, 0)]

    # -- heartbeats ------------------------------------------------------------------------------

    def joins(self, member_id: str, epoch: int, targets: Mapping[str, Iterable[int]], **more: Any) -> None:
        """A member joins, and the work is divided again. It has nothing yet."""
        self.member(member_id, "t", ms=1_000, **more)
        self.epoch(epoch)
        self.divided(epoch, targets)

    def divided(self, epoch: int, targets: Mapping[str, Iterable[int]]) -> None:
        """The work is divided again: partitions of the topic t."""
        for each, partitions in targets.items():
            self.target(each, t=partitions)
        self.assigned(epoch)

    def leaves(self, member_id: str, epoch: int, ms: int = 1_000) -> None:
        self.gone(member_id, ms=ms)
        self.epoch(epoch)
