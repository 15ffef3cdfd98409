"""Brokers' clocks that are wrong: how requests count, what is told, and that a replay finds the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from group_coordinator.checkpoints.late import late_times, told_late
from group_coordinator.coordinator_state.clocks import Correction, Leeway, Span
from group_coordinator.coordinator_state.config import GroupConfig
from group_coordinator.coordinator_state.deadlines import LATEST_MS
from group_coordinator.coordinator_state.events import ClockCorrected, MemberRemoved, RequestLate
from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.outages import Outage, Outages
from group_coordinator.coordinator_state.step import StepResult, step
from group_coordinator.coordinator_state.stored import decode_group
from tests.coordinator_state.model import Model
from tests.coordinator_state.observer import Observer

KEY = b"orders"
SECRET = b"secret"
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0)
LEEWAY = Leeway(later_ms=2_000, earlier_ms=1_500)
SESSION_MS = 6_000
DAY_MS = 86_400_000


class Log:
    """One group, batch after batch. Members join as the clients of Kafka 0.11 do, at once."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.records: list[Record] = []
        self.events: list[Any] = []
        self.outages: list[Outage] = []
        self.watermark_ms = 0
        self._offsets = [0, 0]
        self._observer = Observer(Model(CONFIG, self.outages))

    @property
    def group(self) -> Any:
        assert self.state is not None
        return decode_group(self.state)

    def record(self, time_ms: int, partition: int = 0, **fields: Any) -> Record:
        offset = self._offsets[partition]
        self._offsets[partition] += 1
        request = {"request_id": f"r{partition}-{offset}", "client_id": "c", "group_id": "orders"} | fields
        return Record("requests", partition, offset, time_ms, KEY, msgspec.json.encode(request))

    def join(self, time_ms: int, partition: int = 0, client: str = "c") -> Record:
        return self.record(
            time_ms,
            partition,
            api="join_group",
            api_version=3,
            client_id=client,
            member_id="",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": ""}],
        )

    def beat(self, time_ms: int, member_id: str, partition: int = 0) -> Record:
        return self.record(time_ms, partition, api="heartbeat", member_id=member_id, generation_id=1)

    def batch(
        self, watermark_ms: int, planned_ms: int, *records: Record, until_ms: int = LATEST_MS
    ) -> StepResult:
        """What one batch decides of them."""
        outages = Outages(self.outages)
        span = Span.of(planned_ms, watermark_ms, LEEWAY, until_ms)
        result = step(KEY, self.state, records, watermark_ms, CONFIG, SECRET, outages, span=span)
        again = step(KEY, self.state, records[::-1], watermark_ms, CONFIG, SECRET, outages, span=span)
        assert again == result, "it depends on the order of the rows"
        self._observer.see(self.state, records, watermark_ms, result, span)
        self.state = result.state
        self.records += records
        self.events += result.events
        self.watermark_ms = watermark_ms
        return result

    def joined(self, at_ms: int = 10_000) -> str:
        """The id of a member that has joined then, and synced."""
        self.batch(at_ms - 500, at_ms, self.join(at_ms))
        (member_id,) = self.group.members
        sync = {"api": "sync_group", "member_id": member_id, "generation_id": 1, "assignments": []}
        self.batch(at_ms - 500, at_ms + 1, self.record(at_ms + 1, **sync))
        return str(member_id)

    def replays(self) -> None:
        """All at once, told what the events tell: nothing is decided otherwise."""
        told = late_times(map(msgspec.to_builtins, self.events))
        records = list(told_late(self.records, told))
        replayed = step(KEY, None, records, self.watermark_ms, CONFIG, SECRET, Outages(self.outages))
        assert replayed.events == self.events
        assert replayed.state == self.state


def told(result: StepResult) -> list[tuple[int, int, int]]:
    """When a clock was corrected, by how much, and what does not count."""
    events = [it for it in result.events if isinstance(it, ClockCorrected)]
    return [(it.at_ms, it.shift_ms, it.skipped_ms) for it in events]


def expired(result: StepResult) -> list[int]:
    return [it.at_ms for it in result.events if isinstance(it, MemberRemoved)]


# -- the span of a batch -----------------------------------------------------------------------------


def test_span_is_from_a_little_before_the_watermark_to_a_little_after_the_plan() -> None:
    span = Span.of(20_000, 15_000, LEEWAY)
    assert [span.has(it) for it in (13_499, 13_500, 22_000, 22_001)] == [False, True, True, False]


def test_plan_is_not_before_the_watermark_whatever_the_clock_of_the_driver_says() -> None:
    span = Span.of(3_000, 15_000, LEEWAY)
    assert (span.planned_ms, span.latest_ms) == (15_000, 17_000)


