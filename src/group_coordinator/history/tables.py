"""The Delta tables: what they are called, their columns, and what makes a row the same row.

A column that a new version adds is added to tables that are there; none is ever taken away or changed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from group_coordinator.history.rows import GenerationMember, Join, OffsetChange, Row, Transition
from group_coordinator.history.spans import Assignment, Membership, Wait

_OF_EVENT = "event_id STRING, at TIMESTAMP, log_offset BIGINT, group_id STRING, generation_id INT"

_OF_REQUEST = f"{_OF_EVENT}, principal STRING"

_SPAN = "since TIMESTAMP, until TIMESTAMP, begun_by STRING, ended_by STRING"


class Table(NamedTuple):
    """A table. `columns`: as DDL. A row is found again by its `key`. `row`: what it is in Python.

    All tables are partitioned by `day`, the date (UTC) of the column `begin`.
    """

    name: str
    comment: str
    columns: str
    key: tuple[str, ...]
    row: type[Row] | None
    begin: str = "at"
    is_added: bool = False
    """Whether it came with a later version than the other tables, so that there are histories without it."""

    @property
    def types(self) -> dict[str, str]:
        """The types of `all_columns`, by name."""
        return dict(re.findall(r"(\w+) (\w+)", self.all_columns))

    @property
    def is_of_spans(self) -> bool:
        """Whether its rows last from one event to another one."""
        return self.begin == "since"

    @property
    def all_columns(self) -> str:
        """`columns`, and the one that the table is partitioned by."""
        return f"{self.columns}, day DATE"


EVENTS = Table(
    "events",
    "Each event once: what it says (body), and where it stands in the topic",
    "event_id STRING, at TIMESTAMP, group_id STRING, generation_id INT, event STRING, member_id STRING, "
    "request_id STRING, principal STRING, reason STRING, body STRING, log_partition INT, log_offset BIGINT",
    ("event_id",),
    None,
)

TABLES = (
    Table(
        "transitions",
        "Moves of groups from state to state: a rebalance begins, is half done, is over",
        f"{_OF_REQUEST}, from_state STRING, to_state STRING, reason STRING, cause STRING, "
        "rebalance_ms BIGINT",
        ("event_id",),
        Transition,
    ),
    Table(
        "joins",
        "Who joined when in which join phase",
        f"{_OF_REQUEST}, member_id STRING, group_instance_id STRING, client_id STRING, is_first BOOLEAN, "
        "join_phase_ms BIGINT, client_reason STRING",
        ("event_id",),
        Join,
    ),
    Table(
        "generations",
        "The members of each generation",
        f"{_OF_EVENT}, member_id STRING, is_leader BOOLEAN, protocol_type STRING, protocol_name STRING",
        ("event_id", "member_id"),
        GenerationMember,
    ),
    Table(
        "offsets",
        "Offsets as they were committed, deleted and expired",
        f"{_OF_REQUEST}, topic STRING, partition INT, change STRING, committed_offset BIGINT, "
        "committed_leader_epoch INT, metadata STRING, member_id STRING, client_id STRING, "
        "client_reason STRING, topic_id STRING",
        ("event_id", "topic", "partition"),
        OffsetChange,
    ),
    Table(
        "membership",
        "Who was in a group, from when to when, and why they went",
        "group_id STRING, member_id STRING, group_instance_id STRING, client_id STRING, client_host STRING, "
        f"{_SPAN}, reason STRING, client_reason STRING, session_timeout_ms BIGINT, last_commit_ms BIGINT",
        # A member of the consumer protocol may come back under the id that it had.
        ("group_id", "member_id", "begun_by"),
        Membership,
        begin="since",
    ),
    Table(
        "assignments",
        "Who owned which partition or unit of work in which generation, from when to when",
        f"group_id STRING, generation_id INT, member_id STRING, topic STRING, partition INT, {_SPAN}, "
        "revoking_since TIMESTAMP",
        ("group_id", "generation_id", "member_id", "topic", "partition", "begun_by"),
        Assignment,
        begin="since",
    ),
    Table(
        "waits",
        "Who still held a partition that another member was to have, from when to when",
        "group_id STRING, topic STRING, partition INT, holder_id STRING, member_id STRING, "
        f"assignment_epoch INT, {_SPAN}",
        ("group_id", "member_id", "topic", "partition", "begun_by"),
        Wait,
        begin="since",
        is_added=True,
    ),
)
"""The tables that are made of events."""

LAG = Table(
    "lag",
    "How far groups were behind in each topic, as it was measured",
    "group_id STRING, at TIMESTAMP, until TIMESTAMP, topic STRING, partitions INT, records BIGINT, "
    "age_ms BIGINT, error_ms BIGINT, at_least BOOLEAN, status STRING, trend STRING, clear_in_ms BIGINT, "
    "lost_records BIGINT",
    ("group_id", "topic", "at"),
    None,
)
"""Its key is a span of `history.lag.interval.ms` that `at` is in: see `LagWriter`."""

ALL_TABLES = (EVENTS, *TABLES, LAG)
