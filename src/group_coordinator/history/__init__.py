"""The history of groups: `coordinator.events` as tables, and the answers that these give.

    coordinator.events ─► write-history ─► Delta tables ─► history GROUP, SQL, notebooks
                          (a query of its own)

`rows` and `spans` say what each event means for the tables; everything else moves rows. The query is another
one than the coordinator's, in another process: a slow table or a full disk delays no member.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from group_coordinator.history.errors import HistoryError
    from group_coordinator.history.reader import HistoryReader

__all__ = ["HistoryError", "HistoryReader"]

_HOMES = {"HistoryError": "errors", "HistoryReader": "reader"}


def __getattr__(name: str) -> Any:
    """Import it when it is first asked for: a job that writes a history does without what reads one."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
