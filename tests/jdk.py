"""Tests that compile Java."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from group_coordinator.deploy.java import find_java

if TYPE_CHECKING:
    from pathlib import Path


def find_javac() -> Path:
    """Return the compiler of the Java that everything runs on. Skips the test if that has none."""
    java = find_java().resolve()
    javac = java.with_name("javac")
    if not javac.exists():
        pytest.skip(f"a JDK is needed: there is no compiler beside {java}")
    return javac
