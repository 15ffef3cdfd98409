"""Short names for the steps that scripts are made of."""

from __future__ import annotations

from typing import Any

from tests.conformance.sequence import Step

__all__ = [
    "LONG",
    "beat",
    "commit",
    "delete_group",
    "delete_offsets",
    "describe",
    "fetch",
    "formed",
    "formed_after_delay",
    "join",
    "leave",
    "listed",
    "new",
    "restart",
    "simple",
    "stable",
    "static",
    "static_formed",
    "sync",
    "synced",
    "wait",
]

# A member at once, without an id to be asked for first.
_OLD = 3
LONG = 2_000
"""A session that outlasts the script."""


def join(actor: int = 0, **fields: Any) -> Step:
    """Join with the id that was told."""
    return Step(actor=actor, api="join", **fields)


def new(actor: int = 0, **fields: Any) -> Step:
    """Join as a member of an old version, which is a member at once."""
    defaults: dict[str, Any] = {"actor": actor, "api": "join", "member": "empty", "version": _OLD}
    return Step(**(defaults | fields))


def restart(actor: int = 0, **fields: Any) -> Step:
    """Join as a static member that has just started."""
    defaults: dict[str, Any] = {"actor": actor, "api": "join", "member": "empty", "instance": "own"}
    return Step(**(defaults | fields))


def sync(actor: int = 0, **fields: Any) -> Step:
    """Sync; the leader assigns."""
    return Step(actor=actor, api="sync", **fields)


def beat(actor: int = 0, **fields: Any) -> Step:
    """Send a heartbeat."""
    return Step(actor=actor, api="heartbeat", **fields)


def leave(actor: int = 0, **fields: Any) -> Step:
    """Leave."""
    return Step(actor=actor, api="leave", **fields)


def commit(actor: int = 0, **fields: Any) -> Step:
    """Commit as the member that the actor is, if it is one."""
    return Step(actor=actor, api="commit", **fields)


def simple(actor: int = 0, **fields: Any) -> Step:
    """Commit as no member."""
    return Step(**({"actor": actor, "api": "commit", "member": "empty", "generation": "none"} | fields))


def fetch(actor: int = 0, **fields: Any) -> Step:
    """Fetch offsets."""
    return Step(actor=actor, api="fetch", **fields)


def delete_offsets(actor: int = 0, **fields: Any) -> Step:
    """Delete offsets."""
    return Step(actor=actor, api="delete_offsets", **fields)


def describe(actor: int = 0, **fields: Any) -> Step:
    """Describe the group, as is done after each step in version 5."""
    return Step(actor=actor, api="describe", **fields)


def listed(*states: str, **fields: Any) -> Step:
    """List the groups in `states`; none for all."""
    return Step(api="list", states=states, **fields)


def delete_group(actor: int = 0, **fields: Any) -> Step:
    """Delete the group."""
    return Step(actor=actor, api="delete_group", **fields)


def wait(pause: str) -> Step:
    """Only wait."""
    return Step(api="wait", pause=pause)


def formed(count: int, **fields: Any) -> list[Step]:
    """`count` dynamic members in the sync phase; actor 0 leads."""
    first = [new(0, **fields)]
    if count == 1:
        return first
    return [*first, *(new(actor, **fields) for actor in range(1, count)), join(0, **fields)]


def formed_after_delay(count: int) -> list[Step]:
    """`count` dynamic members in the sync phase, the initial delay having been made longer once."""
    return [*(new(actor) for actor in range(count)), wait("next"), wait("next")]


def synced(count: int, **fields: Any) -> list[Step]:
    return [sync(actor, **fields) for actor in reversed(range(count))]


def stable(count: int, **fields: Any) -> list[Step]:
    """`count` dynamic members with something to do; actor 0 leads."""
    return [*formed(count, **fields), *synced(count)]


def static_formed(count: int, **fields: Any) -> list[Step]:
    fields = {"instance": "own"} | fields
    first = [restart(0, **fields)]
    if count == 1:
        return first
    return [*first, *(restart(actor, **fields) for actor in range(1, count)), join(0, **fields)]


def static(count: int, **fields: Any) -> list[Step]:
    """`count` static members with something to do; actor 0 leads."""
    return [*static_formed(count, **fields), *synced(count, instance="own")]
