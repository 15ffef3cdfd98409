from __future__ import annotations

from typing import Any

from group_coordinator.checkpoints.standstills import (
    begin_standstills,
    end_standstills,
    read_standstills,
    write_standstills,
)
from group_coordinator.coordinator_state.standstills import Standstill
from tests.checkpoints.in_memory import Files


def test_a_standstill_is_kept_from_its_begin_to_its_end() -> None:
    files: Any = Files()
    assert read_standstills(files) == []
    begin_standstills(files, {0: 50, 2: 50})
    assert end_standstills(files, {0, 1}, 70) == [Standstill(0, 50, 70)]
    assert end_standstills(files, {0}, 90) == []
    begin_standstills(files, {0: 100})
    # A clock that is behind makes none of no length.
    assert end_standstills(files, {0}, 40) == [Standstill(0, 100, 101)]
    assert read_standstills(files) == [Standstill(0, 50, 70), Standstill(2, 50), Standstill(0, 100, 101)]


def test_old_ones_are_forgotten_unless_they_last() -> None:
    files: Any = Files()
    over = [Standstill(0, 2 * it, 2 * it + 1) for it in range(1, 1_000)]
    write_standstills(files, [Standstill(1, 0), *over])
    begin_standstills(files, {2: 5_000})
    kept = read_standstills(files)
    assert kept == [Standstill(1, 0), *over, Standstill(2, 5_000)]
    begin_standstills(files, {3: 6_000})
    assert read_standstills(files) == [Standstill(1, 0), *over[1:], *kept[-1:], Standstill(3, 6_000)]
