from __future__ import annotations

from typing import Any

from group_coordinator.checkpoints.watches import Watch, begin_watch, open_watches
from tests.checkpoints.in_memory import Files

MINUTE_MS = 60_000


def test_those_of_the_last_ten_minutes_are_open() -> None:
    files: Any = Files()
    assert open_watches(files, 0) == []
    first, second, third = (
        Watch(minutes * MINUTE_MS, {"groups": {0: minutes}, "offsets": {0: 0, 1: 2}})
        for minutes in (1, 4, 12)
    )
    begin_watch(files, first)
    begin_watch(files, second)
    assert open_watches(files, 5 * MINUTE_MS) == [first, second]
    assert open_watches(files, 11 * MINUTE_MS) == [second]
    begin_watch(files, third)
    # Those that are over are forgotten.
    assert open_watches(files, 5 * MINUTE_MS) == [second, third]


def test_one_is_open_whose_clock_was_ahead() -> None:
    files: Any = Files()
    begin_watch(files, ahead := Watch(60 * MINUTE_MS, {"groups": {0: 7}}))
    assert open_watches(files, 0) == [ahead]
