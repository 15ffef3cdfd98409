"""Each check holds for the right story, and fails for each story that is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from group_coordinator.client.assignors import to_assignment
from group_coordinator.coordinator_state.events import (
    AssignmentPropagated,
    CommittedPartition,
    MemberAdded,
    MemberAssigned,
    MemberRemoved,
    OffsetsCommitted,
    OffsetsOfTopic,
    StateChanged,
)
from group_coordinator.coordinator_state.responses import GroupPicture, PicturedMember
from group_coordinator.demo import checks
from group_coordinator.demo.checks import History, Outage, run_checks
from group_coordinator.demo.store import Ownership, StoredOrder


def propagated(generation: int, **shares: list[int]) -> AssignmentPropagated:
    return AssignmentPropagated(
        event_id=f"a{generation}",
        at_ms=generation * 1000,
        group_id="g",
        generation_id=generation,
        assignments=[
            MemberAssigned(member_id, to_assignment(("orders", each) for each in share).encode())
            for member_id, share in shares.items()
        ],
    )


def moved(from_: str, to: str) -> StateChanged:
    return StateChanged(
        event_id="s", at_ms=0, group_id="g", generation_id=1, from_=from_, to=to, reason="because"
    )


def joined(worker: str) -> MemberAdded:
    return MemberAdded(
        event_id=f"j-{worker}",
        at_ms=0,
        group_id="g",
        generation_id=1,
        member_id=f"m-{worker}",
        client_id=worker,
        client_host="",
    )


def removed(worker: str, reason: str, at_ms: int) -> MemberRemoved:
    return MemberRemoved(
        event_id=f"r{at_ms}",
        at_ms=at_ms,
        group_id="g",
        generation_id=1,
        member_id=f"m-{worker}",
        client_id=worker,
        reason=reason,
    )


def picture(generation: int, *workers: str, state: str = "Stable") -> GroupPicture:
    return GroupPicture(
        group_id="g",
        state=state,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        leader=None,
        state_timestamp_ms=0,
        members=[
            PicturedMember(
                member_id=f"m-{worker}",
                group_instance_id=None,
                client_id=worker,
                client_host="",
                session_timeout_ms=6000,
                rebalance_timeout_ms=6000,
                member_metadata=b"",
                member_assignment=b"",
            )
            for worker in workers
        ],
    )


def order(number: int, partition: int, worker: str, generation: int, at_ms: int) -> StoredOrder:
    return StoredOrder(number, partition, number, worker, generation, at_ms)


def assigned(worker: str, generation: int, *partitions: int) -> Ownership:
    return Ownership("assigned", frozenset(partitions), worker, f"m-{worker}", generation, 0)


def committed(**offsets: int) -> OffsetsCommitted:
    return OffsetsCommitted(
        event_id="c",
        at_ms=0,
        group_id="g",
        generation_id=1,
        member_id="m",
        client_id="a",
        topics=[
            OffsetsOfTopic(
                "orders",
                [
                    CommittedPartition(
                        partition_index=int(name[1:]),
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        metadata="",
                    )
                    for name, offset in offsets.items()
                ],
            )
        ],
    )


RIGHT = History(
    written=[1, 2, 3, 4],
    log_end={0: 4, 1: 5, 2: 0},
    orders=[
        order(1, 0, "a", 1, 1_100),
        order(2, 1, "b", 1, 1_200),
        order(2, 1, "c", 2, 2_200),
        order(3, 0, "a", 2, 5_500),
        order(4, 1, "c", 2, 5_600),
    ],
    ownership=[assigned("a", 1, 0), assigned("b", 1, 1), assigned("a", 2, 0), assigned("c", 2, 1)],
    events=[
        moved("Empty", "PreparingRebalance"),
        moved("PreparingRebalance", "CompletingRebalance"),
        propagated(1, m1=[0], m2=[1]),
        moved("CompletingRebalance", "Stable"),
        committed(p0=2, p1=3),
        removed("b", "session_expired", 2_000),
        moved("Stable", "PreparingRebalance"),
        moved("PreparingRebalance", "CompletingRebalance"),
        propagated(2, m1=[0], m3=[1]),
        moved("CompletingRebalance", "Stable"),
        committed(p0=4),
        committed(p1=5),
        removed("a", "left", 9_000),
        moved("Stable", "PreparingRebalance"),
        removed("c", "left", 9_100),
        moved("PreparingRebalance", "Empty"),
    ],
    outage=Outage(
        from_ms=5_000, answered_ms=8_000, to_ms=8_000, before=picture(2, "a", "c"), after=picture(2, "a", "c")
    ),
    killed="b",
    end=picture(3, state="Empty"),
    brokers_events=[joined("d"), removed("d", "unknown", 9_500)],
    killed_at_broker="d",
)


def outage(**changes: Any) -> Outage:
    return dataclasses.replace(RIGHT.outage, **changes)


WRONG: dict[str, tuple[Callable[[History], checks.Check], dict[str, Any]]] = {
    "an order is missing": (checks.every_order_processed, {"written": [1, 2, 3, 4, 5]}),
    "no order was written": (checks.every_order_processed, {"written": []}),
    "an order was repeated that nobody was killed for": (
        checks.repeated_after_the_kill_only,
        {"orders": [*RIGHT.orders, order(3, 0, "c", 2, 5_700)]},
    ),
    "an order was repeated twice": (
        checks.repeated_after_the_kill_only,
        {"orders": [*RIGHT.orders, order(2, 1, "c", 2, 5_700)]},
    ),
    "the last commit is missing": (checks.committed_to_the_end, {"log_end": {0: 4, 1: 6}}),
    "a commit goes beyond the end": (checks.committed_to_the_end, {"log_end": {0: 4, 1: 4}}),
    "a commit came back": (
        checks.committed_to_the_end,
        {"events": [*RIGHT.events, committed(p0=2)]},
    ),
    "nothing was committed": (checks.committed_to_the_end, {"events": [], "log_end": {}}),
    "a survivor stood still in the outage": (
        checks.processed_during_outage,
        {"orders": RIGHT.orders[:4]},
    ),
    "all were away in the outage": (
        checks.processed_during_outage,
        {"outage": outage(before=picture(2))},
    ),
    "two workers were given the same": (
        checks.one_owner_say_workers,
        {"ownership": [*RIGHT.ownership, assigned("b", 2, 0)]},
    ),
    "somebody worked on another's partition": (
        checks.one_owner_say_workers,
        {"orders": [*RIGHT.orders, order(3, 0, "c", 2, 5_700)]},
    ),
    "somebody worked on what nobody was given": (
        checks.one_owner_say_workers,
        {"orders": [*RIGHT.orders, order(3, 5, "c", 2, 5_700)]},
    ),
    "nobody was given anything": (
        checks.one_owner_say_workers,
        {"ownership": [], "orders": []},
    ),
    "the leader gave the same to two": (
        checks.one_owner_says_coordinator,
        {"events": [*RIGHT.events, propagated(3, m1=[0, 1], m3=[1])]},
    ),
    "a generation was assigned twice, differently": (
        checks.one_owner_says_coordinator,
        {"events": [*RIGHT.events, propagated(2, m1=[1], m3=[0])]},
    ),
    "nothing was assigned": (
        checks.one_owner_says_coordinator,
        {"events": []},
    ),
    "a member was removed in the outage": (
        checks.outage_changed_nothing,
        {"events": [*RIGHT.events, removed("c", "session_expired", 7_000)]},
    ),
    "a member was given another id in the outage": (
        checks.outage_changed_nothing,
        {"outage": outage(after=picture(2, "a", "d"))},
    ),
    "another generation came with the outage": (
        checks.outage_changed_nothing,
        {"outage": outage(after=picture(3, "a", "c"))},
    ),
    "nobody was there to be removed": (
        checks.outage_changed_nothing,
        {"outage": outage(before=picture(2), after=picture(2))},
    ),
    "nobody was seen to come at the broker": (
        checks.watched_at_broker,
        {"brokers_events": RIGHT.brokers_events[1:]},
    ),
    "nobody was seen to go at the broker": (
        checks.watched_at_broker,
        {"brokers_events": RIGHT.brokers_events[:1]},
    ),
    "somebody else was seen at the broker": (checks.watched_at_broker, {"killed_at_broker": "c"}),
    "nobody expired": (
        checks.one_session_expired,
        {"events": [event for event in RIGHT.events if not isinstance(event, MemberRemoved)]},
    ),
    "somebody else expired": (checks.one_session_expired, {"killed": "a"}),
    "two expired": (
        checks.one_session_expired,
        {"events": [*RIGHT.events, removed("a", "session_expired", 8_500)]},
    ),
    "a move is not in the table": (
        checks.states_legal,
        {"events": [*RIGHT.events, moved("Empty", "Stable")]},
    ),
    "a move is missing": (
        checks.states_legal,
        {"events": [event for event in RIGHT.events if event != moved("CompletingRebalance", "Stable")]},
    ),
    "the beginning is missing": (checks.states_legal, {"events": RIGHT.events[1:]}),
    "nothing moved": (checks.states_legal, {"events": []}),
    "members are left": (checks.ends_empty, {"end": picture(3, "a")}),
    "members are left in a group that calls itself empty": (
        checks.ends_empty,
        {"end": picture(3, "a", state="Empty")},
    ),
    "there is no picture": (checks.ends_empty, {"end": None}),
}


def test_the_right_story_passes() -> None:
    assert [check for check in run_checks(RIGHT) if not check.held] == []


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_story_fails(name: str) -> None:
    check, changes = WRONG[name]

    assert not check(dataclasses.replace(RIGHT, **changes)).held


def test_every_check_has_a_wrong_story() -> None:
    assert {check for check, _ in WRONG.values()} == set(checks.CHECKS)


def test_duplicates_are_shown_and_no_failure() -> None:
    check = checks.every_order_processed(RIGHT)

    assert check.held
    assert "1 processed twice" in check.detail


def test_a_failed_check_names_what_is_wrong() -> None:
    twice = dataclasses.replace(RIGHT, ownership=[*RIGHT.ownership, assigned("b", 2, 0)])

    assert "1 partition with two owners (0 in generation 2)" in checks.one_owner_say_workers(twice).detail
