"""The index over a group's deadlines."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.coordinator_state import deadlines as module
from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.member import Member
from group_coordinator.coordinator_state.deadlines import Deadline, Deadlines
from group_coordinator.coordinator_state.group import DeadlineKind


def member(name: str) -> Member:
    return Member(
        member_id=name,
        client_id=name,
        client_host="",
        session_timeout_ms=0,
        rebalance_timeout_ms=0,
        protocols=(),
    )


def group(*names: str) -> ClassicGroup:
    made = ClassicGroup(group_id="orders", now_ms=0, state_timestamp_ms=0)
    for name in names:
        made.add_member(member(name), "consumer")
    return made


def drain(deadlines: Deadlines, to_ms: int, its_group: ClassicGroup) -> list[tuple[int, str, str]]:
    taken = []
    while (deadline := deadlines.pop(to_ms)) is not None:
        taken.append((deadline.at_ms, deadline.kind.name, deadline.member_id))
    return taken


def test_none():
    deadlines = Deadlines(group("c1"))
    assert deadlines.next_ms() is None
    assert deadlines.pop(10**15) is None


def test_earliest_first_and_in_the_same_millisecond_in_order_of_their_kinds():
    its = group("c1", "c2")
    deadlines = Deadlines(its)
    deadlines.set(DeadlineKind.CLEANUP, 5)
    deadlines.set(DeadlineKind.SYNC, 5)
    deadlines.set(DeadlineKind.JOIN, 5)
    deadlines.set(DeadlineKind.PENDING, 5, "p")
    deadlines.set(DeadlineKind.SESSION, 5, "c2")
    deadlines.set(DeadlineKind.SESSION, 4, "c1")
    expected = [
        (4, "SESSION", "c1"),
        (5, "JOIN", ""),
        (5, "SESSION", "c2"),
        (5, "PENDING", "p"),
        (5, "SYNC", ""),
        (5, "CLEANUP", ""),
    ]
    # An index that is made anew from the stored group gives the same order.
    again = Deadlines(its)
    assert [again.next_ms(), deadlines.next_ms()] == [4, 4]
    assert drain(deadlines, 5, its) == expected
    assert (its.join_deadline_ms, its.sync_deadline_ms, its.cleanup_deadline_ms) == (None, None, None)
    assert its.members["c1"].session_deadline_ms is None


def test_not_before_its_time():
    its = group("c1")
    deadlines = Deadlines(its)
    deadlines.set(DeadlineKind.JOIN, 5)
    assert deadlines.pop(4) is None
    assert deadlines.pop(5) == Deadline(5, DeadlineKind.JOIN, "")


@pytest.mark.parametrize("moved_to", [3, 9])
def test_moved_deadline_fires_once_and_at_its_new_time(moved_to):
    its = group("c1")
    deadlines = Deadlines(its)
    deadlines.set(DeadlineKind.SESSION, 5, "c1")
    deadlines.set(DeadlineKind.SESSION, moved_to, "c1")
    assert deadlines.next_ms() == moved_to
    assert drain(deadlines, 100, its) == [(moved_to, "SESSION", "c1")]


def test_deadline_that_is_set_twice_to_the_same_time_fires_once():
    its = group("c1")
    deadlines = Deadlines(its)
    deadlines.set(DeadlineKind.SESSION, 5, "c1")
    deadlines.set(DeadlineKind.SESSION, 5, "c1")
    assert drain(deadlines, 100, its) == [(5, "SESSION", "c1")]


def test_cancelled_deadlines_do_not_fire():
    its = group("c1")
    deadlines = Deadlines(its)
    for kind in (DeadlineKind.JOIN, DeadlineKind.SYNC, DeadlineKind.CLEANUP):
        deadlines.set(kind, 5)
        deadlines.set(kind, None)
    deadlines.set(DeadlineKind.SESSION, 5, "c1")
    its.remove_member(its.members["c1"])
    deadlines.set(DeadlineKind.PENDING, 5, "p")
    del its.pending_members["p"]
    assert deadlines.next_ms() is None
    assert drain(deadlines, 100, its) == []


@pytest.mark.parametrize("least_refilled", [0, 1_000])
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(["c1", "c2", "p1", "p2", "join", "sync", "gone"]), st.integers(0, 9))
    )
)
def test_index_agrees_with_the_group_whatever_is_set(least_refilled, moves):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LEAST_REFILLED", least_refilled)
        _test_index(moves)


def _test_index(moves):
    its = group("c1", "c2")
    deadlines = Deadlines(its)
    for name, at_ms in moves:
        match name:
            case "c1" | "c2":
                deadlines.set(DeadlineKind.SESSION, at_ms, name)
            case "p1" | "p2":
                deadlines.set(DeadlineKind.PENDING, at_ms, name)
            case "join":
                deadlines.set(DeadlineKind.JOIN, at_ms)
            case "sync":
                deadlines.set(DeadlineKind.SYNC, at_ms)
            case "gone":
                deadlines.set(DeadlineKind.SYNC, None)
                its.pending_members.pop("p1", None)
    expected = [
        (at_ms, "SESSION", name)
        for name, it in its.members.items()
        if (at_ms := it.session_deadline_ms) is not None
    ]
    expected += [(at_ms, "PENDING", name) for name, at_ms in its.pending_members.items()]
    expected += [(at_ms, "JOIN", "") for at_ms in [its.join_deadline_ms] if at_ms is not None]
    expected += [(at_ms, "SYNC", "") for at_ms in [its.sync_deadline_ms] if at_ms is not None]
    expected.sort(key=lambda it: (it[0], DeadlineKind[it[1]], it[2]))
    assert drain(deadlines, 9, its) == expected


def test_all_are_put_off():
    its = group("c1", "c2")
    deadlines = Deadlines(its)
    deadlines.set(DeadlineKind.SESSION, 1, "c1")
    deadlines.set(DeadlineKind.PENDING, 2, "p")
    deadlines.set(DeadlineKind.JOIN, 3)
    deadlines.set(DeadlineKind.SYNC, 4)
    deadlines.set(DeadlineKind.CLEANUP, 5)
    deadlines.put_off(10)
    expected = [
        (11, "SESSION", "c1"),
        (12, "PENDING", "p"),
        (13, "JOIN", ""),
        (14, "SYNC", ""),
        (15, "CLEANUP", ""),
    ]
    assert drain(deadlines, 100, its) == expected


def test_none_to_be_put_off():
    deadlines = Deadlines(group("c1"))
    deadlines.put_off(10)
    assert deadlines.next_ms() is None


def test_deadlines_that_are_moved_again_and_again_take_no_memory():
    names = [f"c{number}" for number in range(10)]
    its = group(*names)
    tracemalloc.start()
    try:
        deadlines = Deadlines(its)
        before = tracemalloc.get_traced_memory()[0]
        for at_ms in range(6_000):
            for name in names:
                deadlines.set(DeadlineKind.SESSION, at_ms, name)
        # 10,000 entries of some 100 bytes; all would be 60,000.
        assert tracemalloc.get_traced_memory()[1] - before < 2_000_000
    finally:
        tracemalloc.stop()
    assert drain(deadlines, 6_000, its) == [(5_999, "SESSION", name) for name in names]


def test_members_do_not_wait_for_a_cleanup():
    its = group("c1")
    deadlines = Deadlines(its)
    assert deadlines.next_of_members_ms() is None
    for at_ms in (3, 5, 3, 3):
        deadlines.set(DeadlineKind.CLEANUP, at_ms)
    assert (deadlines.next_of_members_ms(), deadlines.next_ms()) == (None, 3)
    deadlines.set(DeadlineKind.SESSION, 7, "c1")
    assert (deadlines.next_of_members_ms(), deadlines.next_ms()) == (7, 3)
    deadlines.set(DeadlineKind.SYNC, 2)
    assert (deadlines.next_of_members_ms(), deadlines.next_ms()) == (2, 2)
    expected = [(2, "SYNC", ""), (3, "CLEANUP", ""), (7, "SESSION", "c1")]
    assert drain(deadlines, 10, its) == expected
