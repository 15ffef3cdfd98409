"""The committed offsets of a group as somebody outside knows them, a part of `model.py`.

What may be committed, fetched and deleted is foretold. When an offset expires is not: it must not go before
its time is over, and has to be gone soon after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from group_coordinator.coordinator_state.requests import OffsetFetchTopic
from tests.coordinator_state.subscription import subscription

if TYPE_CHECKING:
    from collections.abc import Iterable

    from group_coordinator.coordinator_state.events import PartitionsOfTopic
    from group_coordinator.coordinator_state.requests import (
        OffsetCommitRequest,
        OffsetDeleteTopic,
    )
    from tests.coordinator_state.invariants import Committed as Stored
    from tests.coordinator_state.model import Model

Key = tuple[str, int]
"""Topic and partition."""

READS: dict[bytes, frozenset[str] | None] = {
    subscription("t"): frozenset("t"),
    subscription("u"): frozenset("u"),
    subscription("t", "u", version=1, more=b"\xff\xff\xff\xff"): frozenset("tu"),
    b"t": None,
}
"""Subscriptions, and the topics that they are to; None if that cannot be told."""
T, U, BOTH, OPAQUE = READS

METADATA_TOO_LARGE, TOO_MANY, IN_USE = 12, 28, 86
END_OF_9999_MS = 253_402_300_799_999


class Commit(NamedTuple):
    """One partition of an offset_commit."""

    topic: str
    partition: int
    offset: int
    epoch: int = -1
    metadata: str | None = None
    topic_id: str = ""

    @property
    def metadata_units(self) -> int:
        """What Kafka counts: the length in UTF-16."""
        return sum(1 + (ord(it) > 0xFFFF) for it in self.metadata or "")


@dataclass(frozen=True)
class Committed:
    """What is kept of a commit."""

    offset: int
    epoch: int
    metadata: str
    at_ms: int
    expire_ms: int | None


class OffsetsModel:
    """What is committed for the group that `model` knows."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.kept: dict[Key, Committed] = {}
        self.read: frozenset[str] | None = None
        """The topics that the last generation reads; None if that cannot be told."""

    # -- requests ------------------------------------------------------------------------------------

    def commit(self, commits: list[Commit], ask: OffsetCommitRequest) -> tuple[list[int], list[Commit]]:
        """The error code of each partition, and what is committed."""
        codes, granted = [], []
        for each in commits:
            codes.append(self._code_of(each))
            if codes[-1] == 0:
                granted.append(each if ask.version >= 6 else each._replace(epoch=-1))
                self._keep(granted[-1], ask)
        return codes, granted

    def _code_of(self, commit: Commit) -> int:
        config = self._model.config
        if commit.metadata_units > config.offset_metadata_max_bytes:
            return METADATA_TOO_LARGE
        is_known = (commit.topic, commit.partition) in self.kept
        return 0 if is_known or len(self.kept) < config.max_group_offsets else TOO_MANY

    def _keep(self, commit: Commit, ask: OffsetCommitRequest) -> None:
        now, retention_ms = self._model.log_ms, ask.retention_time_ms
        is_limited = ask.version <= 4 and retention_ms != -1
        expire_ms = min(now + max(retention_ms, 0), END_OF_9999_MS) if is_limited else None
        metadata = commit.metadata or ""
        self.kept[commit.topic, commit.partition] = Committed(
            commit.offset, commit.epoch, metadata, now, expire_ms
        )

    def agrees_with_fetch(self, answer: Any, version: int, asked: Iterable[Key] | None = None) -> None:
        """Each partition that was asked for (None: all) is told once, and as it was committed last."""
        told = [
            ((topic.name, it.partition_index), (it.committed_offset, it.committed_leader_epoch, it.metadata))
            for topic in answer.topics
            for it in topic.partitions
        ]
        nothing = Committed(-1, -1, "", 0, None)
        expected = {
            key: (it.offset, it.epoch if version >= 5 else -1, it.metadata)
            for key in (self.kept if asked is None else asked)
            for it in [self.kept.get(key, nothing)]
        }
        assert expected == dict(told)
        assert len(expected) == len(told)
        assert {0} >= {it.error_code for topic in answer.topics for it in topic.partitions}

    def is_read(self, topic: str) -> bool:
        """Whether a member has subscribed; to be safe, if that cannot be told of Kafka's consumers."""
        if self._model.state == "Empty":
            return False
        return self._model.protocol_type == "consumer" if self.read is None else topic in self.read

    # -- events --------------------------------------------------------------------------------------

    def read_by(self, subscriptions: Iterable[bytes]) -> None:
        """A generation begins, of members with these subscriptions."""
        topics = [READS.get(it) for it in subscriptions]
        is_known = self._model.protocol_type == "consumer" and None not in topics
        self.read = frozenset().union(*(it for it in topics if it)) if is_known else None

    def expired(self, topics: list[PartitionsOfTopic], at_ms: int) -> None:
        """All whose time is over go together."""
        over = {key for key in self.kept if (time := self._time_of(key)) and sum(time) <= at_ms}
        assert over == self._keys(topics)
        self._forget(over)

    def deleted(self, topics: list[PartitionsOfTopic], asked: Iterable[Key]) -> None:
        """What was asked to be deleted and was there is gone."""
        assert self.kept.keys() & set(asked) == self._keys(topics)
        self._forget(asked)

    def _keys(self, topics: list[PartitionsOfTopic]) -> set[Key]:
        keys = [(topic.name, partition) for topic in topics for partition in topic.partition_indexes]
        assert keys, "nothing has happened, and is told"
        assert len(set(keys)) == len(keys)
        return set(keys)

    def _forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.kept.pop(key, None)

    # -- time ----------------------------------------------------------------------------------------

    def _time_of(self, key: Key) -> tuple[int, int] | None:
        """Since when the time of an offset runs, and how long it is; None while the offset is in use."""
        model, kept = self._model, self.kept[key]
        if model.state == "Stable":
            if model.protocol_type != "consumer" or self.is_read(key[0]):
                return None
        elif model.state != "Empty" or model.members:
            return None  # a member is told before the state that it changes
        if kept.expire_ms is not None:
            return kept.at_ms, kept.expire_ms - kept.at_ms
        was_group = model.state == "Empty" and model.protocol_type is not None
        since_ms = model.since_log_ms if was_group else kept.at_ms
        return since_ms, model.config.offsets_retention_minutes * 60_000

    def gone_by_ms(self) -> list[int]:
        """Until when offsets may be there, as things are, by the model's clock."""
        model = self._model
        late_ms = model.config.offsets_retention_check_interval_ms
        times = [(time, kept.at_ms) for key, kept in self.kept.items() if (time := self._time_of(key))]
        # What was over before it was committed, or before it came out of use, has its time from then.
        return [
            max(model.up(since_ms) + length_ms, model.up(at_ms), model.since_ms) + late_ms
            for (since_ms, length_ms), at_ms in times
        ]

    # -- what others say of them ---------------------------------------------------------------------

    def agrees_with_stored(self, stored: Stored) -> None:
        """What is stored is what was committed."""
        expected = {
            key: (it.offset, it.epoch, it.metadata, it.at_ms, it.expire_ms) for key, it in self.kept.items()
        }
        actual = {
            key: (it.offset, it.leader_epoch, it.metadata, it.commit_timestamp_ms, it.expire_timestamp_ms)
            for key, it in stored.items()
        }
        assert expected == actual


# -- how they are asked for ----------------------------------------------------------------------------


def commits_of(ask: OffsetCommitRequest) -> list[Commit]:
    """What is to be committed."""
    return [
        Commit(
            topic.name,
            it.partition_index,
            it.committed_offset,
            it.committed_leader_epoch,
            it.committed_metadata,
            topic.topic_id or "",
        )
        for topic in ask.topics
        for it in topic.partitions
    ]


def keys_of(topics: Iterable[OffsetFetchTopic | OffsetDeleteTopic]) -> list[Key]:
    """What is to be fetched or deleted."""
    return [
        (topic.name, each)
        for topic in topics
        for each in (
            topic.partition_indexes
            if isinstance(topic, OffsetFetchTopic)
            else [it.partition_index for it in topic.partitions]
        )
    ]


def codes_in(answer: Any) -> list[tuple[Key, int]]:
    """The results in the answer to an offset_commit or offset_delete."""
    return [
        ((topic.name, it.partition_index), it.error_code)
        for topic in answer.topics
        for it in topic.partitions
    ]
