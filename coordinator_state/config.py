"""Settings that limit groups, with Kafka's names and defaults where Kafka has them."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

HEAD_BYTES = 10_000
"""As much as the group's and other ids may take in a request, and more."""
_OFFSET_FRAME_BYTES = 300
"""Bytes that names and numbers take in the picture of an offset, at most."""
_BATCH_HEAD_BYTES = 1_000
"""Bytes of a batch beside key and value of its one record: 61 of its own, some of the record, and headers."""
_SMALL_BYTES = 20_000_000
"""Bytes of smaller records that large ones may come after. So many are enough for a part (`step.py`), and for
a batch of rows (`streaming/worker.py`)."""


_Positive = Annotated[int, msgspec.Meta(ge=1)]
# Kafka's own types of these; a time beyond them would be too far away for an int64 of ms.
_PositiveInt32 = Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinator's rules for groups. All times are in ms, all sizes in bytes or characters.

    Frozen, because the same log has to give the same decisions: a value that changes between two runs
    of one batch would change the answers.

    Source of the first block: `GroupCoordinatorConfig.java` of Apache Kafka 4.
    """

    group_min_session_timeout_ms: _NotNegative = 6_000
    """Shortest session that a member may ask for."""
    group_max_session_timeout_ms: _NotNegative = 1_800_000
    """Longest session that a member may ask for."""
    group_initial_rebalance_delay_ms: _NotNegative = 3_000
    """Time that the first rebalance of an empty group waits for further members."""
    group_max_size: _Positive = INT32_MAX
    """Most members of one group."""
    offset_metadata_max_bytes: _NotNegative = 4_096
    """Longest metadata of a committed offset; like Kafka's, counted in UTF-16 units in spite of its name."""
    offsets_retention_minutes: _PositiveInt32 = 10_080
    """How long the coordinator keeps offsets that no member uses."""
    offsets_retention_check_interval_ms: _PositiveInt32 = 600_000
    """An Empty group without offsets is deleted this long after it became Empty (Kafka: at the next check).
    Offsets expire at most this much late."""

    group_consumer_session_timeout_ms: _PositiveInt32 = 45_000
    """Session of a member of the consumer protocol (KIP-848), which does not ask for one of its own."""
    group_consumer_heartbeat_interval_ms: _PositiveInt32 = 5_000
    """How often such a member is told to send a heartbeat; less than its session."""
    group_consumer_max_size: _Positive = INT32_MAX
    """Most members of one group of the consumer protocol."""
    group_consumer_assignors: str = "uniform,range"
    """Assignors that members may name, separated by commas; the first is used if they name none."""
    group_consumer_assignment_interval_ms: Annotated[int, msgspec.Meta(ge=0, le=15_000)] = 1_000
    """Least time between two assignments of one group, in log time; what changes meanwhile comes with the
    second. It is what a member costs that changes its mind all the time. 0: each change is an assignment."""
    group_consumer_migration_policy: str = "disabled"
    """Whether a group with members may change its protocol. Only `disabled` is supported: it may not, but an
    Empty group does."""

    new_member_join_timeout_ms: _NotNegative = 300_000
    """How long a member that joins for the first time may wait for the others (a constant in Kafka)."""

    max_request_bytes: _NotNegative = 1_000_000
    """Largest request that is read; a larger one is refused unread."""

    max_group_bytes: _NotNegative = 4_000_000
    """Largest sum of all members' subscriptions and names in one group: what the leader's answer carries.
    In a group of the consumer protocol, its topics' partitions are part of the sum."""

    max_group_offsets: _NotNegative = 20_000
    """Most committed offsets of one group. Together they may also take no more than `max.group.bytes` in the
    answer that lists them all."""

    max_read_bytes: _NotNegative = 16_000_000
    """Bytes of answers to describe_group and offset_fetch about one group in one batch. Once there are more,
    the other such requests are answered COORDINATOR_LOAD_IN_PROGRESS, after which clients ask again.
    With eight times as much about all groups of a task, one request is answered about each further group."""

    max_id_length: _NotNegative = 255
    """Longest group id, client id, request id, client host, protocol name and topic name; in characters."""

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets_retention_minutes` in ms."""
        return self.offsets_retention_minutes * 60_000

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """The names in `group_consumer_assignors`, in order."""
        return _names_in(self.group_consumer_assignors)

    @property
    def max_request_partitions(self) -> int:
        """Most partitions in one request: their answer has to fit into `max_record_bytes`.

        In the request a number may do; in the answer a partition takes about a hundred bytes.
        """
        return self.max_request_bytes // 40

    @property
    def max_body_bytes(self) -> int:
        """Bytes that a request may have besides its ids, which no other part of it depends on."""
        return max(self.max_request_bytes - HEAD_BYTES, self.max_request_bytes // 2)

    @property
    def max_request_record_bytes(self) -> int:
        """Size of a batch with the largest request and its key. The request topic must allow it."""
        return self.max_request_bytes + 4 * self.max_id_length + _BATCH_HEAD_BYTES

    @property
    def max_record_bytes(self) -> int:
        """Size of the largest record that is written. The output topics and the producer must allow it.

        The largest records are a group's picture, the leader's answer and a rejected record. The answer has
        all subscriptions in base64, and an assignment of one request. The rejected record has key and value
        in base64.
        """
        return 2 * self.max_group_bytes + 4 * self.max_request_bytes

    @property
    def max_decided_bytes(self) -> int:
        """Most bytes of records that are decided about one group at once, and handed over together.

        At most two of them are large: of an answer, another that a deadline brings, and the group's picture.
        With them come the pictures of all offsets. Each has the ids of group and topic, of which a character
        takes six bytes at most.
        """
        ids = 2 * 6 * self.max_id_length
        offsets = min(self.max_group_offsets, self.max_group_bytes // 100) * (_OFFSET_FRAME_BYTES + ids)
        return 2 * self.max_record_bytes + self.max_group_bytes + offsets + _SMALL_BYTES


@cache
def _names_in(setting: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in setting.split(","))
