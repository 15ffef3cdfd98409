"""A consumer's positions in its partitions, restored when they are assigned and committed as it moves on.

Source: ConsumerCoordinator.java of Apache Kafka 4 (initWithCommittedOffsetsIfNeeded, onJoinPrepare,
maybeAutoCommitOffsetsAsync).
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from kafka import KafkaConsumer
from kafka.errors import KafkaTimeoutError
from kafka.future import Future
from kafka.structs import TopicPartition

from group_coordinator.client.clock import now_ms
from group_coordinator.client.errors import CommitFailedError, FencedInstanceIdError
from group_coordinator.client.futures import wait_for
from group_coordinator.client.listeners import RebalanceListener, tell_gone
from group_coordinator.client.member import GroupMember
from group_coordinator.client.offsets import Offsets

log = logging.getLogger(__name__)

# How long a rebalance waits to hear what became of the commit before it. It is in the log before the join and
# counts in any case: the answer only says whether the partitions are still this consumer's.
_PATIENCE_MS = 5_000


class AssignedRecords(KafkaConsumer):  # type: ignore[misc]
    """kafka-python's consumer without a group: reads what it is told to.

    kafka-python has no public names for positions. This module uses only these private names of it.
    """

    def without_position(self) -> set[TopicPartition]:
        """Return the partitions that nobody has said where to begin in."""
        missing: set[TopicPartition] = self._subscription.missing_fetch_positions()
        return missing

    def consumed(self) -> Offsets:
        """Return where the next `poll` goes on, of the partitions of which that is known."""
        consumed: Offsets = self._subscription.all_consumed_offsets()
        return consumed


class _Question(NamedTuple):
    """What is committed for `partitions`? The answer may come some polls later."""

    partitions: set[TopicPartition]
    answer: Future


class Positions:
    """The positions of `member` in `records`; the member's listener, which tells the program's `listener`.

    `auto_commit_interval_ms`: None to commit nothing by itself. `patience_ms`: how long a rebalance, or
    closing, waits for its commit.
    """

    def __init__(
        self, member: GroupMember, records: AssignedRecords, auto_commit_interval_ms: int | None
    ) -> None:
        self.listener: RebalanceListener | None = None
        self.auto_commit_interval_ms = auto_commit_interval_ms
        self.patience_ms = _PATIENCE_MS
        self._member = member
        self._records = records
        self._question: _Question | None = None
        self._commit_due = 0
        self._owned: frozenset[TopicPartition] = frozenset()
        # Offsets that were committed since the partitions were assigned, and need not be committed again.
        self._committed: Offsets = {}

    def restore(self, timeout_ms: int | None) -> bool:
        """Begin where the group has come to; False if that is not known in time.

        Where nothing is committed nothing is done, and kafka-python does what `auto_offset_reset` says.
        """
        missing = self._records.without_position()
        if not missing:
            return True
        if self._question is None or not missing <= self._question.partitions:
            self._question = _Question(missing, self._member.committed_async(missing))
        answer = self._question.answer
        if not wait_for(answer, timeout_ms):
            return False
        self._question = None
        if isinstance(answer.exception, KafkaTimeoutError):
            log.warning("it is not known yet where to begin: %s", answer.exception)
            return False
        if answer.exception is not None:
            raise answer.exception
        for partition in missing:
            committed = answer.value[partition]
            if committed is not None:
                self._records.seek(partition, committed.offset)
                self._committed[partition] = self._records.consumed()[partition]
        return True

    def commit_if_due(self) -> None:
        """Auto-commit, if it is time to."""
        now = now_ms()
        if self.auto_commit_interval_ms is not None and now >= self._commit_due:
            self._commit_due = now + self.auto_commit_interval_ms
            self._commit()

    def _commit(self) -> Future:
        """Commit the positions that have moved."""
        moved = {
            partition: position
            for partition, position in self._records.consumed().items()
            if position != self._committed.get(partition)
        }
        self._committed |= moved
        return self._member.commit_async(moved, self._on_commit)

    def _on_commit(self, offsets: Offsets, error: Exception | None) -> None:
        if error is not None:
            log.warning("records may be read again, because the auto-commit failed: %s", error)
            for partition in offsets:
                self._committed.pop(partition, None)

    # -- rebalances ------------------------------------------------------------------------------------

    def on_partitions_assigned(self, assigned: frozenset[Any]) -> None:
        """Begin to read. Where, the program may say, which is asked before the group is."""
        self._read_only(self._owned | assigned)
        self._question = None
        self._commit_due = now_ms() + (self.auto_commit_interval_ms or 0)
        if self.listener is not None:
            self.listener.on_partitions_assigned(assigned)

    def on_partitions_revoked(self, revoked: frozenset[Any]) -> None:
        """Commit and stop reading, or learn from the refusal that the partitions are lost."""
        try:
            is_owner = self.auto_commit_interval_ms is None or self._commit_last()
            tell_gone(self.listener, revoked, lost=not is_owner)
        finally:
            self._read_only(self._owned - revoked)

    def on_partitions_lost(self, lost: frozenset[Any]) -> None:
        """Stop reading. There is nothing to commit: the partitions may be somebody else's by now."""
        try:
            tell_gone(self.listener, lost, lost=True)
        finally:
            self._read_only(self._owned - lost)

    def _read_only(self, partitions: frozenset[TopicPartition]) -> None:
        """Read these partitions from now on. Those that were read before keep their positions."""
        self._owned = partitions
        self._records.assign(sorted(partitions))
        self._committed = {each: offset for each, offset in self._committed.items() if each in partitions}

    def _commit_last(self) -> bool:
        """Commit and wait; False if it is refused because the group has gone on."""
        future = self._commit()
        wait_for(future, self.patience_ms)
        return not isinstance(future.exception, CommitFailedError | FencedInstanceIdError)
