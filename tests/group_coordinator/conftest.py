"""What the tests of the command line share: the coordinator as a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.group_coordinator.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
