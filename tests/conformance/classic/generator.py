"""Sequences drawn by chance: mostly what programs do that follow the protocol, bent here and there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.classic.sequence import OFFSETS, Step
from tests.conformance.sequence import Sequence
from tests.conformance.setups import MIN_SESSION_MS

if TYPE_CHECKING:
    import random

_APIS = (
    *("next",) * 70,
    *("heartbeat",) * 8,
    *("join",) * 8,
    *("sync",) * 4,
    *("leave",) * 6,
    *("wait",) * 4,
    *("commit",) * 16,
    *("fetch",) * 2,
    *("delete_offsets",) * 5,
    *("delete_group",) * 3,
    *("describe",) * 2,
    *("list",) * 2,
)
_PAUSES = ("",) * 64 + ("short",) * 8 + ("next",) * 12 + ("half",) * 7 + ("almost",) * 7 + ("all",) * 2
_SETUPS = ("plain",) * 3 + ("tight",) * 3 + ("brief",)
_COMMON = ("ab", "ab", "ba", "a", "cab")
_PROTOCOLS = ("ab", "ba", "a", "a2", "a3", "a?", "ab?", "a0", "ab2", "b", "bc", "c", "cab", "none")
_VERSIONS = (None, None, None, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8)
# With these the first join makes a member. Where groups go at once, one that has nothing but ids that are not
# used yet does so, and the ids with it.
_VERSIONS_OF_THE_BRIEF = (0, 1, 2, 3)
_BENT = 0.2
_ROUNDS = 0.12
# What is left out is different by intent, see `differences.py`.
_COMMITTED = tuple(name for name in OFFSETS if name != "strange")
_NAMED = ("one", "other", "several", "several", "all", "all", "epoch")
_SIMPLE = 0.3
_RETAINED = 0.3
_RETENTIONS = (0, 150, 400, 400, 1_000, 1_000, 3_000)
_RETENTION_VERSIONS = (2, 3, 4)
_STATES = ("Empty", "stable", "PreparingRebalance", "completingrebalance", "Dead")


def random_sequence(rng: random.Random, *, static: bool = True) -> Sequence[Step]:
    """Draw a sequence; with static members only if `static`."""
    setup = rng.choice(_SETUPS)
    versions = _VERSIONS_OF_THE_BRIEF if setup == "brief" else _VERSIONS
    share = rng.choice((0.0, 0.0, 0.5, 0.5, 1.0)) if static else 0.0
    actors = [_actor(rng, number, share, versions) for number in range(rng.randint(2, 5))]
    steps = []
    if rng.random() < 0.8:
        # All come at once, as a fleet does that starts; otherwise one after another.
        steps += [Step(**actor) for actor in actors for _ in range(2)]
    for _ in range(rng.randint(8, 40)):
        if rng.random() < _ROUNDS:
            # Enough of what clients would do to make the group Stable, if nothing comes between.
            steps += [Step(**actor) for actor in actors for _ in range(2)]
        steps.append(_step(rng, actors))
    return Sequence(setup, tuple(steps))


def _actor(
    rng: random.Random, number: int, static: float, versions: tuple[int | None, ...]
) -> dict[str, Any]:
    """What one actor says in all its requests."""
    fields: dict[str, Any] = {
        "actor": number,
        "protocols": rng.choice(_COMMON),
        "session": rng.choice((500, 700, 900, 1_300)),
        "rebalance": rng.choice((300, 450, 600, 800, None)),
    }
    if rng.random() < static:
        fields["instance"] = "own"
        fields["version"] = rng.choice((None, None, 5, 6, 7, 8))
    else:
        fields["version"] = rng.choice(versions)
    return fields


def _step(rng: random.Random, actors: list[dict[str, Any]]) -> Step:
    fields = rng.choice(actors) | {"api": rng.choice(_APIS), "pause": rng.choice(_PAUSES)}
    match fields["api"]:
        case "leave" if rng.random() < 0.4:
            others = rng.sample(range(len(actors)), k=rng.randint(1, 2))
            fields["also"] = tuple(_leaver(rng, other) for other in others)
        case "join" if fields.get("instance") and rng.random() < 0.6:
            fields["member"] = "empty"  # it has been started again
        case "commit":
            fields |= _commit(rng)
        case "fetch" | "delete_offsets":
            fields |= {"offsets": rng.choice(_NAMED), "stable": rng.random() < 0.5}
        case "list":
            fields["states"] = tuple(rng.sample(_STATES, k=rng.randint(0, 2)))
            fields["version"] = None  # the newest, which most is told by
        case _:
            pass
    if rng.random() < _BENT:
        fields |= _bend(rng, len(actors))
    return Step(**fields)


def _commit(rng: random.Random) -> dict[str, Any]:
    fields: dict[str, Any] = {"offsets": rng.choice(_COMMITTED)}
    if rng.random() < _SIMPLE:
        fields |= {"member": "empty", "generation": "none", "instance": None}
    if rng.random() < _RETAINED:
        fields |= {"retention": rng.choice(_RETENTIONS), "version": rng.choice(_RETENTION_VERSIONS)}
    return fields


def _leaver(rng: random.Random, actor: int) -> tuple[str, str | None]:
    return rng.choice(
        (
            (str(actor), None),
            (str(actor), None),
            (str(actor), str(actor)),
            ("empty", str(actor)),
            ("empty", None),
            ("nobody", None),
            ("nobody", str(actor)),
        )
    )


def _bend(rng: random.Random, actors: int) -> dict[str, Any]:
    another = str(rng.randrange(actors))
    return rng.choice(
        (
            {"member": rng.choice(("empty", "previous", "nobody", another))},
            {"instance": rng.choice((None, "own", "unknown", another))},
            {"member": another, "instance": another},
            {"generation": rng.choice(("previous", "none", "zero", "future"))},
            {"protocols": rng.choice(_PROTOCOLS)},
            {"protocols": rng.choice(_PROTOCOLS)},
            {"protocol_type": rng.choice(("connect", ""))},
            {"session": rng.choice((MIN_SESSION_MS - 1, 100_000, 400, 600, 1_000))},
            {"rebalance": rng.choice((250, 700, 1_000, None))},
            {"assign": rng.choice(("some", "stranger", "none", "changed"))},
            {"names": rng.choice(("none", "type", "name"))},
            {"version": rng.choice((None, *range(9)))},
        )
    )
