# This module owns every state a group can be in and every move between them.
#
# Rule 1: a group's state changes in `transition()` and nowhere else. The table below is the whole
#         truth: a pair that is not in it is an illegal move, and illegal moves raise. Nothing on the
#         request topic can cause one; one that happens is a bug of ours, and it had better be loud.
# Rule 2: this module knows no members, no messages and no deadlines. Which move is due, and what has
#         to be answered when it happens, is decided in `rebalance.py` and in the handlers.
#
# Theory of operation
# -------------------
# A group is one automaton with five states. It owns work only through *generations*: numbered,
# agreed lists of members with one leader, who divides the work.
#
#   Empty                No member. A group starts here, comes back here when its last member goes,
#                        and ends from here. Members that only hold an id and have not joined yet
#                        ("pending") do not count.
#   PreparingRebalance   The join phase. Joins are *parked* - kept unanswered - until every known member
#                        has joined again or the phase's deadline passes; who is missing by then is out.
#   CompletingRebalance  The sync phase. Every parked join was answered with the new generation; the
#                        leader is working out who gets what. Syncs are parked until it has said so.
#   Stable               Everybody was told, or can ask at any time, what is theirs. Heartbeats keep
#                        sessions alive until something changes.
#   Dead                 The end. A dead group is no longer kept anywhere, so nothing leaves this state;
#                        a later join under the same id makes a new group with a history of its own.
#
# Any change of membership outside the join phase begins a new join phase. That is all there is: the
# cycle Preparing -> Completing -> Stable -> Preparing, entered from Empty and left to Empty.
#
# The names and the moves are those of Kafka's `ClassicGroupState` (validPreviousStates) in
# org.apache.kafka.coordinator.group.classic; docs/state-machine.md is generated from this table.
"""The states of a group, and the table of legal moves between them."""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """State of a group; the values are spelled as Kafka's tools spell them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


# state -> {state it may move to: what makes it move}. The texts appear on the arrows of the diagram.
TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    GroupState.EMPTY: {
        GroupState.PREPARING_REBALANCE: "a member joins",
        GroupState.DEAD: "unused until the next clean-up, or deleted",
    },
    GroupState.PREPARING_REBALANCE: {
        GroupState.COMPLETING_REBALANCE: "all members joined, or the rebalance timeout passed",
        GroupState.EMPTY: "the phase ended with nobody in it",
    },
    GroupState.COMPLETING_REBALANCE: {
        GroupState.STABLE: "the leader's sync brought the assignment",
        GroupState.PREPARING_REBALANCE: "a member joins, leaves, changes, expires or never syncs",
    },
    GroupState.STABLE: {
        GroupState.PREPARING_REBALANCE: "a member joins, leaves, changes, expires or never syncs",
    },
    GroupState.DEAD: {},
}


class IllegalTransition(AssertionError):  # noqa: N818 - it names the fact, as its readers do
    """A move that the table does not have. It is a bug in the coordinator, never in a request."""


def transition(current: GroupState, target: GroupState) -> GroupState:
    """Return `target` if the table allows the move from `current`, else raise `IllegalTransition`."""
    if target not in TRANSITIONS[current]:
        message = f"a group in {current} cannot move to {target}"
        raise IllegalTransition(message)
    return target
