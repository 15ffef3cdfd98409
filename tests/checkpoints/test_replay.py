from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from operator import attrgetter

import msgspec
import pytest

from group_coordinator.checkpoints import replay as module
from group_coordinator.checkpoints.late import late_times, told_late
from group_coordinator.coordinator_state.clocks import Correction, Leeway, Span
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.layout import Layout
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import Outage
from group_coordinator.coordinator_state.standstills import PartitionOutages
from group_coordinator.coordinator_state.step import Channel, step

CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0)
SECRET = b"s"
replay = partial(module.replay, layout=Layout(response_partitions=8))
JOIN = {
    "api": "join_group",
    "api_version": 3,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": ""}],
}


def request(offset: int, group_id: str, timestamp_ms: int, **fields: object) -> Record:
    value = {"request_id": f"r{offset}", "client_id": "c", "group_id": group_id} | fields
    return Record("requests", 0, offset, timestamp_ms, group_id.encode(), json.dumps(value).encode())


LOG = [request(number, f"g{number % 3}", 1_000 * number, **JOIN) for number in range(9)]


def kinds(events: list[bytes], group_id: str) -> list[str]:
    decoded = [json.loads(event) for event in events]
    return [event["event"] for event in decoded if event["group_id"] == group_id]


def test_it_decides_as_one_batch_does() -> None:
    expected = [
        output.value
        for key in (b"g0", b"g1", b"g2")
        for output in step(key, None, [r for r in LOG if r.key == key], 8_000, CONFIG, SECRET).outputs
        if output.channel is Channel.EVENTS
    ]

    assert sorted(map(bytes, filter(None, expected))) == sorted(replay(LOG, {}, CONFIG, SECRET))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_how_the_log_is_cut_does_not_matter(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    whole = list(replay(LOG, {}, CONFIG, SECRET, 99_000))
    monkeypatch.setattr("group_coordinator.checkpoints.replay._RECORDS", size)
    parts = list(replay(LOG, {}, CONFIG, SECRET, 99_000))

    assert sorted(whole) == sorted(parts)
    assert [kinds(whole, f"g{number}") for number in range(3)] == [
        kinds(parts, f"g{number}") for number in range(3)
    ]


def test_it_goes_on_from_stored_groups() -> None:
    first = LOG[:5]
    groups = {}
    for key in (b"g0", b"g1", b"g2"):
        state = step(key, None, [r for r in first if r.key == key], 0, CONFIG, SECRET).state
        assert state is not None
        groups[key] = state
    before = list(replay(first, {}, CONFIG, SECRET, 0))
    after = list(replay(LOG[5:], groups, CONFIG, SECRET))

    assert sorted(before + after) == sorted(replay(LOG, {}, CONFIG, SECRET))
    assert after


def test_time_passes_to_the_newest_record_or_further() -> None:
    alone = [request(0, "g", 1_000, **JOIN), request(1, "other", 10_999, api="describe_group")]

    assert "member_removed" not in kinds(list(replay(alone, {}, CONFIG, SECRET)), "g")
    assert "member_removed" not in kinds(list(replay(alone, {}, CONFIG, SECRET, 10_999)), "g")
    assert "member_removed" in kinds(list(replay(alone, {}, CONFIG, SECRET, 11_000)), "g")


def test_time_of_an_outage_does_not_count() -> None:
    alone = [request(0, "g", 1_000, **JOIN)]
    outages = PartitionOutages([Outage(2_000, 5_000)])

    def removed_at(*arguments: PartitionOutages) -> int:
        events = map(msgspec.json.decode, replay(alone, {}, CONFIG, SECRET, 99_000, *arguments))
        return next(event["at_ms"] for event in events if event["event"] == "member_removed")

    assert 3_000 == removed_at(outages) - removed_at()


def test_requests_of_a_clock_that_was_wrong_count_as_they_did() -> None:
    """Batches are planned every 5 s. Meanwhile the clock is an hour ahead, a minute behind, and right."""
    states: dict[bytes | None, bytes | None] = defaultdict(lambda: None)
    live: list[bytes] = []
    log: list[Record] = []
    for batch, wrong_ms in enumerate((0, 3_600_000, 3_600_000, -60_000, 0)):
        planned_ms = 100_000 + 5_000 * batch
        span = Span.of(planned_ms, planned_ms - 2_000, Leeway(3_500, 3_000))
        of_batch = [
            request(3 * batch + number, f"g{number}", planned_ms - 1_000 + wrong_ms, **JOIN)
            for number in range(3)
        ]
        log += of_batch
        for record in of_batch:
            watermark_ms = span.watermark_ms
            result = step(record.key, states[record.key], [record], watermark_ms, CONFIG, SECRET, span=span)
            states[record.key] = result.state
            live += [it.value or b"" for it in result.outputs if it.channel is Channel.EVENTS]
    told = late_times(map(json.loads, live))
    replayed = list(replay(told_late(log, told), {}, CONFIG, SECRET, span.watermark_ms))

    assert sorted(replayed) == sorted(live)
    # Each time that the clock was set, and for each group.
    assert kinds(live, "g1").count("clock_corrected") == 3
    assert set(map(attrgetter("correction"), told_late(log[:3], told))) == {None}
    # And that matters.
    assert sorted(replay(log, {}, CONFIG, SECRET, span.watermark_ms)) != sorted(live)


def test_time_passes_to_when_the_newest_request_counts_whatever_its_clock_said() -> None:
    """A clock that was an hour ahead when requests of another group came, of which one was told about."""
    beat = {"api": "heartbeat", "member_id": "nobody", "generation_id": 1}
    log = [
        request(0, "g", 1_000, **JOIN),
        request(1, "other", 3_602_000, **JOIN)._replace(correction=Correction(-3_600_000, 1_000)),
        request(2, "other", 3_603_000, **beat),
    ]
    assert "member_removed" not in kinds(list(replay(log, {}, CONFIG, SECRET)), "g")
    assert "member_removed" in kinds(list(replay(log, {}, CONFIG, SECRET, 11_000)), "g")


def test_nothing() -> None:
    assert [] == list(replay([], {}, CONFIG, SECRET, 99_000))


def test_what_the_live_run_could_not_answer_is_refused_again() -> None:
    log = [
        request(number, "g", 0, reply_partition=partition, **JOIN) for number, partition in ((0, 8), (1, 7))
    ]
    created, added, *_ = [json.loads(event) for event in replay(log, {}, CONFIG, SECRET)]

    assert (created["event_id"], added["request_id"]) == ("requests-0-1-0", "r1")
