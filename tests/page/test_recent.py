"""The rebalances of the last day, as they are counted live."""

from __future__ import annotations

from typing import Any

import msgspec

from group_coordinator.page.memory import Memory
from group_coordinator.page.recent import Move, Rebalances, Recent
from tests.history.scripts import a_day, a_night, bodies

MINUTE, HOUR = 60_000, 3_600_000


def counted(records: list[bytes], begin_ms: int = 0, since_ms: int = 0, until_ms: int = 60_000) -> Recent:
    memory = Memory(begin_ms=begin_ms)
    for offset, record in enumerate(records):
        memory.take_event(offset, record)
    return memory.recent({"orders": None}, since_ms, until_ms)["orders"]


def move(at_ms: int, group_id: str = "g", **fields: Any) -> Move:
    told = {"event_id": f"{group_id}@{at_ms}", "to": "Stable", "cause": "member_left", "rebalance_ms": 500}
    return msgspec.convert(told | {"group_id": group_id, "at_ms": at_ms} | fields, Move)


def test_it_is_what_the_history_says() -> None:
    assert counted(bodies(a_day())) == Recent(3, 2_000, "member_left")
    # The last one has begun, and has not ended.
    assert counted(bodies(a_night())) == Recent(4, 6_300, "member_left")


def test_events_that_come_again_after_a_crash_count_once() -> None:
    night = bodies(a_night())
    for cut in range(len(night)):
        assert counted([*night[: cut + 1], *night[cut // 2 :]]) == Recent(4, 6_300, "member_left")


def test_a_rebalance_that_began_before_is_counted_from_there_on() -> None:
    # The history has the part before. One lasts from 10 s to 12.1 s, and one from 15 s to 18.1 s.
    late = [each for each in bodies(a_night()) if msgspec.json.decode(each)["at_ms"] >= 12_000]
    assert counted(late, begin_ms=12_000) == Recent(2, 100 + 3_100, "member_left")


def test_one_that_lasts_counts_until_now() -> None:
    rebalances = Rebalances(0)
    assert rebalances.of("g", 0, 9_000, 4_000) == Recent(0, 5_000)
    rebalances.take(move(2_000, to="PreparingRebalance", cause="session_expired"))
    rebalances.take(move(4_000, to="CompletingRebalance", cause=None))
    # The picture is of its second half.
    assert rebalances.of("g", 0, 9_000, 4_000) == Recent(0, 7_000, "session_expired")
    assert rebalances.of("g", 3_000, 9_000, 4_000) == Recent(0, 6_000, "session_expired")
    rebalances.take(move(10_000, cause="session_expired", rebalance_ms=8_000))
    assert rebalances.of("g", 0, 11_000, None) == Recent(1, 8_000, "session_expired")


def test_a_length_that_is_not_known_is_not_0() -> None:
    rebalances = Rebalances(0)
    rebalances.take(move(1_000))
    rebalances.take(move(2_000, rebalance_ms=None, cause="unknown"))
    assert rebalances.of("g", 0, 3_000, None) == Recent(2, None, "unknown")
    assert rebalances.of("g", 0, 3_000, 2_500) == Recent(2, None, "unknown")
    assert Recent(1, 3, None).after(Recent(2, None, "unknown")) == Recent(3, None, "unknown")


def test_what_is_older_does_not_count_and_causes_are_told_apart() -> None:
    rebalances = Rebalances(0)
    rebalances.take(move(HOUR, cause="session_expired"))
    rebalances.take(move(3 * HOUR))
    rebalances.take(move(3 * HOUR, "other"))
    assert rebalances.of("g", 0, 4 * HOUR, None) == Recent(2, 1_000, "member_left")
    assert rebalances.of("g", 2 * HOUR, 4 * HOUR, None) == Recent(1, 500, "member_left")
    assert rebalances.of("g", 4 * HOUR, 5 * HOUR, None) == Recent(0, 0)
    assert rebalances.caused_by("session_expired", 0) == {"g"}
    assert rebalances.caused_by("session_expired", 2 * HOUR) == set()
    assert rebalances.caused_by("member_left", 0) == {"g", "other"}


def test_one_that_lasts_is_found_by_its_cause() -> None:
    rebalances = Rebalances(0)
    rebalances.take(move(HOUR, to="PreparingRebalance", cause="session_expired"))
    assert rebalances.caused_by("session_expired", 0) == {"g"}
    assert rebalances.caused_by("session_expired", 2 * HOUR) == {"g"}
    rebalances.take(move(HOUR + 1, cause="session_expired"))
    assert rebalances.caused_by("session_expired", 2 * HOUR) == set()


def test_there_is_room_for_so_many_and_it_is_known_since_when_they_are_complete() -> None:
    rebalances = Rebalances(10 * MINUTE, most=100)
    for number in range(60):
        rebalances.take(move(number * 10 * MINUTE, "a"))
        rebalances.take(move(number * 10 * MINUTE, f"b{number}"))
        assert rebalances._size <= 100
    begin_ms = rebalances.begin_ms
    assert 10 * MINUTE < begin_ms < 600 * MINUTE
    kept = 60 - begin_ms // (10 * MINUTE)
    assert rebalances.of("a", begin_ms, 600 * MINUTE, None) == Recent(kept, kept * 500, "member_left")
    assert set(rebalances._groups) == {"a", *(f"b{number}" for number in range(60 - kept, 60))}


def test_a_move_that_is_none_is_passed_over() -> None:
    records = [
        b'{"event_id":"a","event":"state_changed","group_id":"orders","at_ms":1}',
        b'{"event_id":"b","event":"state_changed","group_id":"orders","at_ms":1,"to":"Stable","cause":"luck"}',
        b'{"event_id":"c","event":"state_changed","group_id":"orders","at_ms":-1,"to":"","cause":"unknown"}',
    ]
    assert counted(records) == Recent()
