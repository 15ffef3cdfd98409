"""The words of the consumer protocol's scripts: see `tests/conformance/steps.py`.

The number of `joined`, `beats`, `settled` and `group` is how many actors there are.
"""

from __future__ import annotations

from tests.conformance.consumer.sequence import APIS, Step
from tests.conformance.steps import Language, of_each

__all__ = ["script"]

_VERBS: dict[str, dict[str, str]] = {
    **{api: {"api": api} for api in APIS if api != "wait"},
    "join": {"epoch": "0"},
    "leave": {"epoch": "-1"},
    # As a static member does that will be back.
    "away": {"epoch": "-2"},
    # As no member.
    "simple": {"api": "commit", "member": "", "instance": "none", "epoch": "-1"},
    "offsets": {"api": "fetch", "member": "null", "epoch": "-1", "parts": "all"},
}
_ROUNDS = 4
"""So often all send a heartbeat until nothing changes any more, however a group has begun."""
_IN_SHORT = {
    "joined": lambda count: of_each("join", range(int(count))),
    "beats": lambda count: of_each("beat", range(int(count))),
    "settled": lambda count: ", ".join([f"beats {count}"] * _ROUNDS),
    "group": lambda count: f"joined {count}, just settled {count}",
}

script = Language(Step, _VERBS, _IN_SHORT).script
