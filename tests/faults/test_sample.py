"""A small part of what `make faults` does: clients at work while one thing after another is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checker import check, figures
from tests.faults.faults import Fault
from tests.faults.stage import LoadSize, Stage
from tests.storage.hdfs import Hdfs
from tests.storage.s3 import ObjectStore

pytestmark = pytest.mark.spark

SEED = 6
FAULTS = [
    Fault(after_s=1, kind="kill-worker", seconds=0, choice=0.99),
    Fault(after_s=1, kind="kill-driver", seconds=0, choice=0.9),  # all of its processes at once
    Fault(after_s=1, kind="pause-driver", seconds=3, choice=0.0),
    Fault(after_s=1, kind="kill-broker", seconds=0, choice=0.0),
]
OF_THE_STREAM = [
    Fault(after_s=1, kind="flood", seconds=0, choice=0.0),
    Fault(after_s=1, kind="clock-jump", seconds=4, choice=0.1),
    # Longer than a partition may be without a probe.
    Fault(after_s=1, kind="stuck-partition", seconds=8, choice=0.0),
    Fault(after_s=1, kind="backlog", seconds=0, choice=0.0),
]
# Starting the coordinator anew takes longer than a session, and nobody may be put out for that.
LOAD = LoadSize(
    processes=2,
    members=6,
    groups=2,
    options=["--sessions", "6000", "--rebalances", "60000", "--lives", "5,20"],
)


@pytest.mark.verify
def test_nothing_is_lost_when_the_coordinator_dies(tmp_path: Path) -> None:
    done, _ = play_and_check(tmp_path, FAULTS[1:2], kills_of_history=None)
    assert done == {"SIGKILL driver"}


@pytest.mark.verify
def test_nothing_is_lost_when_anything_dies(tmp_path: Path) -> None:
    done, starts = play_and_check(tmp_path, FAULTS, kills_of_history=1)
    assert done == {
        "SIGKILL Python worker",
        "SIGKILL driver",
        "SIGSTOP all of the coordinator",
        "SIGKILL broker",
        "SIGKILL history",
    }
    assert starts >= 2


@pytest.mark.verify
def test_nothing_is_lost_when_clocks_jump_and_partitions_are_stuck(tmp_path: Path) -> None:
    done, _ = play_and_check(tmp_path, OF_THE_STREAM, kills_of_history=None)
    assert done == {"flood", "clock jumped", "request partition stuck", "backlog", "SIGKILL driver"}


def play_and_check(
    directory: Path,
    faults: list[Fault],
    kills_of_history: int | None,
    store: ObjectStore | Hdfs | None = None,
) -> tuple[set[str], int]:
    """Return what was done, and how often the coordinator was started."""
    said: list[str] = []
    with Stage(
        *(directory, SEED, "local", LOAD, said.append), kills_of_history=kills_of_history, store=store
    ) as stage:
        stage.wait_for_answers(50)
        for fault in faults:
            stage.play([fault])
            # Not the next before the coordinator is back, or two would count as one.
            stage.wait_for_answers(30)
        history = stage.finish()

    if violations := check(history):
        # All that would be needed to find out why: pytest shortens what is compared.
        pytest.fail("\n".join(["what was done:", *said, "what is wrong:", *map(str, violations)]))
    counts = figures(history)
    assert counts["generation_completed"] >= LOAD.groups
    assert counts["offsets_committed"] > 0
    return {what for what, times in stage.done.items() if times}, stage.supervisor.starts
