"""The end of a coordinator, at which all that it has decided is decided once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.checkpoints.replay import replay
from group_coordinator.coordinator_state.standstills import PartitionOutages
from tests.faults.history import collect, read_topic

if TYPE_CHECKING:
    from tests.commands.job import Job

__all__ = ["end"]


def end(job: Job, bootstrap_servers: str) -> list[bytes]:
    """Stop the coordinator, compare its events with a replay of the requests, and return them.

    It may have run before, with the same checkpoint.
    """
    job.terminate()
    assert job.exit_code() == 0
    history = collect(job.settings, read_topic(bootstrap_servers, job.topics["requests"]), [], {})
    replayed = replay(
        history.requests,
        {},
        history.config,
        history.secret,
        history.watermark_ms,
        PartitionOutages(history.outages),
        layout=history.layout,
    )
    events = list(dict.fromkeys(event.value for event in history.events))
    assert events == list(replayed)
    return events
