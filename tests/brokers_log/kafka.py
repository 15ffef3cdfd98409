"""A log of `__consumer_offsets` as Kafka's coordinator writes it, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from group_coordinator.coordinator_state.log import Record

__all__ = [
    "GROUP",
    "PARTITION",
    "TOPIC",
    "Log",
    "M",
    "assignment",
    "group_of",
    "member_bytes",
    "recorded",
    "subscription",
    "text",
]

TOPIC, PARTITION, GROUP = "__consumer_offsets", 5, "g"


def text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    written = value.encode()
    return struct.pack(">h", len(written)) + written


def octets(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """A ConsumerProtocolSubscription of version 1 that owns nothing."""
    written = struct.pack(">hi", 1, len(topics)) + b"".join(text(topic) for topic in topics)
    return written + octets(user_data) + struct.pack(">i", 0)


def assignment(**partitions: Iterable[int]) -> bytes:
    """A ConsumerProtocolAssignment: topic=[partitions]."""
    written = struct.pack(">hi", 1, len(partitions))
    for topic, each in partitions.items():
        numbers = list(each)
        written += text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return written + octets(b"")


class M(NamedTuple):
    """A member in a record of a group."""

    member_id: str
    owns: Iterable[int] = ()
    topics: tuple[str, ...] = ("t",)
    instance: str | None = None
    session_ms: int = 45_000
    user_data: bytes = b""


def member_bytes(member: M) -> bytes:
    return b"".join(
        (
            text(member.member_id),
            text(member.instance),
            text(member.member_id.partition("-")[0]),
            text("/10.0.0.7"),
            struct.pack(">ii", 300_000, member.session_ms),
            octets(subscription(*member.topics, user_data=member.user_data)),
            octets(assignment(t=member.owns)),
        )
    )


@cache
def recorded() -> dict[str, bytes]:
    """Keys and values that Kafka's own classes have written, by name."""
    lines = (Path(__file__).parent / "records.txt").read_text().splitlines()
    return {name: bytes.fromhex(data) for name, data in (line.split() for line in lines)}


def group_of(key: bytes | None) -> bytes | None:
    """The id of the group that a record is of, which stands at the same place in the keys of all kinds."""
    return None if key is None else key[4 : 4 + int.from_bytes(key[2:4])]


class Log:
    """The records of one group. Each method writes one, `ms` later than the one before, and returns it."""

    def __init__(self, group: str = GROUP, now_ms: int = 1_000_000) -> None:
        self.group, self.now_ms = group, now_ms
        self.records: list[Record] = []
        self.offset = 100

    def write(self, key: bytes, value: bytes | None, ms: int = 1) -> Record:
        self.now_ms += ms
        # Records of other groups and markers of transactions are between them.
        self.offset += 3
        record = Record(TOPIC, PARTITION, self.offset, self.now_ms, key, value)
        self.records.append(record)
        return record

    @property
    def group_key(self) -> bytes:
        return struct.pack(">h", 2) + text(self.group)

    def commit(
        self, partition: int, offset: int, *, topic: str = "t", ms: int = 1, metadata: str = ""
    ) -> Record:
        value = struct.pack(">hqi", 3, offset, -1) + text(metadata) + struct.pack(">q", self.now_ms + ms)
        return self.write(self.offset_key(topic, partition), value, ms)

    def offset_key(self, topic: str, partition: int) -> bytes:
        return struct.pack(">h", 1) + text(self.group) + text(topic) + struct.pack(">i", partition)

    def forget(self, partition: int, *, topic: str = "t", ms: int = 1) -> Record:
        return self.write(self.offset_key(topic, partition), None, ms)

    def new(self, ms: int = 1) -> Record:
        """Kafka 4 writes down a group that is new; its first member has not joined yet."""
        return self.write(self.group_key, self.group_value("", 0, None, None, (), self.now_ms + ms), ms)

    def stable(
        self,
        generation: int,
        *members: M,
        leader: str | None = None,
        ms: int = 1,
        joined_ms: int = 1,
        protocol: str = "range",
    ) -> Record:
        """The leader has synced, `joined_ms` after the join phase ended."""
        first = members[0].member_id
        at_ms = self.now_ms + ms - joined_ms
        value = self.group_value("consumer", generation, protocol, leader or first, members, at_ms)
        return self.write(self.group_key, value, ms)

    def empty(self, generation: int, ms: int = 1, since_ms: int = 0) -> Record:
        """The last member has gone, `since_ms` before it is written down."""
        at_ms = self.now_ms + ms - since_ms
        value = self.group_value("consumer", generation, None, None, (), at_ms)
        return self.write(self.group_key, value, ms)

    def delete(self, ms: int = 1) -> Record:
        return self.write(self.group_key, None, ms)

    def of_kind(self, kind: int, value: bytes | None = b"\0\0", ms: int = 1) -> Record:
        return self.write(struct.pack(">h", kind) + text(self.group), value, ms)

    @staticmethod
    def group_value(
        protocol_type: str,
        generation: int,
        protocol: str | None,
        leader: str | None,
        members: Iterable[M],
        at_ms: int,
    ) -> bytes:
        written = [member_bytes(each) for each in members]
        head = struct.pack(">h", 3) + text(protocol_type) + struct.pack(">i", generation)
        head += text(protocol) + text(leader) + struct.pack(">qi", at_ms, len(written))
        return head + b"".join(written)

    def positions(self) -> Mapping[int, int]:
        return {PARTITION: self.offset}
