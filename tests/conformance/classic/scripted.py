"""The scripts, as sequences by name: `scripts.txt` has those that are told one by one, and here are families.

`SCRIPTS` has all but those that take minutes, which are in `PATIENT`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.classic.differences import DIFFERENCES
from tests.conformance.classic.sequence import OFFSETS, Step
from tests.conformance.classic.steps import script
from tests.conformance.differences import shown
from tests.conformance.sequence import Sequence, read_sequence
from tests.conformance.steps import scripts_in

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FOLDER", "PATIENT", "PLAYED", "SCRIPTS"]

FOLDER = Path(__file__).parent
_REGRESSIONS = (FOLDER / "regressions.txt").read_text(encoding="utf-8").splitlines()
_NAMELESS = "no group id"
_PATIENT = "patient"

# Named twice in one fetch a partition is told twice by Kafka, see `differences.py`.
_TWICE = {"twice", "topic twice", "twice, once too large"}
_KNOWN = [name for name in OFFSETS if name != "strange"]

# A group's life in one version: two members, one that leaves, a silent one.
_REST_OF_LIFE = (
    "beat, join, sync 1, sync, join 1, join 2 member=nobody, sync 2 member=nobody, beat 2 member=nobody, "
    "leave 2 member=nobody, leave 1, join, sync, wait next"
)
_LIFE = f"join, join, sync, beat, join 1, join 1, {_REST_OF_LIFE}"
_LIFE_BEFORE_IDS = f"join, sync, beat, join 1, {_REST_OF_LIFE}"
_STATIC_LIFE = (
    "restart, sync, restart 1, join, sync 1, sync, restart 1, restart, sync, beat, beat member=previous, "
    "leave 1, leave member=empty"
)
# Commits, fetches and a deletion, by members and others.
_LIFE_OF_OFFSETS = (
    "fetch {v}, fetch {v} offsets=all, commit {v} generation=future, "
    "simple {v} offsets=epoch retention=60000, fetch {v} offsets=epoch, formed 2, commit {v}, sync 1, "
    "sync, commit {v} offsets=several, commit 1 {v} offsets=epoch, commit {v} generation=previous, "
    "commit 1 {v} member=nobody, simple {v}, commit {v} instance=own, "
    "fetch {v} offsets=several stable=true, fetch {v} offsets=all, delete_offsets {v} offsets=several, "
    "leave also=1, commit {v} member=previous, simple {v} offsets='some too large', "
    "fetch {v} offsets=strange"
)


def _told() -> Iterator[tuple[str, Sequence[Step]]]:
    """Read the scripts that are told one by one."""
    for setup, section, name, text in scripts_in(FOLDER):
        yield f"{section}: {name}", Sequence(setup, script(text), nameless=section == _NAMELESS)


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


def _families() -> Iterator[tuple[str, str]]:
    for name in _KNOWN:
        yield f"commit: of {name}", f"simple offsets='{name}', simple offsets='{name}'"
        yield (
            f"commit: of {name} by a member",
            f"stable 1, commit offsets='{name}', fetch offsets=all stable=true",
        )
        yield (
            f"offset deletion: of {name}",
            f"simple offsets=all, delete_offsets offsets='{name}', fetch offsets=all",
        )
    for name in [each for each in OFFSETS if each not in _TWICE]:
        fetches = ", ".join(f"fetch offsets='{name}' version={version}" for version in (1, 2, 7, 9))
        yield f"fetch: of {name}", f"simple offsets=all, {fetches}"
    for name in ("a", "a2", "a3", "a?", "a0", "ab", "ba", "ab2", "bc", "c", "ab?"):
        yield (
            f"offset deletion: subscribed with {name}",
            f"simple offsets=all, stable 1 protocols={name}, delete_offsets offsets=several",
        )
    for state, steps in _in_each_state("told_in_each_way").items():
        yield f"list: {state}", steps
    for version in range(3):
        twice = f"delete_group version={version}, delete_group version={version}"
        for state, steps in _in_each_state(twice).items():
            yield f"group deletion: in version {version}, {state}", steps
    for state, steps in _in_each_state("delete_group", "protocol_type=connect").items():
        yield f"group deletion: of another type, {state}", steps
    for version in range(1, 10):
        yield f"offsets in version: {version}", _LIFE_OF_OFFSETS.format(v=f"version={version}")


def _scripts() -> dict[str, Sequence[Step]]:
    scripts = dict(_told()) | {name: Sequence("plain", script(text)) for name, text in _families()}
    for version in range(10):
        text = _LIFE if version >= 4 else _LIFE_BEFORE_IDS
        scripts[f"version: {version}"] = Sequence("plain", script(text, version=str(version)))
    for version in range(5, 10):
        steps = script(_STATIC_LIFE, version=str(version), instance="own")
        scripts[f"static in version: {version}"] = Sequence("plain", steps)
    return scripts


_ALL = _scripts()
SCRIPTS = {name: sequence for name, sequence in _ALL.items() if not name.startswith(f"{_PATIENT}: ")}
PATIENT = {name: sequence for name, sequence in _ALL.items() if name not in SCRIPTS}
PLAYED = (
    SCRIPTS
    # Sequences in which the two once differed, as small as they could be made.
    | {f"regression: {place}": read_sequence(line, Step) for place, line in enumerate(_REGRESSIONS)}
    | {name: difference.shown_by for name, difference in shown(DIFFERENCES).items()}
    | PATIENT
)
