"""Frames that are cut, changed or lie: their own connection is closed, and nobody else notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.protocol.consumer.group import HeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from group_coordinator.gateway import codec
from group_coordinator.gateway.apis import APIS, Way
from tests.commands.job import Process
from tests.depth import cases
from tests.gateway.conftest import Running
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.drawn, pytest.mark.timeout(3_600)]

FRAMES = cases(2_000, deep=100_000)
AT_A_TIME = 20
GROWTH = 32 * 1024 * 1024
"""Bytes of memory that a gateway may need more at any time of the attack."""
BOMB = 3 * GROWTH
"""Bytes of a record that is compressed to a thousandth of it."""
_LYING = [-1, 0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, -(2**31)]

_PARTITION = OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition
_TOPIC = OffsetCommitRequest.OffsetCommitRequestTopic
WELL_FORMED = [
    codec.encode_request(message, 7, "hostile")
    for message in (
        ApiVersionsRequest(version=3),
        MetadataRequest(version=12),
        ProduceRequest(version=9, acks=1, timeout_ms=1),
        HeartbeatRequest(version=4, group_id="", generation_id=1, member_id="m"),
        SaslHandshakeRequest(version=1, mechanism="PLAIN"),
        SaslAuthenticateRequest(version=2, auth_bytes=b"\0alice\0secret"),
        *(
            JoinGroupRequest(
                version=version,
                group_id="",
                session_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"x" * 9)] * 3,
            )
            for version in (1, 9)
        ),
        OffsetCommitRequest(
            version=8,
            group_id="",
            topics=[_TOPIC(name="t", partitions=[_PARTITION(partition_index=0, committed_offset=1)])],
        ),
    )
]


def hostile(dice: random.Random) -> Iterator[bytes]:
    """Draw frames without an end. The group id is empty: what is well-formed by chance does nothing."""
    offered = [key for key, api in APIS.items() if api.way is not Way.HIDDEN]
    while True:
        frame = bytearray(dice.choice(WELL_FORMED))
        match dice.randrange(6):
            case 0:  # cut, with a length that knows it
                del frame[dice.randrange(5, len(frame)) :]
                frame[:4] = (len(frame) - 4).to_bytes(4)
            case 1:  # a few bytes changed
                for _ in range(dice.randrange(1, 4)):
                    frame[dice.randrange(12, len(frame))] = dice.randrange(256)
            case 2:  # a length or a number of elements that lies
                place, size = dice.randrange(12, len(frame) - 4), dice.choice((1, 2, 4))
                lie = dice.choice(_LYING) % 2 ** (8 * size)
                frame[place : place + size] = lie.to_bytes(size)
            case 3:  # the length of the frame itself
                frame[:4] = dice.choice((-1, 0, 7, 2**31 - 1, 2**30, 1_000_001, -(2**31))).to_bytes(
                    4, signed=True
                )
            case 4:  # an API or version that is not there
                frame[4:6] = dice.choice((*offered, 68, 28, 99, -1)).to_bytes(2, signed=True)
                frame[6:8] = dice.choice((-1, 50, 32_767)).to_bytes(2, signed=True)
            case _:  # arrays in arrays that each promise as much as there is room
                depth = 2 ** dice.randrange(18)
                frame[12:] = (
                    b"\x00\x01g"
                    + dice.choice((b"\xff\xff\xff\xff\x0f", b"\x7f", b"\x00\x00\x7f\xff")) * depth
                )
                frame[:4] = (len(frame) - 4).to_bytes(4)
        yield bytes(frame)


async def attack(address: str, frames: int) -> int:
    """Send as many frames, each on a connection of its own; return how many of them were closed for it."""
    host, _, port = address.rpartition(":")
    source, closed = hostile(random.Random(28)), 0
    left = iter(range(frames))

    async def work() -> None:
        nonlocal closed
        for _ in left:
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(next(source))
                with suppress(OSError):
                    # It may be closed already, for what was written just now.
                    writer.write_eof()
                async with asyncio.timeout(PATIENCE_S):
                    answer = await reader.read()
                closed += answer == b""
            except ConnectionError:
                closed += 1
            finally:
                writer.close()

    attacking = asyncio.gather(*(work() for _ in range(AT_A_TIME)))
    reader, writer = await asyncio.open_connection(host, int(port))
    with closing(writer):
        while not attacking.done():  # somebody else, who is answered all the time
            writer.write(codec.encode_request(ApiVersionsRequest(version=0), 7, "beside"))
            async with asyncio.timeout(PATIENCE_S):
                length = int.from_bytes(await reader.readexactly(4))
                assert (await reader.readexactly(length)).startswith((7).to_bytes(4))
            await asyncio.wait([attacking], timeout=0.1)
    await attacking
    return closed


def most_memory(process: Process) -> int:
    """The most bytes of memory that a process has ever had."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_hostile_frames_close_their_own_connections_alone(running: Running) -> None:
    def counted() -> int:
        return int(running.process.metrics()["group_coordinator_gateway_frame_errors_total",])

    def at_rest() -> bool:
        """Return whether the gateway has noticed every close."""
        return not running.process.metrics()["group_coordinator_gateway_connections",]

    asyncio.run(attack(running.gateway, AT_A_TIME * 10))  # until all that it needs is there
    wait_for(at_rest)
    memory, errors = most_memory(running.process), counted()
    closed = asyncio.run(attack(running.gateway, FRAMES))
    wait_for(at_rest)
    growth = most_memory(running.process) - memory
    print(f"{counted() - errors} of {FRAMES} were frame errors; {growth / 2**20:.1f} MiB more at most")
    assert closed > FRAMES / 2
    assert FRAMES / 2 < counted() - errors <= closed, "counted"
    assert growth < GROWTH


def test_a_compressed_bomb_passes_as_it_is(running: Running) -> None:
    memory = most_memory(running.process)
    at = {"bootstrap_servers": running.gateway}
    with closing(KafkaAdminClient(**at)) as admin:
        admin.create_topics([NewTopic("bombs", num_partitions=1, replication_factor=1)])
    with closing(KafkaProducer(**at, compression_type="gzip", max_request_size=2 * BOMB)) as producer:
        producer.send("bombs", bytes(BOMB)).get(PATIENCE_S)
    with closing(KafkaConsumer("bombs", **at, auto_offset_reset="earliest")) as consumer:
        ((record,),) = wait_for(lambda: consumer.poll(timeout_ms=100)).values()
    assert len(record.value) == BOMB
    assert most_memory(running.process) - memory < GROWTH
