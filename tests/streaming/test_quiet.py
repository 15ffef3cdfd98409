"""Quietness."""

from __future__ import annotations

from group_coordinator.streaming.polling import Pause
from group_coordinator.streaming.quiet import Quietness


def test_the_longer_nothing_comes_the_less_often_kafka_is_asked() -> None:
    quietness = Quietness(0)
    looks = [
        (0.0, Pause.SHORT),
        (5.0, Pause.SHORT),
        (5.1, Pause.LONG),
        (60.0, Pause.LONG),
        (60.1, Pause.LONGEST),
    ]
    assert [(now_s, quietness.look(0, 0, now_s)) for now_s, _ in looks] == looks


def test_requests_that_others_follow_are_read_as_soon_as_they_come() -> None:
    quietness = Quietness(0)
    assert quietness.look(1, 1, 100) is Pause.NONE
    # They have come, and none since.
    assert quietness.look(1, 1, 101) is Pause.SHORT
    # Heartbeats in step.
    assert quietness.look(2, 1, 200) is Pause.SHORT


def test_it_is_over_with_the_next_request() -> None:
    quietness = Quietness(0)
    assert not quietness.is_there(5)
    assert quietness.is_there(6)
    quietness.look(1, 0, 7)
    assert not quietness.is_there(12)
    assert quietness.is_there(12.1)
