"""The scripts, as sequences by name."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.consumer.sequence import Sequence
from tests.conformance.consumer.steps import script
from tests.conformance.scripted import scripts_in

__all__ = ["SCRIPTS"]

_TEXT = Path(__file__).with_name("scripts.txt").read_text(encoding="utf-8")

SCRIPTS = {
    f"{section}: {name}": Sequence(setup, script(steps)) for setup, section, name, steps in scripts_in(_TEXT)
}
