"""A batch as Spark tells of it, with as much as the job looks at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def progress(*groups: int, unread: int = 0, run_id: Any = None) -> Any:
    """A batch that ends at offset 7 of topic requests; `groups`: those in each stateful operator."""
    read, there = (f'{{"requests": {{"0": {number}}}}}' for number in (7, 7 + unread))
    return SimpleNamespace(
        runId=run_id,
        stateOperators=[SimpleNamespace(numRowsTotal=each) for each in groups],
        sources=[SimpleNamespace(endOffset=read, latestOffset=there)],
    )
