"""When requests count, as the events of a run tell it."""

from __future__ import annotations

from group_coordinator.checkpoints.late import LateTimes
from group_coordinator.coordinator_state.clocks import Correction
from group_coordinator.coordinator_state.log import Record
from tests.faults.history import counted_ms

AN_HOUR_MS = 3_600_000


def test_requests_count_as_was_told_and_so_do_those_after_them() -> None:
    """The clock of partition 0 is an hour ahead from offset 1 on, and right again at offset 5."""
    of_group = ["g", "g", "h", "g", "g", "g", "g"]
    wrong_ms = [0, AN_HOUR_MS, AN_HOUR_MS, AN_HOUR_MS, AN_HOUR_MS, 0, 0]
    requests = [
        Record("requests", 0, offset, 1_000 * offset + ahead_ms, group_id.encode(), b"")
        for offset, (group_id, ahead_ms) in enumerate(zip(of_group, wrong_ms, strict=True))
    ]
    elsewhere = Record("requests", 1, 0, 500, b"g", b"")
    told: LateTimes = {
        (0, 1): {"correction": Correction(-AN_HOUR_MS, 0)},
        (0, 2): {"correction": Correction(-AN_HOUR_MS + 100, 0)},
        (0, 4): {"late_ms": 4_700},
        (0, 5): {"correction": Correction(0, 0)},
    }
    expected = [0, 1_000, 2_100, 3_000, 4_700, 5_000, 6_000, 500]
    assert list(counted_ms([*requests, elsewhere], told)) == expected
