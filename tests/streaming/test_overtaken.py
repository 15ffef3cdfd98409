"""Which records are written again, by what is read."""

from __future__ import annotations

from typing import NamedTuple

from group_coordinator.coordinator_state.newest import header
from group_coordinator.streaming.overtaken import Overtaken


class Record(NamedTuple):
    place: int | None
    value: bytes | None = b"v"
    key: bytes | None = b"g"
    topic: str = "groups"
    partition: int = 0

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        return [] if self.place is None else [header(self.place)]


def test_the_newest_is_written_again_when_an_older_one_has_come_after_it() -> None:
    overtaken = Overtaken()
    came_late = [overtaken.take(Record(place), is_of_batch=True) for place in (5, 7, 7, 5)]
    assert came_late == [False, False, False, True]
    ((partition, key, value, place),) = overtaken.due(0)
    assert (partition.topic, partition.partition, key, value, place) == ("groups", 0, b"g", b"v", 7)


def test_until_it_stands_there_it_is_tried_again_in_a_while() -> None:
    overtaken = Overtaken()
    for place in (7, 5):
        overtaken.take(Record(place), is_of_batch=True)
    assert [len(overtaken.due(now_s)) for now_s in (0, 1, 9, 10, 11)] == [1, 0, 0, 1, 0]
    assert not overtaken.take(Record(7), is_of_batch=False)
    assert overtaken.due(100) == []
    # The correction has met a newer record, which is now the one to be written again.
    overtaken.take(Record(8), is_of_batch=False)
    assert overtaken.take(Record(7), is_of_batch=False)
    assert [each.place for each in overtaken.due(100)] == [8]


def test_a_group_that_is_made_again_is_one_change_newer_than_its_tombstone() -> None:
    overtaken = Overtaken()
    for place, value in ((5, b"v"), (6, None), (5, b"v")):
        overtaken.take(Record(place, value), is_of_batch=True)
    assert [each.value for each in overtaken.due(0)] == [None]
    for place, value in ((7, b"again"), (6, None)):
        overtaken.take(Record(place, value), is_of_batch=False)
    assert [each.value for each in overtaken.due(0)] == [b"again"]


def test_keys_that_the_batch_has_not_written_are_passed_over() -> None:
    overtaken = Overtaken()
    for place in (7, 5):
        assert not overtaken.take(Record(place), is_of_batch=False)
    assert not overtaken.take(Record(None), is_of_batch=True)
    assert not overtaken.take(Record(5, key=None), is_of_batch=True)
    assert not overtaken.take(Record(4, topic="offsets"), is_of_batch=True)
    assert overtaken.due(0) == []


def test_it_holds_a_bounded_number_of_bytes() -> None:
    overtaken = Overtaken(most_bytes=2_000)
    for place, key in ((7, b"a"), (7, b"b"), (5, b"a"), (5, b"b")):
        overtaken.take(Record(place, bytes(700), key), is_of_batch=True)
    assert overtaken.is_full
    assert [each.key for each in overtaken.due(0)] == [b"a"]
