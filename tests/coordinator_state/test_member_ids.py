"""Member ids."""

from __future__ import annotations

import re

import pytest

from group_coordinator.coordinator_state.log import Record
from group_coordinator.coordinator_state.member_ids import member_id_of


def place(topic: str = "requests", partition: int = 3, offset: int = 17, timestamp_ms: int = 5_000) -> Record:
    return Record(topic, partition, offset, timestamp_ms, b"orders", b"{}")


ID = member_id_of(b"secret", place(), "c1")


def test_shape_is_that_of_kafkas():
    assert re.fullmatch(r"c1-[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", ID)


def test_same_place_same_id_in_every_process():
    # Written out: an id must not depend on the process, its hash seed or its platform.
    assert ID == "c1-1cd66aad-7abf-1e8a-32e1-def61607dc4c"


@pytest.mark.parametrize(
    "other",
    [
        place(topic="request"),
        place(partition=4),
        place(offset=18),
        place(timestamp_ms=5_001),
        # Run together without a separator these would be the same place.
        place(partition=31, offset=7),
        place(topic="requests3", partition=1),
    ],
)
def test_other_place_other_id(other):
    assert member_id_of(b"secret", other, "c1") != ID


def test_other_secret_other_id():
    assert member_id_of(b"other", place(), "c1") != ID


def test_client_id_is_only_a_prefix():
    assert member_id_of(b"secret", place(), "") == ID.removeprefix("c1")