@pytest.mark.parametrize(("since_ms", "earliest_ms"), [(2_000, 500), (16_000, 13_500)])
def test_what_waited_in_a_partition_that_stood_still_is_read_when_that_is_over(
    since_ms: int, earliest_ms: int
) -> None:
    assert Span.of(20_000, 15_000, LEEWAY, since_ms=since_ms).earliest_ms == earliest_ms


@pytest.mark.parametrize(
    ("appended_ms", "shift_ms", "correction"),
    [
        (18_000, 0, None),
        (18_000 + DAY_MS, 0, Correction(2_000 - DAY_MS)),
        (18_000 - DAY_MS, 0, Correction(2_000 + DAY_MS)),
        (18_000 + DAY_MS, -DAY_MS, None),
        # It has jumped again, or is right again.
        (18_000 + 2 * DAY_MS, -DAY_MS, Correction(2_000 - 2 * DAY_MS)),
        (18_000, -DAY_MS, Correction(0, 0)),
        # By so little clocks may differ. It is right, unless it is read late once more.
        (18_000, 1_900, Correction(0, 0)),
        (14_900, 1_900, None),
        (15_500, 2_100, None),
    ],
)
def test_correction(appended_ms: int, shift_ms: int, correction: Correction | None) -> None:
    assert Span.of(20_000, 15_000, LEEWAY).correction(appended_ms, shift_ms) == correction


# -- one clock ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_ms", [DAY_MS, -DAY_MS, 5_000, -5_000])
def test_nobody_expires_by_a_clock_that_jumps(jump_ms: int) -> None:
    log = Log()
    member_id = log.joined()
    result = log.batch(12_500, 13_000, log.beat(13_000 + jump_ms, member_id))
    assert told(result) == [(13_000, -jump_ms, 500)]
    assert expired(result) == []
    # The next ones count by the same clock, and nothing is told of them.
    assert told(log.batch(15_500, 16_100, log.beat(16_000 + jump_ms, member_id))) == []
    assert log.group.now_ms == 16_000
    assert expired(log.batch(22_500, 23_000)) == [16_000 + SESSION_MS]
    log.replays()


def test_time_since_the_watermark_does_not_count() -> None:
    log = Log()
    first = log.joined()
    log.batch(9_500, 10_100, log.join(10_100, client="d"))
    second = next(it for it in log.group.members if it != first)
    # The batch before took 20 s. Both have sent heartbeats meanwhile, and nobody knows when.
    result = log.batch(
        10_200,
        30_000,
        *(log.beat(it * 1_000 + DAY_MS, each) for it in (13, 19, 25) for each in (first, second)),
    )
    assert expired(result) == []
    assert told(result)[0] == (30_000, 17_000 - DAY_MS, 19_800)
    log.replays()


def test_clock_that_is_right_again_is_told() -> None:
    log = Log()
    member_id = log.joined()
    log.batch(12_500, 13_000, log.beat(13_000 + DAY_MS, member_id))
    assert log.group.clocks == {0: -DAY_MS}
    assert told(log.batch(14_500, 15_000, log.beat(15_000, member_id))) == [(15_000, 0, 0)]
    assert log.group.clocks == {}
    log.replays()


def test_request_of_a_wrong_clock_may_be_late_as_well() -> None:
    log = Log()
    member_id = log.joined()
    log.batch(12_500, 13_000, log.beat(13_000 + DAY_MS, member_id))
    log.batch(20_000, 20_500)
    # It expired at 19 s, and this was sent before.
    result = log.batch(20_000, 20_600, log.beat(18_800, member_id))
    assert told(result) == [(19_000, 0, 0)]
    assert [it.at_ms for it in result.events if isinstance(it, RequestLate)] == [19_000]
    log.replays()


def test_time_never_goes_back() -> None:
    log = Log()
    member_id = log.joined()
    log.batch(10_500, 14_000, log.beat(15_900, member_id))
    result = log.batch(10_500, 14_100, log.beat(14_000 + DAY_MS, member_id))
    assert told(result) == [(15_900, 100 - DAY_MS, 0)]
    log.replays()


# -- groups that are not known -----------------------------------------------------------------------


def test_group_that_is_created_keeps_the_clock() -> None:
    log = Log()
    result = log.batch(9_500, 10_000, log.join(10_000 + DAY_MS))
    assert told(result) == [(10_000, -DAY_MS, 500)]
    assert (log.group.now_ms, log.group.clocks) == (10_000, {0: -DAY_MS})
    log.replays()


