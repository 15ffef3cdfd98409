"""The rooms of the house: the packages below `group_coordinator`, and where their files are."""

from __future__ import annotations

import tomllib
from pathlib import Path

__all__ = ["AT_THE_TOP", "HOUSE", "ROOMS", "ROOT"]

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "group_coordinator"
"""Has each room, some as links."""
ROOMS = sorted(file.parent.name for file in HOUSE.glob("*/__init__.py"))
AT_THE_TOP: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["rooms"]["at-the-top"]
"""Those whose folders are at the top of the repository."""
