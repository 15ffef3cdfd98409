"""The state diagram as a picture, drawn from the table that the coordinator follows.

    python -m tests.coordinator_state.classic.diagram > docs/state-machine.md

A test compares the file with the table, so the picture always shows the current code.
"""

from __future__ import annotations

import sys

from group_coordinator.coordinator_state.classic.states import TRANSITIONS, GroupState

__all__ = ["document", "mermaid"]

_PROSE = """\
# The states of a group

Generated from the table in `coordinator_state/classic/states.py` by
`python -m tests.coordinator_state.classic.diagram`. Change the table, not this file.

A group begins `Empty`, and each change of its membership takes it once around. In `PreparingRebalance` the
coordinator keeps joins unanswered until every member has joined again or the time for it is over. In
`CompletingRebalance` the leader works out the assignment. In `Stable` every member knows its part. A group
that nobody uses ends `Dead`, and a later join under its id begins a new one.
"""

_RULES = """\
Every other move is illegal and raises `IllegalTransition`. The names and the moves are those of Kafka's
`ClassicGroupState`, but a group dies from `Empty` only. In Kafka a group also dies on a broker when another
broker takes it over. Here no broker owns groups.

These are the states of groups of the classic protocol. The state of a consumer group follows from its members
and epochs ([design](design.md#groups-of-the-consumer-protocol)).
"""


def mermaid() -> str:
    """Draw the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {GroupState.EMPTY}"]
    for state, moves in TRANSITIONS.items():
        lines += [f"    {state} --> {target}: {cause}" for target, cause in moves.items()]
    lines += [f"    {state} --> [*]" for state, moves in TRANSITIONS.items() if not moves]
    return "\n".join(lines) + "\n"


def document() -> str:
    """Write the whole of `docs/state-machine.md`."""
    table = "| from | to | when |\n|---|---|---|\n"
    for state, moves in TRANSITIONS.items():
        table += "".join(f"| `{state}` | `{target}` | {cause} |\n" for target, cause in moves.items())
    return f"{_PROSE}\n```mermaid\n{mermaid()}```\n\n{table}\n{_RULES}"


if __name__ == "__main__":
    sys.stdout.write(document())