def test_of_a_group_that_is_not_created_nothing_is_kept() -> None:
    log = Log()
    beats = [log.beat(at_ms + DAY_MS, "nobody") for at_ms in (9_900, 9_950)]
    result = log.batch(9_500, 10_000, *beats, log.join(10_000))
    assert told(result) == [(10_000, 100 - DAY_MS, 500), (10_000, 50 - DAY_MS, 500)]
    assert log.group.clocks == {}
    log.replays()


def test_group_that_is_made_again_has_the_same_clock() -> None:
    log = Log()
    log.batch(9_500, 10_000, log.join(10_000 + DAY_MS))
    log.batch(16_500, 17_000)
    delete = log.record(17_500 + DAY_MS, api="delete_group")
    log.batch(16_500, 17_600, delete)
    assert told(log.batch(16_900, 18_100, log.join(18_000 + DAY_MS))) == []
    assert log.group.clocks == {0: -DAY_MS}
    log.replays()


def test_correction_is_told_though_its_time_ends_the_group() -> None:
    log = Log()
    log.batch(0, 10_000, log.join(10_000))
    # The member expires, the group is deleted, and forgotten.
    late_ms = 10_000 + SESSION_MS + 2 * CONFIG.offsets_retention_check_interval_ms + 60_000
    result = log.batch(late_ms, late_ms + 500, log.beat(10_100, "nobody"))
    assert log.state is None
    assert told(result) == [(late_ms + 500, late_ms - 9_600, 500)]
    log.replays()


# -- requests that came before something -------------------------------------------------------------


def test_request_that_seems_later_than_it_can_be_counts_as_of_then() -> None:
    log = Log()
    member_id = log.joined()
    result = log.batch(10_500, 20_000, log.beat(12_400, member_id), until_ms=12_000)
    assert [(it.at_ms, it.appended_ms) for it in result.events if isinstance(it, RequestLate)] == [
        (12_000, 12_400)
    ]
    assert log.group.clocks == {}
    log.replays()


def test_wrong_clock_counts_as_of_then_as_well() -> None:
    log = Log()
    member_id = log.joined()
    result = log.batch(10_500, 20_000, log.beat(12_400 + DAY_MS, member_id), until_ms=12_000)
    assert told(result) == [(12_000, -400 - DAY_MS, 1_500)]
    log.replays()


def test_outage_after_the_batch_makes_no_difference_to_it() -> None:
    log = Log()
    member_id = log.joined()
    state, beat = log.state, log.beat(13_000 + DAY_MS, member_id)
    result = log.batch(12_500, 13_000, beat)
    outages = Outages([Outage(13_000 + LEEWAY.later_ms, 60_000)])
    span = Span.of(13_000, 12_500, LEEWAY)
    assert step(KEY, state, [beat], 12_500, CONFIG, SECRET, outages, span=span) == result


# -- a group in several partitions -------------------------------------------------------------------


def test_clock_of_one_partition_is_not_that_of_another() -> None:
    log = Log()
    member_id = log.joined()
    log.batch(12_500, 13_000, log.beat(13_000 + DAY_MS, member_id))
    assert told(log.batch(13_500, 14_000, log.beat(14_000, member_id, partition=1))) == []
    assert log.group.clocks == {0: -DAY_MS}


def test_replay_of_a_group_in_several_partitions_goes_by_the_clock_that_it_knows() -> None:
    log = Log()
    member_id = log.joined()
    log.batch(12_500, 13_000, log.beat(13_000 + DAY_MS, member_id))
    beats = [log.beat(it + DAY_MS, member_id) for it in (14_000, 16_000)]
    other = log.beat(15_000, member_id, partition=1)
    records = [*beats, other]
    replayed = step(KEY, log.state, records, 0, CONFIG, SECRET)
    assert [it.response.request_id for it in replayed.replies] == ["r0-3", "r1-0", "r0-4"]


def test_one_that_cannot_be_right_comes_before_those_of_other_partitions() -> None:
    log = Log()
    first = log.joined()
    log.batch(9_500, 10_100, log.join(10_100, client="d"))
    second = next(it for it in log.group.members if it != first)
    beats = [log.beat(it * 1_000, first, partition=1) for it in (12, 15, 18)]
    wrong = [log.beat(it * 1_000 + DAY_MS, second) for it in (11, 14, 17)]
    # By their times they would come last, and `second` would have expired by then.
    assert expired(log.batch(10_200, 20_000, *beats, *wrong)) == []
    # By the clock that is known they have their places.
    beats = [log.beat(it * 1_000, first, partition=1) for it in (21, 24, 27)]
    wrong = [log.beat(it * 1_000 + DAY_MS, second) for it in (20, 23, 26)]
    result = log.batch(20_200, 29_000, *beats, *wrong)
    assert (expired(result), told(result)) == ([], [])
