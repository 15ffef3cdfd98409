from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from group_coordinator.streaming.polling import Pause, Polling

if TYPE_CHECKING:
    from tests.streaming.harness import Harness


@pytest.mark.spark
def test_a_query_polls_less_often_when_it_is_told_to(harness: Harness) -> None:
    """Spark's own thread asks for the delay in the same way. A Spark that has none fails here."""
    harness.start_and_warm_up()
    query: Any = harness.query
    execution = query._jsq.streamingQuery()
    polling = Polling(query)
    delays = [execution.pollingDelayMs()]
    for pause in (Pause.SHORT, Pause.SHORT, Pause.LONG, Pause.LONGEST, Pause.NONE):
        polling.set(pause)
        delays.append(execution.pollingDelayMs())
    assert delays == [10, 50, 50, 100, 250, 10]
    harness.call("heartbeat", "again", member_id="m", generation_id=0)


def test_with_another_spark_it_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    query: Any = SimpleNamespace()
    polling = Polling(query)
    polling.set(Pause.SHORT)
    assert "this Spark cannot be made to poll less often while nothing comes" in caplog.text
