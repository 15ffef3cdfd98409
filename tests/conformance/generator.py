"""Sequences drawn by chance: mostly what programs do that follow the protocol, bent here and there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.sequence import Sequence, Step
from tests.conformance.setups import MIN_SESSION_MS, SETUPS

if TYPE_CHECKING:
    import random

_APIS = ("next",) * 70 + ("heartbeat",) * 8 + ("join",) * 8 + ("sync",) * 4 + ("leave",) * 6 + ("wait",) * 4
_PAUSES = ("",) * 64 + ("short",) * 8 + ("next",) * 12 + ("half",) * 7 + ("almost",) * 7 + ("all",) * 2
_COMMON = ("ab", "ab", "ba", "a", "cab")
_PROTOCOLS = ("ab", "ba", "a", "a2", "ab2", "b", "bc", "c", "cab", "none")
_BENT = 0.2
_ROUNDS = 0.12


def random_sequence(rng: random.Random, *, static: bool = True) -> Sequence:
    """Draw a sequence; with static members only if `static`."""
    share = rng.choice((0.0, 0.0, 0.5, 0.5, 1.0)) if static else 0.0
    actors = [_actor(rng, number, share) for number in range(rng.randint(2, 5))]
    steps = []
    if rng.random() < 0.8:
        # All come at once, as a fleet does that starts; otherwise one after another.
        steps += [Step(**actor) for actor in actors for _ in range(2)]
    for _ in range(rng.randint(8, 40)):
        if rng.random() < _ROUNDS:
            # Enough of what clients would do to make the group Stable, if nothing comes between.
            steps += [Step(**actor) for actor in actors for _ in range(2)]
        steps.append(_step(rng, actors))
    return Sequence(rng.choice(list(SETUPS)), tuple(steps))


def _actor(rng: random.Random, number: int, static: float) -> dict[str, Any]:
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
        fields["version"] = rng.choice((None, None, None, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8))
    return fields


def _step(rng: random.Random, actors: list[dict[str, Any]]) -> Step:
    fields = rng.choice(actors) | {"api": rng.choice(_APIS), "pause": rng.choice(_PAUSES)}
    if fields["api"] == "leave" and rng.random() < 0.4:
        others = rng.sample(range(len(actors)), k=rng.randint(1, 2))
        fields["also"] = tuple(_leaver(rng, other) for other in others)
    if fields["api"] == "join" and fields.get("instance") and rng.random() < 0.6:
        fields["member"] = "empty"  # it has been started again
    if rng.random() < _BENT:
        fields |= _bend(rng, len(actors))
    return Step(**fields)


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
            {"generation": rng.choice(("previous", "none", "future"))},
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
