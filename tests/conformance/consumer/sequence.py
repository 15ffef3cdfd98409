"""The steps of the consumer protocol, and the topics that they are about.

Epochs and partitions that a member was told are not written down: a step says whose they are.
"""

from __future__ import annotations

import msgspec

__all__ = ["APIS", "CHANGES", "NEW", "OWN", "RESOLVE", "TOPICS", "Step"]

TOPICS = {"a": 6, "b": 4, "c": 3}
"""Topics that are there, with their numbers of partitions."""
NEW = {"g": 2, "h": 4}
"""Topics of which each sequence makes its own, if it makes them, with the partitions they then have. There is
never a `z`."""

CHANGES = ("make", "grow", "drop")
"""Steps that change a topic, and ask the group nothing."""
RESOLVE = "resolve"
"""A step that waits for what the broker is resolving, if anything. A step before it shows nothing: it would
be chance what there is to be seen."""
OWN = "%"
"""Stands in a pattern for the end of the names of `NEW`, which other sequences do not have."""

APIS = (
    *("beat", "commit", "fetch", "describe", "list", "delete_group", "delete_offsets", "wait"),
    *("join_group", "sync_group", "heartbeat", "leave_group"),
    *(*CHANGES, RESOLVE),
)


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One request, or none with `wait` and `resolve`; `make`, `grow` and `drop` do that to a topic.

    Times in ms.
    """

    actor: int = 0
    """Who sends it."""
    api: str = "beat"
    """One of `APIS`. With `beat` a member joins, goes on or leaves."""
    pause: int = 0
    """How long is waited before."""
    version: int | None = None
    """The API's version; None for the newest that has names of topics."""
    id: str | None = None
    """The actor goes by this member id from now on. At first it is its number."""
    member: str | None = None
    """The member id in this request; None for the actor's. `null` is none."""
    instance: str | None = None
    """The instance id: None for that which the actor has said at first, `none`, `own`, an actor's number, or
    any text."""
    epoch: str = "told"
    """The epoch or generation: `told`, `before` (what was told before that), a number, or `told+1`."""
    owned: str = "client"
    """What the member says it owns: `client` (what a client says: the news), `null`, `none`, `told`, `before`
    (what was told before that), or partitions such as `a0+a1+b2`."""
    names: str | None = None
    """Topics that it subscribes to, a letter each; `none` for an empty list. None: what it has said last if
    it joins or says all, else null. Or the topic that is changed."""
    regex: str | None = None
    """A pattern; empty for none. None: what it has said last if it joins or says all, else null."""
    rebalance: int | None = None
    """None: what it has said last if it joins or says all, else -1."""
    assignor: str | None = None
    rack: str | None = None
    full: bool = False
    """Whether all is said, as after an error."""
    parts: str = "a0"
    """The partitions of a commit, a fetch or a deletion of offsets; `all` for each there is."""
    protocol: str = "range"
    """The protocol of a classic join; `none` for none."""
    group: str | None = None
    """Another group id, such as an empty one."""
