"""A coordinator for each test that asks for one: the core in memory, or all of it on Spark and Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from group_coordinator.coordinator_state.seldom import Seldom
from tests.client.memory import Coordinator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.streaming.harness import Harness


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def tells_all_that_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log each record that is skipped, although another test has just had one."""
    monkeypatch.setattr(Seldom, "happened", lambda _seldom, _now_s: 1)


@pytest.fixture(scope="module")
def harness(spark, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A running coordinator for a module's tests; each uses groups and topics of its own."""
    # Not above: most tests need no pyspark, and it takes its time.
    from tests.streaming.harness import Harness

    directory = tmp_path_factory.mktemp("coordinator")
    with Harness(spark, bootstrap_servers, directory, group_min_session_timeout_ms=2_000) as harness:
        harness.start_and_warm_up()
        yield harness
