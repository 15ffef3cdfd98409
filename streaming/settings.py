"""The settings of the coordinator."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec

from group_coordinator.coordinator_state.clocks import Leeway
from group_coordinator.coordinator_state.config import INT32_MAX
from group_coordinator.coordinator_state.consumer.assignors import ASSIGNORS
from group_coordinator.jobs.settings import (
    DEFAULT_HEAP,
    JobSettings,
    Port,
    Positive,
    SettingsError,
    check_word,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAP_PER_RECORD = 8
"""With a heap of 1 GB and groups of 60 MB, for which 124 MB are allowed, all members were answered. With
groups of 150 MB the query ended."""
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets this in the environment of a program that it starts."""


class CoordinatorSettings(JobSettings, frozen=True, kw_only=True):
    """Settings of `run`, and of those that look after its checkpoint."""

    NEEDED: ClassVar[tuple[str, ...]] = ("bootstrap.servers", "checkpoint")
    # The page that `run` may serve shows groups at the brokers beside its own.
    SIDES: ClassVar[tuple[str, ...]] = ("coordinator", "both")

    checkpoint: str = ""
    """Directory or object-store URI for the state of one coordinator, which it outlives."""

    responses_partitions: Positive = 8
    """Partitions of each response topic that is created."""

    clock_interval_ms: Positive = 1_000
    """Time between two ticks while no deadline is due that is known. It may be half as long again. While no
    requests come it may be three times as long, up to `clock.max.gap.ms`."""
    clock_slack_ms: Annotated[int, msgspec.Meta(ge=0)] = 500
    """How far behind the newest tick the watermark stays. It has to cover the difference of brokers' clocks,
    and the time from a record's append until it can be read."""
    probes_enabled: bool = True
    """Write a probe to each request partition beside each tick, which shows that it takes requests. Without
    probes members expire whose partition takes none."""
    topics_watch_interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 5_000
    """Time between two looks at the topics that consumer groups name (KIP-848), as brokers describe them; 0:
    never. Then groups know of topics what their members say, and not when one is gone or made again."""
    trigger_interval_ms: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Time between the starts of two batches; 0: each begins as soon as the one before is done."""

    max_batch_records: Positive = 200_000
    """Most records of one batch, ticks among them. More are read in several batches, one after the other, so
    that a backlog takes no more memory than one of these, and a restart goes on where the last one ended."""

    state_partitions: Positive = 1
    """Partitions of the state, and so the most executors' cores that work on groups at once. With one, an
    answer comes soonest. Fixed for the life of a checkpoint: to change it, export and restore."""
    standby: bool = False
    """Wait while another coordinator of the same topics runs, and go on when it ends."""
    starting_offsets: str = "earliest"
    """Where a new checkpoint begins to read requests: earliest or latest."""
    member_id_secret: str = ""
    """Makes member ids unguessable. Empty: one is drawn and kept with the checkpoint."""

    metrics_port: Port = 9464
    """Port of the Prometheus endpoint; 0: any free one, -1: none."""

    alive_port: Port = 0
    """Port by which a standby knows at once that this process has ended; 0: any free one, -1: none. Nothing
    is said there."""

    def check(self, environment: Mapping[str, str]) -> None:
        """Refuse what the types do not. Raises `SettingsError`."""
        super().check(environment)
        check_word(self, "starting_offsets", "earliest", "latest")
        self._check_consumer_groups()
        self._check_sizes()
        # The JVM of spark-submit runs already, with what it was given.
        if _SUBMITTED not in environment:
            self._check_heap()

    @property
    def stall_ms(self) -> int:
        """A batch that takes longer is an outage, as nobody is answered meanwhile."""
        return self.trigger_interval_ms + 3 * self.clock_max_gap_ms

    @property
    def clocks_differ_ms(self) -> int:
        """The clocks of request partitions' leaders may differ by so much, besides `clock.slack.ms`.

        A request came before its batch was planned, and nobody knows how long before. So a clock that jumps
        ahead moves time by as much more. That is a gap in all if batches are short.
        """
        return self.clock_max_gap_ms // 2

    @property
    def leeway(self) -> Leeway:
        """The milliseconds by which requests may seem to be earlier or later than they can be."""
        return Leeway(
            later_ms=self.clock_slack_ms + self.clocks_differ_ms,
            # As far as the clock lets time be ahead of the reader.
            earlier_ms=self.clocks_differ_ms + self.trigger_interval_ms,
        )

    @property
    def look_back_ms(self) -> int:
        """The time after which a batch no longer has requests that are later than all of the newest batch.

        A request seems to be later than its batch by no more than clocks may differ. The watermark is not
        older than a batch may take.
        """
        return self.clock_slack_ms + self.clock_max_gap_ms + self.stall_ms

    def _check_consumer_groups(self) -> None:
        """Refuse what no member of the consumer protocol could live with."""
        group = self.group
        session_ms, interval_ms = (
            group.group_consumer_session_timeout_ms,
            group.group_consumer_heartbeat_interval_ms,
        )
        if session_ms <= interval_ms:
            raise SettingsError(
                f"group.consumer.heartbeat.interval.ms ({interval_ms}) must be less than "
                f"group.consumer.session.timeout.ms ({session_ms}), or members expire between two heartbeats"
            )
        names = group.consumer_assignors
        if not set(names) <= set(ASSIGNORS) or len(set(names)) < len(names):
            raise SettingsError(
                f"group.consumer.assignors is {group.group_consumer_assignors!r}: give some of "
                f"{', '.join(ASSIGNORS)}, each once, separated by commas"
            )
        if group.group_consumer_migration_policy != "disabled":
            raise SettingsError(
                "group.consumer.migration.policy can only be disabled: a group changes its protocol while it "
                f"is Empty, and not with members ({group.group_consumer_migration_policy})"
            )

    def _check_sizes(self) -> None:
        """Refuse limits of groups with which a record could be decided that cannot be written."""
        largest = self.group.max_record_bytes
        decided = self.group.max_decided_bytes
        if decided > INT32_MAX:
            raise SettingsError(
                f"max.group.bytes, max.request.bytes and max.group.offsets allow {decided} bytes of records "
                f"about one group at once, and Spark takes {INT32_MAX} from Python at most: lower them"
            )
        for name in ("max.request.size", "buffer.memory"):
            given = self.kafka.get(name, "")
            if given.isdecimal() and int(given) < largest:
                raise SettingsError(
                    f"kafka.{name} is {given}, and max.group.bytes and max.request.bytes allow records of "
                    f"{largest} bytes: raise kafka.{name}, or leave it out"
                )

    def _check_heap(self) -> None:
        """Refuse limits of groups with which a record could be decided that the JVM has no room for.

        It holds a record several times: as Spark's row, as what is sent, and as what waits to be sent.
        """
        # Other masters than these have executors, whose JVMs write the records.
        is_local = re.match(r"local(\[|$)", self.spark.get("spark.master", "local"))
        name = "spark.driver.memory" if is_local else "spark.executor.memory"
        given = self.spark.get(name, DEFAULT_HEAP)
        heap = re.fullmatch(r"(\d+)([kmgt])b?", given.strip().lower())
        if heap is None:
            return
        room = int(heap[1]) * 1024 ** (1 + "kmgt".index(heap[2])) // _HEAP_PER_RECORD
        largest = self.group.max_record_bytes
        if largest > room:
            raise SettingsError(
                f"max.group.bytes and max.request.bytes allow records of {largest} bytes, and with {name} = "
                f"{given} there is room for {room}: lower them, or raise {name}"
            )
