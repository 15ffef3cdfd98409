from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.faults.faults import KINDS, plan
from tests.faults.notes import Ended, GaveUp, Notebook, read_notes
from tests.faults.supervisor import signal_process


def test_a_seed_is_a_plan() -> None:
    assert plan(1, 60, KINDS) == plan(1, 60, KINDS)
    assert plan(1, 60, KINDS) != plan(2, 60, KINDS)


def test_a_plan_is_as_long_as_asked_and_of_the_kinds_asked() -> None:
    faults = plan(1, 600, ["kill-broker", "disk-full"])

    assert {fault.kind for fault in faults} == {"kill-broker", "disk-full"}
    assert 600 <= sum(fault.after_s + fault.seconds for fault in faults) < 630


def test_plans_have_all_kinds_and_pauses_shorter_and_longer_than_a_session() -> None:
    faults = [fault for seed in range(20) for fault in plan(seed, 60, KINDS)]

    assert {fault.kind for fault in faults} == set(KINDS)
    assert {fault.seconds > 6 for fault in faults} == {False, True}


def test_a_signal_for_nobody_is_not_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert signal_process(process.pid, signal.SIGKILL)
        process.wait()

    assert not signal_process(process.pid, signal.SIGKILL)


def test_notes_of_several_processes_are_read_in_the_order_of_their_times(tmp_path: Path) -> None:
    notes = [GaveUp(at_ms=at_ms, client_id="a", lost=False) for at_ms in (1, 3)]
    end = Ended(at_ms=2, client_id="b", how="crashed")
    with Notebook(tmp_path / "0") as first, Notebook(tmp_path / "1") as second:
        first.write(notes[0])
        second.write(end)
        first.write(notes[1])

        assert read_notes([tmp_path / "0", tmp_path / "1"]) == [notes[0], end, notes[1]]
