from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from group_coordinator.demo.processes import Child, end_all, end_of
from tests.patience import wait_for
from tests.rooms import ROOT

# Says the process ids of itself, of a child in its group, and of one in a group of its own.
FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
kin = [subprocess.Popen(sleep), subprocess.Popen(sleep, process_group=0)]
print(os.getpid(), *(each.pid for each in kin), flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def said(log: Path) -> str:
    return log.read_text() if log.exists() else ""


def test_kill_leaves_nobody_of_the_family(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = Child("family", [sys.executable, "-c", FAMILY], log)
    wait_for(lambda: said(log).endswith("\n"))
    pids = [int(pid) for pid in said(log).split()]
    assert len(pids) == 3
    assert all(alive(pid) for pid in pids)

    child.kill()

    assert child.exit_code == -signal.SIGKILL
    assert not any(alive(pid) for pid in pids)


def test_ends_politely_if_it_obeys_and_by_force_if_not(tmp_path: Path) -> None:
    polite = Child("polite", [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "polite")
    stubborn = Child("stubborn", [sys.executable, "-c", STUBBORN], tmp_path / "stubborn")
    wait_for(lambda: said(tmp_path / "stubborn"))

    end_all([polite, stubborn], timeout_s=0.5)

    assert polite.exit_code == -signal.SIGTERM
    assert stubborn.exit_code == -signal.SIGKILL


def test_knows_who_ended_unasked_and_what_it_wrote_last(tmp_path: Path) -> None:
    code = "import sys; print('1\\n2\\n3'); sys.exit(3)"
    child = Child("short", [sys.executable, "-c", code], tmp_path / "log", {"ADDED": "yes"})
    wait_for(lambda: child.exit_code is not None)

    assert (child.exit_code, child.ending) == (3, False)
    assert end_of(child.log, 2) == "2\n3"
    child.kill()
    child.kill()  # nobody's process id any more: without effect


def test_a_child_does_not_outlive_its_parent(tmp_path: Path) -> None:
    parent = """
import sys, time
from pathlib import Path
from group_coordinator.demo.processes import Child
child = Child("orphan", [sys.executable, "-c", "import time; time.sleep(600)"], Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(600)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", parent, tmp_path / "log"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert alive(pid)

    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    wait_for(lambda: not alive(pid))
