"""Advice for somebody who has not installed an extra. It needs only the standard library."""

from __future__ import annotations

from importlib.util import find_spec


def how_to_install(extra: str) -> str:
    """The sentence that says how to install an extra."""
    return f"In the clone that group-coordinator comes from, run: pip install '.[{extra}]'"


def missing(extra: str, *modules: str) -> str | None:
    """Return the advice for somebody who has not installed the modules of `extra`; None if they are there."""
    absent = [name for name in modules if find_spec(name) is None]
    if not absent:
        return None
    are = "is" if len(absent) == 1 else "are"
    return f"{', '.join(absent)} {are} not installed. {how_to_install(extra)}"
