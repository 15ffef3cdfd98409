"""Times at and beyond every bound: no sum of them leaves the range of the stored state and of Spark."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.step import step
from group_coordinator.coordinator_state.stored import decode_group

INT32, INT64 = 2**31 - 1, 2**63 - 1
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIG = GroupConfig(group_min_session_timeout_ms=0, group_max_session_timeout_ms=INT32)

edges = st.sampled_from([-INT64 - 1, -2, -1, 0, 1, DAY_MS, INT32, LATEST_MS - NOW_MS, LATEST_MS, INT64])
steps = st.sampled_from([0, 1, DAY_MS, 2 * INT32, LATEST_MS - NOW_MS, LATEST_MS, INT64])


def commit(retention_ms: int) -> dict[str, Any]:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    return {"api": "offset_commit", "api_version": 2, "retention_time_ms": retention_ms, "topics": topics}


def join(session_ms: int) -> dict[str, Any]:
    timeouts = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": INT32}
    protocols = [{"name": "range", "metadata": ""}]
    return {"api": "join_group", "api_version": 3, "protocol_type": "x", "protocols": protocols, **timeouts}


asked = edges.map(commit) | st.sampled_from([0, INT32]).map(join)


@given(st.lists(st.tuples(steps, asked), min_size=1, max_size=4), st.lists(steps, max_size=3))
@example([(0, commit(INT64))], [0, DAY_MS, DAY_MS])
def test_times_stay_in_range(requests: list[tuple[int, Any]], idle: list[int]) -> None:
    """Requests, then batches without any; before each of these there is an outage of its length."""
    times = list(accumulate([ms for ms, _ in requests], initial=NOW_MS))[1:]
    after = list(accumulate(idle, initial=times[-1]))
    outages = Outages(Outage(*each) for each in pairwise(after) if each[0] < each[1])
    batches = [
        [Record("requests", 0, offset, ms, b"g", msgspec.json.encode(request | names(offset)))]
        for offset, (ms, (_, request)) in enumerate(zip(times, requests, strict=True))
    ]
    state = None
    for ms, records in zip(times + after, batches + [[] for _ in after], strict=True):
        result = step(b"g", state, records, ms, CONFIG, b"", outages)
        state = result.state
        assert not result.rejections
        if state is not None:
            group = decode_group(state)
            assert group.now_ms < LATEST_MS
            assert all(group.now_ms < at_ms <= LATEST_MS for at_ms, _, _ in group.deadlines())
            assert result.deadline_ms is not None
            assert group.now_ms < result.deadline_ms <= LATEST_MS


def names(number: int) -> dict[str, str]:
    return {"request_id": f"r{number}", "client_id": f"c{number}", "group_id": "g"}
