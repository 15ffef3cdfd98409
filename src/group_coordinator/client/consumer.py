"""`GroupConsumer`: kafka-python's KafkaConsumer, in a group of this coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka.future import Future
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from kafka.structs import MemberState as KafkaMemberState

from group_coordinator.client.clock import now_ms
from group_coordinator.client.commits import CommitCallback
from group_coordinator.client.listeners import RebalanceListener, check_listener
from group_coordinator.client.logs import LogQuestions
from group_coordinator.client.member import GroupMember
from group_coordinator.client.patterns import TopicPattern
from group_coordinator.client.positions import AssignedRecords, Positions
from group_coordinator.client.states import MemberState

# Longest wait for records: how late the group may be heard meanwhile.
_SLICE_MS = 100

# Settings that say how to read records. The rest say how to connect, which the member has to do as well.
_ABOUT_RECORDS = frozenset(
    {
        "check_crcs",
        "client_rack",
        "enable_incremental_fetch_sessions",
        "exclude_internal_topics",
        "fetch_max_bytes",
        "fetch_max_wait_ms",
        "fetch_min_bytes",
        "isolation_level",
        "key_deserializer",
        "max_partition_fetch_bytes",
        "max_poll_records",
        "value_deserializer",
    }
)
_RESETS = ("earliest", "latest", "none")
_KAFKA_STATES = {
    MemberState.PREPARING_REBALANCE: KafkaMemberState.REBALANCING,
    MemberState.COMPLETING_REBALANCE: KafkaMemberState.REBALANCING,
    MemberState.STABLE: KafkaMemberState.STABLE,
}

Records = dict[TopicPartition, list[Any]]
"""partition -> its ConsumerRecords, in order; only partitions that have any."""


class GroupConsumer(LogQuestions):
    """A consumer of Kafka's records whose group the streaming coordinator looks after.

    To use like kafka-python's KafkaConsumer, and like it in one thread only. It has the methods of that, but
    for `assign` and `unsubscribe`, and the settings. The records come from Kafka. Membership and committed
    offsets are those of a `GroupMember`, whose settings it also takes.

    `enable_auto_commit`: commit what `poll` has returned, every `auto_commit_interval_ms` in the next `poll`,
    before partitions are taken away, and on closing; positions that have not moved are not committed again.
    `auto_offset_reset`: where to begin in a partition of which nothing is committed, or no record is left
    there: "earliest", "latest", or "none", which has `poll` raise NoOffsetForPartitionError or
    OffsetOutOfRangeError until `seek` says where. `default_offset_commit_callback`: hears of what
    `commit_async` commits without a callback. `consumer_timeout_ms`: when an iteration without records ends.

    Raises ValueError, MissingTopicError or a KafkaError.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        auto_offset_reset: str = "latest",
        default_offset_commit_callback: CommitCallback | None = None,
        consumer_timeout_ms: float = float("inf"),
        **settings: Any,
    ) -> None:
        if auto_offset_reset not in _RESETS:
            raise ValueError(f"auto_offset_reset {auto_offset_reset!r} is none of {', '.join(_RESETS)}")
        if auto_commit_interval_ms < 0:
            raise ValueError("auto_commit_interval_ms must not be negative")
        if "partition_assignment_strategy" in settings:
            instead = "give the names of assignors as `assignors`"
            if settings.get("group_protocol") == "consumer":
                instead = "the coordinator divides the work: give `server_assignor`"
            raise ValueError(f"partition_assignment_strategy: {instead}")
        about_records = {name: settings.pop(name) for name in _ABOUT_RECORDS & settings.keys()}
        settings["bootstrap_servers"] = bootstrap_servers
        about_connections = {
            name: value
            for name, value in settings.items()
            if name in KafkaConsumer.DEFAULT_CONFIG and name in KafkaProducer.DEFAULT_CONFIG
        }

        self._group_id = group_id
        self._group_instance_id: str | None = settings.get("group_instance_id")
        self._default_callback = default_offset_commit_callback
        self._consumer_timeout_ms = consumer_timeout_ms
        self._topics: Collection[str] | None = None
        self._pattern: TopicPattern | None = None
        self._look_every_ms: int = settings.get("metadata_max_age_ms", 300_000)
        self._with_internal = not about_records.get("exclude_internal_topics", True)

        with ExitStack() as on_error:
            self._member = GroupMember(group_id=group_id, **settings)
            on_error.callback(self._member.close)
            self._records = AssignedRecords(
                **about_connections,
                **about_records,
                allow_auto_create_topics=False,
                auto_offset_reset=auto_offset_reset,
                enable_auto_commit=False,
                group_id=None,
            )
            on_error.callback(self._records.close)
            self._positions = Positions(
                self._member, self._records, auto_commit_interval_ms if enable_auto_commit else None
            )
            if topics:
                self.subscribe(topics)
            on_error.pop_all()

    # -- the group -----------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: Collection[str] = (),
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share the partitions of `topics`; see `GroupMember.subscribe`.

        Or of all topics whose names begin with a match of the regular expression `pattern`. New ones are
        looked for every `metadata_max_age_ms`.

        `listener` is called when positions can be asked for, set and committed. Revoked partitions still have
        theirs. Assigned partitions begin where it seeks, or else at the committed offset.
        """
        check_listener(listener)
        if topics and pattern is not None:
            raise ValueError("subscribe to either topics or a pattern; give a listener by name")
        found = None
        if pattern is not None:
            found = TopicPattern(pattern, self.topics, self._look_every_ms, with_internal=self._with_internal)
            topics = found.topics()
        self._member.subscribe(topics, listener=self._positions)
        self._positions.listener = listener
        self._topics, self._pattern = frozenset(topics), found

    def _look_for_topics(self) -> None:
        found = None if self._pattern is None else self._pattern.topics_if_due()
        if found is not None and found != self._topics:
            self._member.subscribe(found, listener=self._positions)
            self._topics = found

    def subscription(self) -> set[str] | None:
        """Return the topics that were subscribed to, None if there were none."""
        return None if self._topics is None else set(self._topics)

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this consumer owns."""
        return set(self._member.assignment)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return who this consumer is in the group. `generation_id` is that of the assignment, -1 without."""
        return ConsumerGroupMetadata(
            group_id=self._group_id,
            generation_id=self._member.generation_id,
            member_id=self._member.member_id,
            group_instance_id=self._group_instance_id,
            state=_KAFKA_STATES.get(self._member.state, KafkaMemberState.UNJOINED),
        )

    def close(self, autocommit: bool = True, timeout_ms: int = 5_000, *, leave: bool | None = None) -> None:  # noqa: FBT001, FBT002 - as in kafka-python
        """Commit, if auto-commit is on and `autocommit`; give up the partitions, leave the group, disconnect.

        See `GroupMember.close` for `leave`, and for what is raised.
        """
        if not autocommit:
            self._positions.auto_commit_interval_ms = None
        self._positions.patience_ms = timeout_ms
        try:
            self._member.close(timeout_ms, leave=leave)
        finally:
            self._records.close(autocommit=False, timeout_ms=timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error nobody knows whether the last records were processed.
        self.close(autocommit=kind is None)

    # -- records -------------------------------------------------------------------------------------

    def poll(
        self,
        timeout_ms: int = 0,
        max_records: int | None = None,
        update_offsets: bool = True,  # noqa: FBT001, FBT002 - as in kafka-python
    ) -> Records:
        """Take part in the group, and return records of the partitions that this consumer owns.

        Waits up to `timeout_ms` for records, and returns those that there are first, at most `max_records`
        (by default `max_poll_records`). Has to be called at least every `max_poll_interval_ms`. Without
        `update_offsets` the position stays, as in kafka-python.

        Raises what `GroupMember.poll` raises; NoOffsetForPartitionError or OffsetOutOfRangeError if a
        position is missing and `auto_offset_reset` is "none".
        """
        deadline = now_ms() + timeout_ms
        self._look_for_topics()
        while True:
            self._member.poll(0 if self._member.assignment else _left(deadline))
            records = self._read(deadline, max_records, update_offsets=update_offsets)
            if records or not _left(deadline):
                return records

    def _read(self, deadline: int, max_records: int | None, *, update_offsets: bool) -> Records:
        if not self._member.assignment:
            return {}
        self._positions.commit_if_due()
        if not self._positions.restore(min(_left(deadline), _SLICE_MS)):
            return {}
        slice_ms = min(_left(deadline), _SLICE_MS)
        records: Records = self._records.poll(slice_ms, max_records, update_offsets)
        # That took a while, in which the group may have gone on without this consumer.
        return records if self._member.holds_assignment else {}

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """Return the next record. Polls for each, so that positions are exact; `poll` itself is faster."""
        silent_since = now_ms()
        while self._member.state is not MemberState.CLOSED:
            for records in self.poll(_SLICE_MS, max_records=1).values():
                return records[0]
            if now_ms() - silent_since >= self._consumer_timeout_ms:
                break
        raise StopIteration

    # -- positions -----------------------------------------------------------------------------------

    def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int | None:
        """Return the offset of the next record that `poll` will return, None if it is not known in time."""
        if not self._positions.restore(timeout_ms):
            return None
        position: int | None = self._records.position(partition, timeout_ms)
        return position

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from `offset`."""
        self._records.seek(partition, offset)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first record there is, of all partitions if none is given."""
        self._records.seek_to_beginning(*partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the next record to come, of all partitions if none is given."""
        self._records.seek_to_end(*partitions)

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit `offsets`, by default the positions; see `GroupMember.commit`."""
        self._member.commit(self._records.consumed() if offsets is None else offsets, timeout_ms)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Future:
        """Commit `offsets`, by default the positions, without waiting; see `GroupMember.commit_async`."""
        return self._member.commit_async(
            self._records.consumed() if offsets is None else offsets, callback or self._default_callback
        )

    def committed(
        self,
        partition: TopicPartition,
        metadata: bool = False,  # noqa: FBT001, FBT002 - as in kafka-python
        timeout_ms: int | None = None,
    ) -> int | OffsetAndMetadata | None:
        """Return what is committed for a partition: an int, or with `metadata` an OffsetAndMetadata."""
        committed = self._member.committed([partition], timeout_ms)[partition]
        return committed if metadata or committed is None else committed.offset


def _left(deadline: int) -> int:
    return max(deadline - now_ms(), 0)
