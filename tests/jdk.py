"""Tests that compile Java."""

from __future__ import annotations

import shutil

import pytest

needs_jdk = pytest.mark.skipif(
    shutil.which("javac") is None, reason="a JDK is needed: there is no javac in the PATH"
)
