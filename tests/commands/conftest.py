"""What the tests of the command line share: the coordinator as a process, and groups of one in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.client.memory import Coordinator, member_maker
from tests.commands.job import Job
from tests.commands.memory_admin import MemoryAdmin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from group_coordinator import GroupMember


@pytest.fixture
def start(bootstrap_servers: str, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Start jobs that all have the same topics and checkpoint."""
    jobs: list[Job] = []

    def start(*arguments: str) -> Job:
        jobs.append(Job(bootstrap_servers, tmp_path, tmp_path.name, *arguments))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()
        # Shown if the test fails.
        print(*job.said, sep="\n")


@pytest.fixture
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command changes is put back, and settings of this machine do not count."""
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    for name in list(os.environ):
        own = name.removeprefix("GROUP_COORDINATOR_")
        if own != name and own not in ("CACHE", "MAVEN_URL"):
            monkeypatch.delenv(name)


# -- groups in memory ------------------------------------------------------------------------------------

LOGS = {("orders", 0): (0, 10), ("orders", 1): (5, 20), ("refunds", 0): (0, 0)}


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def admin(coordinator: Coordinator) -> MemoryAdmin:
    """Topic orders has two partitions, with offsets 0 to 10 and 5 to 20; refunds has one, which is empty."""
    coordinator.topics |= {"orders": 2, "refunds": 1}
    return MemoryAdmin(coordinator, LOGS)


@pytest.fixture
def make_member(coordinator: Coordinator) -> Iterator[Callable[..., GroupMember]]:
    with member_maker(coordinator) as make:
        yield make
