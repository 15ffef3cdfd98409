"""Heartbeats that come again."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.group import HeartbeatRequest

from group_coordinator.gateway import codec
from group_coordinator.gateway.repeated import RepeatedBeat


def frame(correlation_id: int, version: int = 4, name: str | None = "c", **fields: object) -> bytes:
    message = HeartbeatRequest(
        version=version, **{"group_id": "g", "generation_id": 1, "member_id": "m"} | fields
    )
    return codec.encode_request(message, correlation_id, name)


def beat(correlation_id: int = 1, version: int = 4) -> RepeatedBeat:
    sent = frame(correlation_id, version)
    return RepeatedBeat.of(codec.decode_request(sent), sent)


@pytest.mark.parametrize("version", range(5))
def test_it_is_known_whatever_its_correlation_id_is(version: int) -> None:
    known = beat(version=version)
    assert (known.version, known.size) == (version, len(frame(1, version)))
    for correlation_id in (1, 2, 2**31 - 1, -1):
        found = known.correlation_id_in(frame(correlation_id, version))
        assert found == correlation_id.to_bytes(4, signed=True)


@pytest.mark.parametrize(
    "other",
    [
        frame(2, version=3),
        frame(2, name=None),
        frame(2, name="d"),
        frame(2, group_id="h"),
        frame(2, generation_id=2),
        frame(2, member_id="n"),
        frame(2, group_instance_id="i"),
        frame(2)[:-1],
        frame(2) + b"\0",
        frame(2) + frame(3),
        b"\0" + frame(2)[1:-1],
        b"",
    ],
)
def test_anything_else_is_not(other: bytes) -> None:
    assert beat().correlation_id_in(other) is None
