"""Frames that real clients and a broker have sent, which `python -m tests.gateway.record` keeps."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import io
import random
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pytest
from kafka.protocol.schemas.fields import ArrayField, SimpleField, StructArrayField, StructField
from kio.serial import entity_reader, entity_writer

from group_coordinator.coordinator_state import requests as contract
from group_coordinator.coordinator_state.errors import Errors
from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS, Way
from group_coordinator.gateway.errors import FrameError
from group_coordinator.gateway.translation import Sender, refusal, to_contract, to_kafka
from tests.gateway.messages import kind_of, kios
from tests.gateway.tap import Exchange, read_exchanges

EXCHANGES = read_exchanges()
every = pytest.mark.parametrize("exchange", EXCHANGES, ids=[each.name for each in EXCHANGES])
OF_THE_STREAM = [each for each in EXCHANGES if APIS[each.api_key].way is Way.STREAM]
MUTATED = 100


def decode(exchange: Exchange, which: int, frame: bytes) -> Any:
    if which == 0:
        return codec.decode_request(frame).message
    return codec.decode_response(exchange.api_key, exchange.version, frame)


def written(exchange: Exchange, which: int) -> bytes:
    """What is read of a frame, written again."""
    if which == 0:
        request = codec.decode_request(exchange.request)
        return codec.encode_request(request.message, request.head.correlation_id, request.client_id)
    correlation_id = int.from_bytes(exchange.response[4:8], signed=True)
    return codec.encode_response(decode(exchange, 1, exchange.response), correlation_id)


def leaves(schema: StructField, version: int, message: Any) -> Iterator[object]:
    """The values of a message of kafka-python's, in the order of the schema."""
    for field in (*schema.untagged_fields(version), *schema.tagged_fields(version)._fields):
        value = getattr(message, field.name)
        match field:
            case StructArrayField() if value is not None:
                for each in value:
                    yield from leaves(field.array_of, version, each)
            case ArrayField() if value is not None:
                yield from value
            case StructField():
                yield from leaves(field, version, value or field.data_class(version=version))
            case SimpleField(type_str="bitfield") if value is None:
                yield -(2**31)
            case SimpleField(type_str="int64") if field.name.endswith("_ms") and value == -1:
                yield None  # kio has a time there, or none
            case _:
                yield plain(value)


def kios_leaves(value: Any) -> Iterator[object]:
    """The same of a message of kio's."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from kios_leaves(getattr(value, field.name))
    elif isinstance(value, tuple):
        for each in value:
            yield from kios_leaves(each)
    else:
        yield plain(value)


def plain(value: object) -> object:
    match value:
        case dt.timedelta():
            return round(value.total_seconds() * 1000)
        case enum.Enum():
            return value.value
        case uuid.UUID(int=0):
            return None
        case set():
            return sum(1 << each for each in value)
        case _:
            return value


def test_every_api_that_is_answered_here_was_recorded() -> None:
    found = defaultdict(set)
    for each in EXCHANGES:
        found[each.api_key].add(each.client)
    ours = {key for key, api in APIS.items() if api.way in (Way.STREAM, Way.GATEWAY)}
    assert ours <= found.keys()
    for key in (3, 8, 9, 10, 11, 12, 13, 14, 18):
        assert found[key] >= {"java", "kafka-python", "librdkafka", "franz-go", "sarama", "kafkajs"}, key


@every
@pytest.mark.parametrize("which", [0, 1])
def test_both_libraries_read_and_write_it_alike(exchange: Exchange, which: int) -> None:
    frame = exchange[3 + which]
    assert written(exchange, which) == frame
    message = decode(exchange, which, frame)
    kind = kios(exchange.api_key, which, exchange.version)
    if kind is None:
        return
    body = bytes(message.encode(header=False))
    entity, size = entity_reader(kind)(body, 0)
    again = io.BytesIO()
    entity_writer(kind)(again, entity)
    assert (size, again.getvalue()) == (len(body), body)
    schema = kind_of(exchange.api_key, which)._struct
    assert list(leaves(schema, exchange.version, message)) == list(kios_leaves(entity))


requests = msgspec.json.Decoder(contract.AnyRequest)


@pytest.mark.parametrize("exchange", OF_THE_STREAM, ids=[each.name for each in OF_THE_STREAM])
def test_it_becomes_the_contracts_and_an_answer(exchange: Exchange) -> None:
    numbers = count()
    request = codec.decode_request(exchange.request)
    sender = Sender(request.client_id or "", "/10.0.0.7", 3, lambda: f"g-{next(numbers)}")
    asked = to_contract(request, sender)
    assert asked
    assert [requests.decode(msgspec.json.encode(each)) for each in asked] == asked
    refused = to_kafka(request, [refusal(each, Errors.COORDINATOR_NOT_AVAILABLE) for each in asked])
    assert decode(exchange, 1, codec.encode_response(refused, 7))


@every
@pytest.mark.parametrize("which", [0, 1])
def test_cut_and_changed_it_is_refused_and_nothing_else(exchange: Exchange, which: int) -> None:
    frame = exchange[3 + which]
    for end in range(12 if which == 0 else 8, len(frame)):
        with pytest.raises(FrameError):
            decode(exchange, which, frame[:end])
    dice = random.Random(len(frame))
    for _ in range(MUTATED):
        lying = bytearray(frame)
        place = dice.randrange(8 if which else 12, len(frame))
        lying[place] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        with suppress(FrameError):
            decode(exchange, which, bytes(lying))
