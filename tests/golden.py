"""Whole outputs that are kept in files, so that a change of their words shows as a whole.

To renew them after a change: `GOLDEN=write .venv/bin/pytest tests/commands/test_style.py`, and read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

FILES = Path(__file__).with_name("golden")


def assert_golden(name: str, text: str) -> None:
    """Check that `text` is what the file of that name has."""
    assert_kept(FILES / f"{name}.txt", text)


def assert_kept(file: Path, text: str) -> None:
    """Check that `text` is what this file has."""
    if os.environ.get("GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()  # pytest shows how they differ
