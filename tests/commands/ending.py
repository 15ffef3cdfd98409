"""The end of a coordinator, at which all that it has decided is decided once more."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import msgspec

from group_coordinator.checkpoints.replay import replay
from group_coordinator.coordinator_state.standstills import PartitionOutages
from tests.faults.history import collect, read_topic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.commands.job import Job
    from tests.faults.history import History

__all__ = ["end", "events_as_replayed"]


def end(job: Job, bootstrap_servers: str) -> list[bytes]:
    """Stop the coordinator, compare its events with a replay of the requests, and return them, each once.

    It has to have read all requests, and may have run before, with the same checkpoint.
    """
    job.terminate()
    assert job.exit_code() == 0
    requests = read_topic(bootstrap_servers, job.topics["requests"])
    return events_as_replayed(collect(job.settings, requests, [], {}))


def events_as_replayed(history: History) -> list[bytes]:
    """Compare the events with a replay of the requests, and return them, each once."""
    known = PartitionOutages(history.outages, history.standstills, history.layout.request_partitions)
    replayed = replay(
        history.requests,
        {},
        history.config,
        history.secret,
        history.watermark_ms,
        known,
        layout=history.layout,
    )
    events = list(dict.fromkeys(event.value or b"" for event in history.events))
    lived, expected = _by_group(events), _by_group(replayed)
    groups = lived.keys() | expected.keys()
    differing = {it: (lived[it], expected[it]) for it in groups if lived[it] != expected[it]}
    assert differing == {}, differing
    return events


def _by_group(events: Iterable[bytes]) -> defaultdict[str, list[bytes]]:
    """Groups are on several partitions, and nothing says which of two is first."""
    groups: defaultdict[str, list[bytes]] = defaultdict(list)
    for event in events:
        fields: dict[str, Any] = msgspec.json.decode(event)
        groups[fields["group_id"]].append(event)
    return groups
