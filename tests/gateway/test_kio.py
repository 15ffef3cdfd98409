"""kio, a second library with Kafka's messages, reads what the gateway writes, and writes the same.

It is for tests alone: hostile frames can abort its process.
"""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage
from kio.serial import entity_reader, entity_writer

from group_coordinator.gateway import codec
from tests.depth import cases
from tests.gateway.messages import VERSIONS, drawn, kios

KNOWN = [each for each in VERSIONS if kios(*each)]


def test_kio_knows_all_versions_but_those_that_kafka_has_dropped() -> None:
    assert {key for key, _, _ in set(VERSIONS) - set(KNOWN)} <= {0, 1, 8, 9}


@pytest.mark.drawn
@pytest.mark.parametrize(("key", "which", "version"), KNOWN)
@settings(max_examples=cases(2, deep=50))
@given(data=st.data())
def test_kio_reads_and_writes_the_same_bytes(key: int, which: int, version: int, data: st.DataObject) -> None:
    message: ApiMessage = drawn(data.draw, key, which, version)
    body = bytes(message.encode(header=False))
    kind = kios(key, which, version)

    entity, size = entity_reader(kind)(body, 0)
    written = io.BytesIO()
    entity_writer(kind)(written, entity)

    assert size == len(body)
    assert written.getvalue() == body
    frame = codec.encode_response(message, 7) if which else codec.encode_request(message, 7, "c")
    assert frame.endswith(body)
