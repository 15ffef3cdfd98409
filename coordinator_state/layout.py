"""The numbers of partitions, measured from the real topics and the state, and the most groups."""

from __future__ import annotations

from typing import NamedTuple

from group_coordinator.coordinator_state.config import INT32_MAX


class Layout(NamedTuple):
    """Numbers of partitions, and of groups."""

    request_partitions: int = 1
    """Of the request topic; FindCoordinator tells which of them a group's requests belong in."""
    response_partitions: int = INT32_MAX
    """Of the response topic: a `reply_partition` beyond it is refused, because the sink cannot write there.
    Without a sink nothing is out of reach."""
    state_partitions: int = 1
    """Of the state; FindCoordinator tells which of them has the group."""
    max_groups: int = 0
    """The setting `max.groups`, which FindCoordinator tells; 0: it is not known."""


UNMEASURED = Layout()
"""Without real topics: one partition each, and no reply partition is out of reach."""
