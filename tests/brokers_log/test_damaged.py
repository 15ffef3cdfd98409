"""Records with damaged bytes: whatever a record says, what follows of it can be stored and written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from group_coordinator.brokers_log.state import decode_group, encode_group
from group_coordinator.coordinator_state.log import Record
from group_coordinator.gateway.wire import varint_of
from tests.brokers_log.test_consumer_step import story as of_consumers
from tests.brokers_log.test_step import story as of_classic
from tests.brokers_log.watching import Watching
from tests.depth import cases

STORIES = {"classic": of_classic(), "consumer": of_consumers()}

LENGTHS = [varint_of(length + 1) + length * it for length in (9, 20_000, 40_000) for it in (b"t", b"\xff")]
"""Texts and tags with compact lengths, which are longer than they may be."""


def damaged(record: Record, at: int, lost: int, found: bytes) -> Record:
    """The record with other bytes in the place of those that are lost. A tombstone stays one."""
    value = record.value
    return record if value is None else record._replace(value=value[:at] + found + value[at + lost :])


def check(watching: Watching, records: list[Record]) -> None:
    """All that follows can be stored and written."""
    watching.read(records)
    if watching.state is not None:
        assert encode_group(decode_group(watching.state)) == watching.state


@pytest.mark.drawn
@pytest.mark.parametrize("records", STORIES.values(), ids=STORIES)
def test_a_length_that_nobody_writes(records: list[Record]) -> None:
    """It stands at each place of each record."""
    before = Watching()
    for number, record in enumerate(records):
        for at in range(len(record.value or b"")):
            for found in LENGTHS:
                watching = Watching()
                watching.state = before.state
                check(watching, [damaged(record, at, 2, found), *records[number + 1 : number + 2]])
        before.read([record])


DAMAGE = st.tuples(st.integers(0, 1_000), st.integers(0, 200), st.integers(0, 9), st.binary(max_size=9))
"""A record, a place in its value, how many bytes are lost there, and the bytes in their place."""


@pytest.mark.drawn
@pytest.mark.parametrize("records", STORIES.values(), ids=STORIES)
@settings(max_examples=cases(200, deep=5_000))
@given(damage=st.lists(DAMAGE, min_size=1, max_size=5))
def test_any_damage(records: list[Record], damage: list[tuple[int, int, int, bytes]]) -> None:
    read = list(records)
    for number, at, lost, found in damage:
        place = number % len(read)
        read[place] = damaged(read[place], at, lost, found)
    check(Watching(), read)
