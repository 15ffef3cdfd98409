"""All sequences that a game plays by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.conformance.differences import KnownDifference

__all__ = ["scripts_in", "shown"]


def scripts_in(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """Say setup, section, name and steps of each script that is told one by one."""
    setup = section = ""
    text = (folder / "scripts.txt").read_text(encoding="utf-8")
    for line in re.sub(r"\n +", " ", text).splitlines():
        if header := re.fullmatch(r"\[(\w+)\] (.+)", line):
            setup, section = header.groups()
        elif line and not line.startswith("#"):
            name, _, steps = line.partition(": ")
            yield setup, section, name, steps


def shown(differences: Iterable[KnownDifference]) -> dict[str, KnownDifference]:
    """The known differences by the names of the sequences that show them."""
    return {f"difference: {each.name}": each for each in differences}
