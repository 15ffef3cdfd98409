"""The words of the classic protocol's scripts: see `tests/conformance/steps.py`.

`also=1+empty@2` are others that leave: a member, and after the @ an instance. The number of `formed`,
`synced`, `stable` and their like is how many actors there are; actor 0 leads.
"""

from __future__ import annotations

from shlex import quote

from tests.conformance.classic.sequence import Step
from tests.conformance.steps import Language, of_each

__all__ = ["script"]

_VERBS = {
    "join": {"api": "join"},
    # As a member of an old version, which is a member at once, without an id to be asked for first.
    "new": {"api": "join", "member": "empty", "version": "3"},
    # As a static member that has just started.
    "restart": {"api": "join", "member": "empty", "instance": "own"},
    "sync": {"api": "sync"},
    "beat": {"api": "heartbeat"},
    "leave": {"api": "leave"},
    "commit": {"api": "commit"},
    # As no member.
    "simple": {"api": "commit", "member": "empty", "generation": "none"},
    "fetch": {"api": "fetch"},
    "delete_offsets": {"api": "delete_offsets"},
    # As is done after each step in version 5.
    "describe": {"api": "describe"},
    "list": {"api": "list"},
    "delete_group": {"api": "delete_group"},
}
_STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead")


def _formed(count: str) -> str:
    """In the sync phase."""
    return of_each("new", range(int(count))) + (", join 0" if int(count) > 1 else "")


def _static_formed(count: str) -> str:
    joins_again = ", join instance=own" if int(count) > 1 else ""
    return of_each("restart", range(int(count))) + joins_again


_IN_SHORT = {
    "formed": _formed,
    "static_formed": _static_formed,
    # The initial delay having been made longer once.
    "formed_after_delay": lambda count: f"{of_each('new', range(int(count)))}, wait next, wait next",
    "synced": lambda count: of_each("sync", reversed(range(int(count)))),
    # With something to do.
    "stable": lambda count: f"formed {count}, just synced {count}",
    "static": lambda count: f"static_formed {count}, just synced {count} instance=own",
    "listed": lambda *states: f"list states={quote('+'.join(states))}" if states else "list",
    "listed_in_each_state": lambda: ", ".join(f"listed {state}" for state in _STATES),
    "told_in_each_way": lambda: "describe version=0..6, listed version=0..5, listed_in_each_state",
}


def _leaver(text: str) -> tuple[str, str | None]:
    member, _, instance = text.partition("@")
    return member, instance or None


script = Language(Step, _VERBS, _IN_SHORT, {"also": _leaver, "states": str}).script
