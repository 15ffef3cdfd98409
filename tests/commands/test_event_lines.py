"""The lines of events, of each kind and of both sides."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from group_coordinator.commands.event_lines import line_of
from group_coordinator.coordinator_state.events import (
    AnyEvent,
    AssignmentPropagated,
    ClockCorrected,
    CommittedPartition,
    Event,
    GenerationCompleted,
    GenerationWrapped,
    GroupCreated,
    GroupDeleted,
    GroupTypeChanged,
    MemberAdded,
    MemberAssigned,
    MemberAway,
    MemberFenced,
    MemberReconciled,
    MemberRejoined,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsOfTopic,
    PartitionsOfTopic,
    RebalanceCause,
    RebalancePostponed,
    RequestLate,
    SessionNearlyExpired,
    StateChanged,
    SubscriptionChanged,
    TargetAssigned,
    TopicsChanged,
)
from group_coordinator.coordinator_state.responses import KnownPattern, KnownTopic
from tests.golden import assert_golden
from tests.history.scripts import share

AT_MS = 1_768_572_300_123
HEAD: dict[str, Any] = {"event_id": "e", "at_ms": AT_MS, "group_id": "orders", "generation_id": 7}
C1: dict[str, Any] = {"member_id": "c1-1b2c3d4e-0000-4000-8000-00000000000a", "client_id": "c1"}
W7: dict[str, Any] = {**C1, "group_instance_id": "worker-7"}


def offsets(*topics: str, partitions: int = 1) -> list[OffsetsOfTopic]:
    return [
        OffsetsOfTopic(
            topic,
            [
                CommittedPartition(
                    partition_index=number,
                    committed_offset=number + 5,
                    committed_leader_epoch=-1,
                    metadata="",
                )
                for number in range(partitions)
            ],
        )
        for topic in topics
    ]


COORDINATOR: list[Event] = [
    GroupCreated(**HEAD),
    MemberAdded(**HEAD, **C1, client_host="10.0.0.7"),
    MemberAdded(**HEAD, **W7, client_host="10.0.0.7", client_reason="it rebalances", principal="alice"),
    MemberRejoined(**HEAD, **C1),
    MemberRejoined(**HEAD, **W7, join_phase_ms=1_500, client_reason="it rebalances"),
    *(
        MemberRemoved(**HEAD, **C1, reason=reason)
        for reason in ("session_expired", "not_rejoined", "not_synced", "group_full")
    ),
    MemberRemoved(**HEAD, **W7, reason="left", client_reason="the consumer is being closed"),
    SessionNearlyExpired(**HEAD, **W7, session_timeout_ms=10_000, remaining_ms=1_200),
    MemberFenced(**HEAD, **W7, replaced_by="c1-new", client_host="10.0.0.8", client_reason=None),
    StateChanged(
        **HEAD,
        from_="Stable",
        to="PreparingRebalance",
        reason=f"{C1['member_id']} left: the consumer is being closed",
        cause=RebalanceCause.MEMBER_LEFT,
        principal="alice",
    ),
    StateChanged(
        **HEAD, from_="PreparingRebalance", to="CompletingRebalance", reason="all members have joined"
    ),
    GenerationCompleted(
        **HEAD, protocol_type="consumer", protocol_name="range", leader=C1["member_id"], members=["a", "b"]
    ),
    StateChanged(
        **HEAD,
        from_="CompletingRebalance",
        to="Stable",
        reason="the leader's assignment arrived",
        cause=RebalanceCause.MEMBER_LEFT,
        rebalance_ms=2_040,
    ),
    AssignmentPropagated(**HEAD, assignments=[MemberAssigned("a", b"")]),
    RebalancePostponed(**HEAD, until_ms=AT_MS + 10_000),
    GenerationWrapped(**HEAD),
    OffsetsCommitted(**HEAD, **C1, topics=offsets("orders", "refunds", partitions=2)),
    OffsetsCommitted(
        **HEAD,
        member_id="",
        client_id="admin-eve@box-7-0",
        topics=offsets("orders", partitions=3),
        client_reason="a bad release",
    ),
    OffsetsDeleted(**HEAD, topics=[PartitionsOfTopic("orders", [0, 1])], client_reason="the topic is gone"),
    OffsetsExpired(**HEAD, topics=[PartitionsOfTopic("orders", [0, 1, 2, 3, 4])]),
    StateChanged(**HEAD, from_="Empty", to="Dead", reason="deleted by admin-eve@box-7-0: the topic is gone"),
    GroupDeleted(**HEAD),
    RequestLate(**HEAD, partition=3, offset=70, appended_ms=AT_MS - 900),
    ClockCorrected(**HEAD, partition=3, offset=70, appended_ms=AT_MS - 90_000, shift_ms=90_000, skipped_ms=0),
]
CONSUMERS: list[Event] = [
    GroupTypeChanged(**HEAD, from_="classic", to="consumer"),
    MemberAdded(**HEAD, **C1, client_host="10.0.0.7", join_phase_ms=None),
    TopicsChanged(**HEAD, metadata_version=2, topics=[KnownTopic(name="orders", partitions=6)], gone=["old"]),
    StateChanged(
        **HEAD, from_="Empty", to="Assigning", reason="c1 joined", cause=RebalanceCause.MEMBER_JOINED
    ),
    TargetAssigned(
        **HEAD, assignment_epoch=7, protocol_name="uniform", assignments=[MemberAssigned("c1", b"")]
    ),
    TargetAssigned(**HEAD, assignment_epoch=7, protocol_name="", assignments=[MemberAssigned("c1", b"")]),
    StateChanged(**HEAD, from_="Assigning", to="Reconciling", reason="the work was divided again"),
    MemberReconciled(
        **HEAD,
        member_id="c1",
        member_epoch=6,
        assignment=share(0, 1, 2, 3),
        revoking=share(2, 3),
    ),
    MemberReconciled(**HEAD, member_id="c2", group_instance_id="worker-7", member_epoch=7, assignment=b""),
    MemberReconciled(**HEAD, member_id="c3", member_epoch=7, assignment=b"\0"),
    StateChanged(
        **HEAD,
        from_="Reconciling",
        to="Stable",
        reason="c2 is at epoch 7",
        cause=RebalanceCause.MEMBER_JOINED,
        rebalance_ms=4_000,
    ),
    SubscriptionChanged(**HEAD, member_id="c1", topics=["orders", "refunds"], server_assignor="range"),
    SubscriptionChanged(**HEAD, member_id="c1", topics=[]),
    SubscriptionChanged(**HEAD, member_id="c1", topics=["orders"], subscribed_topic_regex="ord.*"),
    TopicsChanged(
        **HEAD,
        metadata_version=3,
        patterns=[KnownPattern(pattern="ord.*", topics=["orders"]), KnownPattern(pattern="x.*", user="bob")],
    ),
    MemberAway(**HEAD, **W7),
    MemberFenced(**HEAD, **W7, replaced_by=W7["member_id"], client_host="10.0.0.8", client_reason=None),
    MemberRemoved(**HEAD, **C1, reason="not_revoked"),
]
BROKERS: list[Event] = [
    StateChanged(**HEAD, from_="", to="Stable", reason="older records of the group are not there"),
    MemberAdded(**HEAD, **C1, client_host="/10.0.0.7", join_phase_ms=None),
    MemberRemoved(**HEAD, **C1, reason="unknown", session_timeout_ms=45_000, last_commit_ms=47_000),
    MemberRemoved(**HEAD, **C1, reason="unknown", session_timeout_ms=45_000),
    StateChanged(
        **HEAD,
        from_="Stable",
        to="PreparingRebalance",
        reason=f"{C1['member_id']} went",
        cause=RebalanceCause.UNKNOWN,
    ),
    OffsetsCommitted(**HEAD, member_id=None, client_id="", topics=offsets("orders")),
    OffsetsCommitted(**HEAD, member_id="", client_id="", topics=offsets("orders")),
    OffsetsDeleted(**HEAD, topics=[PartitionsOfTopic("orders", [0])], cause="unknown"),
]


def line(event: Event) -> str:
    return line_of(msgspec.json.decode(msgspec.json.encode(event)))


def test_each_kind_has_its_words() -> None:
    assert {type(each) for each in (*COORDINATOR, *CONSUMERS)} == set(get_args(AnyEvent))
    parts = [
        *(["the coordinator's:"], COORDINATOR),
        *(["", "of groups of the consumer protocol:"], CONSUMERS),
        *(["", "of groups at the brokers:"], BROKERS),
    ]
    lines = [each if isinstance(each, str) else line(each) for part in parts for each in part]
    assert_golden("events", "".join(f"{each}\n" for each in lines))


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "\u202e", "\r"])
def test_names_and_reasons_may_not_draw_on_a_terminal(text: str) -> None:
    named: dict[str, Any] = HEAD | {"group_id": text}
    event = OffsetsCommitted(
        **named, member_id="", client_id=text, topics=offsets(text), client_reason=text, principal=text
    )
    shown = line(event)
    assert shown.isprintable()
    assert text not in shown


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"event": "group_renamed", "to": "new name", "more": [1, 2], "none": None},
            'group_renamed to="new name" more=2',
        ),
        # Somebody else wrote it, or a later version.
        ({"event": "member_added", "member_id": 7}, "member_added member_id=7"),
    ],
)
def test_an_event_that_is_not_known_has_all_its_fields(fields: dict[str, Any], expected: str) -> None:
    event = {"event_id": "e", "at_ms": AT_MS, "group_id": "orders", **fields}
    assert line_of(event) == f"2026-01-16T14:05:00.123Z  orders  {expected}"
