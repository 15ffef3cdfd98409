"""A sequence of requests as plain data, which one line of text can hold.

    {"setup":"plain","steps":[{"version":3},{"actor":1,"pause":"next"},{"actor":1,"api":"leave"}]}

Ids and generations are not written down, since the coordinator makes them: a step says whose they are.
A field that is not given has its default, which is what a program that follows the protocol would send.
"""

from __future__ import annotations

import msgspec

__all__ = ["APIS", "PROTOCOLS", "Sequence", "Step", "read_sequence", "write_sequence"]

APIS = ("next", "join", "sync", "heartbeat", "leave", "wait")

PROTOCOLS: dict[str, list[tuple[str, bytes]]] = {
    "a": [("a", b"1")],
    "a2": [("a", b"2")],
    "ab": [("a", b"1"), ("b", b"1")],
    "ba": [("b", b"1"), ("a", b"1")],
    "ab2": [("a", b"1"), ("b", b"2")],
    "b": [("b", b"1")],
    "bc": [("b", b"1"), ("c", b"")],
    "cab": [("c", b"1"), ("a", b"1"), ("b", b"1")],
    "c": [("c", b"")],
    "aa": [("a", b"1"), ("a", b"1")],
    "none": [],
}
"""The lists of protocols that a join may offer, by name."""


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One request, or with `wait` none. Times in ms."""

    actor: int = 0
    """Who sends it."""
    api: str = "next"
    """One of `APIS`. `next` is what a client would do now: join, sync, or send a heartbeat."""
    pause: str = ""
    """What is waited for before: nothing; `short`; `next`, the next deadline; `half`, half the time to it;
    `almost`, until it is close; `all`, until no deadline is left (at most some seconds); or so many ms."""
    version: int | None = None
    """The API's version; None for the newest."""
    member: str = "own"
    """Whose member id: `own` (empty, if none was told yet), `empty`, `previous` (the one before the own),
    `nobody`, or an actor's number."""
    instance: str | None = None
    """The instance id: none, `own`, `empty`, `unknown` or an actor's number."""
    generation: str = "told"
    """`told` (the newest that the actor was told), `previous` (one less), `none` (-1) or `future` (99)."""
    protocols: str = "ab"
    """A key of `PROTOCOLS`."""
    protocol_type: str = "consumer"
    session: int = 700
    rebalance: int | None = 500
    assign: str = "all"
    """Whom a sync assigns something: `all` that its sender was told of, `some` (not the last), `stranger`
    (all, and an id nobody has), `none`, or `changed` (all, something else than before)."""
    names: str = "told"
    """The protocol in a sync: `told`, `none`, `type` (another type), `name` (another name)."""
    also: tuple[tuple[str, str | None], ...] = ()
    """Who else leaves: member and instance, as in `member` and `instance`."""


class Sequence(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Steps, and the broker they are for (a key of `SETUPS`)."""

    setup: str
    steps: tuple[Step, ...]
    nameless: bool = False
    """Whether the group id is empty."""


def write_sequence(sequence: Sequence) -> str:
    """Write the sequence as one line."""
    return msgspec.json.encode(sequence).decode()


def read_sequence(line: str) -> Sequence:
    """Read the sequence that `write_sequence` wrote."""
    return msgspec.json.decode(line, type=Sequence)
