from __future__ import annotations

import json

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from group_coordinator.coordinator_state.events import (
    CommittedPartition,
    GroupCreated,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsOfTopic,
    PartitionsOfTopic,
)
from group_coordinator.history.rows import OffsetChange, read_event, rows_of

BODY = {"event": "group_created", "event_id": "r-0-1-0", "at_ms": 5, "group_id": "orders", "generation_id": 0}


def test_an_event_is_read() -> None:
    expected = GroupCreated(event_id="r-0-1-0", at_ms=5, group_id="orders", generation_id=0)
    assert read_event(json.dumps(BODY)) == expected


@pytest.mark.parametrize(
    "body",
    [
        "{",
        '{"a":' + "[" * 100_000,
        json.dumps(BODY | {"at_ms": "now"}),
        json.dumps(BODY | {"event": "group_renamed"}),
        json.dumps({name: value for name, value in BODY.items() if name != "event_id"}),
    ],
)
def test_what_is_no_event_of_this_version_is_none(body: str) -> None:
    assert read_event(body) is None


def change_of(event: OffsetsCommitted | OffsetsDeleted | OffsetsExpired) -> OffsetChange:
    (row,) = rows_of(event, 0)
    assert isinstance(row, OffsetChange)
    return row


@pytest.mark.parametrize(("member_id", "is_by_hand"), [("c1-a", False), ("", True), (None, False)])
def test_a_commit_is_by_hand_if_it_is_known_that_no_member_did_it(
    member_id: str | None, is_by_hand: bool
) -> None:
    partition = CommittedPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=-1, metadata=""
    )
    topics = [OffsetsOfTopic("t", [partition])]
    row = change_of(OffsetsCommitted(member_id=member_id, client_id="", topics=topics))
    assert (row.member_id, row.is_by_hand) == (member_id, is_by_hand)


@pytest.mark.parametrize(("topic_id", "expected"), [("A", "A"), (UNSET, None)])
def test_a_commit_has_the_id_of_its_topic_if_it_gave_one(
    topic_id: str | UnsetType, expected: str | None
) -> None:
    partition = CommittedPartition(
        partition_index=0, committed_offset=5, committed_leader_epoch=-1, metadata=""
    )
    topics = [OffsetsOfTopic("t", [partition], topic_id)]
    row = change_of(OffsetsCommitted(member_id="c1-a", client_id="", topics=topics))
    assert row.topic_id == expected


def test_a_change_of_offsets_tells_why_or_that_it_is_not_known() -> None:
    topics = [PartitionsOfTopic("t", [0])]
    assert (
        change_of(OffsetsDeleted(topics=topics, client_reason="a bad release")).client_reason
        == "a bad release"
    )
    assert change_of(OffsetsDeleted(topics=topics)).client_reason is None


def test_an_offset_that_went_for_an_unknown_cause_is_not_deleted_by_hand() -> None:
    topics = [PartitionsOfTopic("t", [0])]
    events = [
        OffsetsDeleted(topics=topics),
        OffsetsDeleted(topics=topics, cause="unknown"),
        OffsetsExpired(topics=topics),
    ]
    assert [(row.change, row.is_by_hand) for row in map(change_of, events)] == [
        ("deleted", True),
        ("gone", False),
        ("expired", False),
    ]
    # The coordinator's own events are as they were.
    assert b"cause" not in msgspec.json.encode(events[0])
