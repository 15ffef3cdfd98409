"""Scripts about groups as a whole: described, listed, deleted. For `scripted.py`, which has them all."""

from __future__ import annotations

__all__ = ["DELETED", "DELETED_DELAYED", "DESCRIBED", "LISTED", "WITHOUT_ID"]

_IN_EACH_STATE = (
    "listed Empty, listed PreparingRebalance, listed CompletingRebalance, listed Stable, listed Dead"
)
_IN_EACH_WAY = f"describe version=0..6, listed version=0..5, {_IN_EACH_STATE}"


def _in_each_state(steps: str, fields: str = "") -> dict[str, str]:
    """`steps` in a group in each state, whose members say `fields`."""
    return {
        "absent": steps,
        "empty": f"stable 1 {fields}, leave, {steps}",
        "pending id": f"join {fields}, {steps}",
        "join phase": f"stable 1 {fields}, new 1 {fields}, {steps}",
        "sync phase": f"formed 2 {fields}, sync 1, {steps}",
        "stable": f"stable 2 {fields}, {steps}",
        "simple": f"simple, {steps}",
    }


DESCRIBED = {
    "static members": "static 2, describe version=0..6",
    "a member of another type": f"stable 1 protocol_type=connect protocols=c, {_IN_EACH_WAY}",
    "a static member that has started again": "static 2, restart 1, describe version=4, describe version=6",
    "a group that is gone": f"stable 1, leave, delete_group, {_IN_EACH_WAY}",
}

LISTED = {
    **_in_each_state(_IN_EACH_WAY),
    "through its life": (
        "listed, join, listed Empty, join, listed CompletingRebalance, listed Stable Empty, sync, "
        "listed Stable, listed CompletingRebalance, new 1, listed PreparingRebalance, leave, "
        "listed CompletingRebalance Stable, leave 1, listed Empty Dead, delete_group, listed Empty Dead"
    ),
    "in other letters": (
        "stable 1, listed stable, listed STABLE, listed sTaBlE empty, new 1, listed preparingrebalance, "
        "listed 'Preparing Rebalance', listed preparing"
    ),
    "by states that there are not": "stable 1, listed Assigning, listed '', listed Stable Nonsense",
    "its type": "simple, listed, new protocol_type=connect, listed, sync, leave, listed, new, listed",
}

DELETED = {
    **{
        f"in version {version}, {state}": steps
        for version in range(3)
        for state, steps in _in_each_state(
            f"delete_group version={version}, delete_group version={version}"
        ).items()
    },
    **{
        f"of another type, {state}": steps
        for state, steps in _in_each_state("delete_group", "protocol_type=connect").items()
    },
    "with its offsets": (
        "stable 1, commit offsets=several, delete_group, leave, delete_group, fetch offsets=all, "
        "simple offsets=other, fetch offsets=all"
    ),
    "with an id that is pending": "stable 1, leave, join 1, delete_group, join 1, sync 1, beat 1",
    "which only an id that is pending has made": "join, delete_group, join, join member=empty",
    "and then afresh": (
        "stable 1, leave, delete_group, beat member=previous, commit member=previous, "
        "commit generation=future version=8, join member=previous, new 1, sync 1, new 2"
    ),
    "which waits for an id that is pending": (
        "stable 1 rebalance=400, join 1 session=2000, leave, delete_group, simple, delete_offsets, "
        f"{_IN_EACH_WAY}, wait next, delete_group"
    ),
    "whose commit was too large": "simple offsets='too large', delete_group, delete_group",
    "after its last offset": "simple, delete_offsets, delete_group",
    "with static members": (
        "static 1, delete_group, leave member=empty instance=own, delete_group, beat instance=own, restart"
    ),
    "by a member": "stable 1, delete_group, beat, commit",
}

# With an initial delay.
DELETED_DELAYED = {
    "in the first join phase": "new, delete_group, delete_offsets, wait next, delete_group, sync",
    "in the first join phase of a group that was empty": (
        f"new, wait next, sync, leave, new 1, delete_group, {_IN_EACH_STATE}, leave 1, delete_group"
    ),
}

# Without a group id.
WITHOUT_ID = {
    "told of": f"{_IN_EACH_WAY}, simple, {_IN_EACH_WAY}",
    "deletion": "delete_group, simple, delete_group, delete_group version=0, fetch",
}
