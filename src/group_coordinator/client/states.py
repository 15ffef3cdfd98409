# This module owns every state a member can be in and every move between them.
#
# Rule 1: a member's state changes in `transition()` and nowhere else. A pair that is not in the table is
#         an illegal move, and illegal moves raise. No answer of a coordinator can cause one, so it is a bug
#         of ours.
# Rule 2: this module knows no messages and no time. `membership.py` decides what causes a move.
#
# Theory of operation
# -------------------
# Two things go on at once, and only the first is in the table.
#
#   The rebalance   UnJoined -> PreparingRebalance -> CompletingRebalance -> Stable, and back to
#                   PreparingRebalance for the next round. Work is owned in Stable only. The moves that can
#                   take work away (out of Stable, into a join) are made by the user's thread. Or the work
#                   is gone before. Every other move can happen in another thread, because
#                   nothing is owned then. A refused sync, for example, goes straight back to a join.
#   The session     From the first generation on, heartbeats go out at their interval in every state,
#                   answered or not. They lie in the log with their time, so a coordinator that reads
#                   them an hour later knows that this member was alive. The session
#                   ends when the coordinator says so, when the member leaves, and on closing.
#
# In Kafka's AbstractCoordinator heartbeats pause between a join and its answer. Here they go on, because not
# only a rebalance may take long: the coordinator itself may be away.
#
# The names are those of AbstractCoordinator.MemberState; Failed and Closed are exceptions and flags there.
"""The states of a member, and the table of legal moves between them."""

from __future__ import annotations

from enum import StrEnum


class MemberState(StrEnum):
    """State of a member."""

    UNJOINED = "Unjoined"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    FAILED = "Failed"
    CLOSED = "Closed"


# state -> {state it may move to: what makes it move}
TRANSITIONS: dict[MemberState, dict[MemberState, str]] = {
    MemberState.UNJOINED: {
        MemberState.PREPARING_REBALANCE: "the user polls: a join goes out",
        MemberState.CLOSED: "closed",
    },
    MemberState.PREPARING_REBALANCE: {
        MemberState.COMPLETING_REBALANCE: "the join was answered with a generation",
        MemberState.UNJOINED: "not polled for too long",
        MemberState.FAILED: "refused for good",
        MemberState.CLOSED: "closed",
    },
    MemberState.COMPLETING_REBALANCE: {
        MemberState.STABLE: "the sync was answered with the assignment",
        MemberState.PREPARING_REBALANCE: "the generation ended before it owned anything",
        MemberState.UNJOINED: "not polled for too long",
        MemberState.FAILED: "refused for good",
        MemberState.CLOSED: "closed",
    },
    MemberState.STABLE: {
        MemberState.PREPARING_REBALANCE: "the user polls and has given up its work: a join goes out",
        MemberState.UNJOINED: "the generation is lost, or not polled for too long",
        MemberState.FAILED: "refused for good",
        MemberState.CLOSED: "closed",
    },
    MemberState.FAILED: {
        MemberState.CLOSED: "closed",
    },
    MemberState.CLOSED: {},
}


class IllegalMove(AssertionError):  # noqa: N818 - a bug in the client, not an error to be handled
    """A move that the table does not have was asked for."""


def transition(current: MemberState, target: MemberState) -> MemberState:
    """Return `target` if the table allows the move from `current`, else raise `IllegalMove`."""
    if target not in TRANSITIONS[current]:
        raise IllegalMove(f"a member that is {current} cannot become {target}")
    return target
