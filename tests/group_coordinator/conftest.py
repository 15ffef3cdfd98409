"""What the tests of the command line share: the coordinator as a process, and groups of one in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator import GroupMember
from tests.client.memory import PATIENCE_S, Coordinator, MemoryChannel
from tests.group_coordinator.job import Job
from tests.group_coordinator.memory_admin import MemoryAdmin

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
    """`make_member(group_id, client_id, topics=... or units=...)` is a member that owns something."""
    members: list[GroupMember] = []

    def make(
        group_id: str, client_id: str = "c1", group_instance_id: str | None = None, **what: Any
    ) -> GroupMember:
        member = GroupMember(
            group_id=group_id,
            client_id=client_id,
            client_host="h1",
            group_instance_id=group_instance_id,
            session_timeout_ms=90_000,
            heartbeat_interval_ms=30,
            channel=MemoryChannel(coordinator, client_id),
        )
        members.append(member)
        member.subscribe(**what)
        assert member.poll(timeout_ms=PATIENCE_S * 1000)
        return member

    yield make
    for member in members:
        member.close(leave=True)
