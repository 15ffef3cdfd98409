"""The steps of the classic protocol, and what they can say.

Ids and generations are not written down, since the coordinator makes them: a step says whose they are.
"""

from __future__ import annotations

import msgspec
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from tests.conformance.actors import Offset
from tests.conformance.setups import METADATA_MAX

__all__ = ["APIS", "OFFSETS", "PARTITIONS", "PROTOCOLS", "TOPICS", "Step"]

APIS = (
    *("next", "join", "sync", "heartbeat", "leave", "wait"),
    *("commit", "fetch", "delete_offsets", "describe", "list", "delete_group"),
)

TOPICS = ("orders", "payments", "returns")
"""Topics that are there, ..."""
PARTITIONS = 3
"""... each with so many partitions."""


def _reads(*topics: str, version: int = 1) -> bytes:
    """What a consumer sends to subscribe to `topics`."""
    return bytes(ConsumerProtocolSubscription(topics=list(topics), user_data=None, version=version).encode())


_ORDERS, _PAYMENTS, _BOTH = (
    _reads("orders"),
    _reads("payments", version=0),
    _reads("orders", "payments", version=3),
)
_NOTHING = _reads()
_UNREADABLE = b"\0"
_IMPOSSIBLE = b"\0\0" + b"\xff" * 4
"""Less topics than none."""

PROTOCOLS: dict[str, list[tuple[str, bytes]]] = {
    "a": [("a", _ORDERS)],
    "a2": [("a", _PAYMENTS)],
    "a3": [("a", _BOTH)],
    "ab": [("a", _ORDERS), ("b", _ORDERS)],
    "ba": [("b", _ORDERS), ("a", _ORDERS)],
    "ab2": [("a", _ORDERS), ("b", _PAYMENTS)],
    "b": [("b", _ORDERS)],
    "bc": [("b", _ORDERS), ("c", b"")],
    "cab": [("c", _ORDERS), ("a", _ORDERS), ("b", _ORDERS)],
    "c": [("c", b"")],
    "a?": [("a", _UNREADABLE)],
    "ab?": [("a", _ORDERS), ("b", _UNREADABLE)],
    "a0": [("a", _NOTHING)],
    "a!": [("a", _IMPOSSIBLE)],
    "aa": [("a", _ORDERS), ("a", _ORDERS)],
    "none": [],
}
"""The lists of protocols that a join may offer, by name, each with the topics that are subscribed to."""


_FULL = "x" * METADATA_MAX
_WIDE = "\N{GRINNING FACE}" * (METADATA_MAX // 2)

OFFSETS: dict[str, list[Offset]] = {
    "one": [Offset("orders", 0)],
    "other": [Offset("payments", 0)],
    "several": [Offset("orders", 0), Offset("orders", 1), Offset("payments", 0), Offset("returns", 2)],
    "all": [Offset(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)],
    "nothing": [],
    "strange": [Offset("strange", 0), Offset("orders", PARTITIONS), Offset("orders", 0)],
    "twice": [Offset("orders", 0), Offset("orders", 1), Offset("orders", 0, "again")],
    "topic twice": [Offset("orders", 0), Offset("payments", 0), Offset("orders", 1), Offset("orders", 0)],
    "null": [Offset("orders", 0, None)],
    "text": [Offset("orders", 0, "text")],
    "epoch": [Offset("orders", 0, leader_epoch=5), Offset("orders", 1)],
    "negative": [Offset("orders", 0, offset=-7), Offset("orders", 1, leader_epoch=-9)],
    "largest": [Offset("orders", 0, leader_epoch=2**31 - 1, offset=2**63 - 1)],
    "full": [Offset("orders", 0, _FULL)],
    "full wide": [Offset("orders", 0, _WIDE)],
    "too large": [Offset("orders", 0, _FULL + "x")],
    "too large wide": [Offset("orders", 0, _WIDE + "x")],
    "some too large": [Offset("orders", 0), Offset("orders", 1, _FULL + "x"), Offset("payments", 0, _FULL)],
    "twice, once too large": [Offset("orders", 0), Offset("orders", 0, _FULL + "x"), Offset("orders", 1)],
}
"""The partitions of a commit, a fetch or a deletion, by name. A fetch of `all` names none."""


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
    """`told` (the newest the actor was told), `previous` (one less), `none` (-1), `zero` or `future` (99)."""
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
    offsets: str = "one"
    """A key of `OFFSETS`."""
    retention: int = -1
    """For how long a commit asks to be kept; -1 for as long as others."""
    stable: bool = False
    """Whether a fetch would wait for transactions."""
    states: tuple[str, ...] = ()
    """The states that are listed; none for all."""
