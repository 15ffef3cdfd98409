"""Checkpoint and history on HDFS, while the coordinator, HDFS and the history's job die."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.faults import Fault
from tests.faults.test_sample import play_and_check
from tests.storage.hdfs import Hdfs

pytestmark = [pytest.mark.spark, pytest.mark.verify]

FAULTS = [
    Fault(after_s=1, kind="kill-driver", seconds=0, choice=0.9),  # all of its processes at once
    Fault(after_s=1, kind="kill-store", seconds=5, choice=0),
]


def test_nothing_is_lost_when_the_coordinator_or_hdfs_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hdfs = Hdfs(tmp_path / "hdfs")
    for name, value in hdfs.environment.items():
        monkeypatch.setenv(name, value)
    with hdfs:
        done, _ = play_and_check(tmp_path, FAULTS, kills_of_history=1, store=hdfs)
    assert done == {"SIGKILL driver", "SIGKILL storage", "SIGKILL history"}
