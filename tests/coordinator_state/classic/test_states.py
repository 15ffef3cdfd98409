"""The table of moves, and that it is the whole truth."""

from __future__ import annotations

from itertools import product

import pytest

from group_coordinator.coordinator_state.classic import states
from group_coordinator.coordinator_state.classic.group import ClassicGroup
from group_coordinator.coordinator_state.classic.rebalance import transition
from group_coordinator.coordinator_state.classic.states import (
    TRANSITIONS,
    GroupState,
    IllegalTransition,
)
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.turn import Turn

# Kafka's ClassicGroupState: the states before each, less the moves to Dead that only a broker makes that
# loses a group to another.
LEGAL = {
    ("Empty", "PreparingRebalance"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("Stable", "PreparingRebalance"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("CompletingRebalance", "Stable"),
    ("PreparingRebalance", "Empty"),
    ("Empty", "Dead"),
}
PAIRS = [(str(current), str(target)) for current, target in product(GroupState, repeat=2)]


@pytest.mark.parametrize(("current", "target"), PAIRS)
def test_every_pair_is_legal_or_raises_and_changes_nothing(current, target):
    group = ClassicGroup(group_id="orders", now_ms=7, state_timestamp_ms=5, state=GroupState(current))
    turn = Turn("orders", group, GroupConfig())
    if (current, target) in LEGAL:
        transition(turn, GroupState(target), "why")
        assert (group.previous_state, group.state, group.state_timestamp_ms) == (current, target, 7)
        (event,) = turn.events
        assert (event.from_, event.to, event.reason) == (current, target, "why")
    else:
        with pytest.raises(IllegalTransition, match=f"^a group in {current} cannot move to {target}$"):
            transition(turn, GroupState(target), "why")
        assert group == ClassicGroup(
            group_id="orders", now_ms=7, state_timestamp_ms=5, state=GroupState(current)
        )
        assert turn.events == []


def test_table_has_every_state():
    assert list(TRANSITIONS) == list(GroupState)


def test_every_state_can_be_reached_and_every_group_can_end():
    def reachable(start: GroupState) -> set[GroupState]:
        seen, todo = {start}, [start]
        while todo:
            for target in TRANSITIONS[todo.pop()]:
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return seen

    assert reachable(GroupState.EMPTY) == set(GroupState)
    assert all(GroupState.DEAD in reachable(state) for state in GroupState)


def test_names_are_kafkas():
    assert [str(state) for state in GroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]


def test_legal_move_gives_the_new_state():
    assert states.transition(GroupState.EMPTY, GroupState.DEAD) is GroupState.DEAD
