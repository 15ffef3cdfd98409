"""As many clients as the machine lets a test have, as much as the limits let them keep, and the memory."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic
from kafka.protocol.consumer import FetchRequest, JoinGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest

from group_coordinator.gateway import codec
from tests.commands.job import Process, set_all
from tests.gateway.conftest import Running, start_gateway
from tests.gateway.files import many_files
from tests.gateway.test_listeners import PASSWORD, of_client
from tests.patience import PATIENCE_S, eventually, wait_for
from tests.security.certificates import make_client_key

WITHOUT_UVLOOP = (sys.executable, "-m", "tests.gateway.without_uvloop")
MOST_BYTES = 60_000
"""Of an idle connection with its connection to the broker: both have been used."""


async def connect(
    address: str, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.split(":")
    return await asyncio.open_connection(host, int(port), ssl=tls)


async def ask(address: str, tls: ssl.SSLContext | None = None) -> asyncio.StreamWriter:
    reader, writer = await connect(address, tls)
    writer.write(codec.encode_request(ApiVersionsRequest(version=0), 1, "c"))
    length = int.from_bytes(await reader.readexactly(4))
    assert (await reader.readexactly(length))[:4] == (1).to_bytes(4)
    return writer


def make_topics(broker: str, *names: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=broker)) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in names])


@contextmanager
def alone(
    directory: Path, broker: str, settings: Mapping[str, str], within: Sequence[str] = ()
) -> Iterator[Process]:
    """A gateway before topics of its own, at which no coordinator answers."""
    names = {name: f"{directory.name}.{name}" for name in ("requests", "responses", "groups")}
    make_topics(broker, *names.values())
    gateway = start_gateway(directory, broker, names, *set_all(settings), within=within)
    try:
        yield gateway
    finally:
        gateway.kill()


def bytes_of_each(gateway: Process, address: str, count: int, tls: ssl.SSLContext | None = None) -> float:
    """Connect so many clients, which ask once and then hang up; returns what each idle one takes."""
    memory = psutil.Process(gateway.pid).memory_info

    async def story() -> int:
        async with asyncio.timeout(PATIENCE_S):
            # What is made once is made by the first ones.
            there = [await ask(address, tls) for _ in range(100)]
            before = memory().rss
            there += [await ask(address, tls) for _ in range(count)]
            after = memory().rss
        assert gateway.metrics()["group_coordinator_gateway_connections",] == len(there)
        await hang_up(there)
        return after - before

    each = asyncio.run(story()) / count
    print(f"{count} idle connections take {each:,.0f} bytes each")
    return each


@pytest.mark.verify
@pytest.mark.spark
def test_an_idle_connection_takes_little_memory_and_all_of_it_is_given_back(running: Running) -> None:
    with many_files() as most:
        count = min(9_500, most // 2 - 500)
        assert bytes_of_each(running.process, running.gateway, count) <= MOST_BYTES
    wait_for(lambda: running.process.metrics()["group_coordinator_gateway_connections",] == 0)
    wait_for(lambda: psutil.Process(running.process.pid).num_fds() < count)


@pytest.mark.verify
@pytest.mark.spark
@pytest.mark.parametrize("within", [(), WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_an_idle_connection_with_tls_takes_little_memory(
    within: Sequence[str], bootstrap_servers: str, tmp_path: Path
) -> None:
    settings = {
        "gateway.tls.certificate": str(make_client_key(tmp_path, PASSWORD)),
        "gateway.tls.key.password": PASSWORD,
    }
    with alone(tmp_path, bootstrap_servers, settings, within) as gateway, many_files():
        address = gateway.wait_for("clients find the gateway at ")
        assert bytes_of_each(gateway, address, 2_000, of_client()) <= MOST_BYTES
        gateway.terminate()
        assert gateway.exit_code() == 0, gateway.said


async def hang_up(there: list[asyncio.StreamWriter]) -> None:
    for each in there:
        each.close()
    # Some were closed by the gateway before.
    await asyncio.gather(*(each.wait_closed() for each in there), return_exceptions=True)


MOST = {
    "gateway.max.connections": 400,
    "gateway.max.unfinished.bytes": 5_000_000,
    "gateway.max.unread.bytes": 10_000_000,
    "gateway.max.waiting.bytes": 10_000_000,
}
"""So small that a test reaches all of them."""
RECORDS = "limits.records"
LARGE = 700_000
"""Of a request, whose record is a third longer and may have 1 MB."""


def large_join(number: int) -> bytes:
    message = JoinGroupRequest(
        version=0,
        group_id=f"g{number}",
        # It waits for an answer until the test is over.
        session_timeout_ms=1_800_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(LARGE))],
    )
    return codec.encode_request(message, number, "c")


def fetch(topic: str) -> bytes:
    partition = FetchRequest.FetchTopic.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=50_000_000
    )
    message = FetchRequest(
        version=4,
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50_000_000,
        isolation_level=0,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    return codec.encode_request(message, 1, "c")


@pytest.fixture
def small(tmp_path: Path, bootstrap_servers: str) -> Iterator[Process]:
    """A gateway with limits that are soon reached, and large records in a topic."""
    make_topics(bootstrap_servers, RECORDS)
    with closing(KafkaProducer(bootstrap_servers=bootstrap_servers)) as producer:
        for _ in range(20):
            producer.send(RECORDS, bytes(LARGE))
    with alone(tmp_path, bootstrap_servers, {name: str(most) for name, most in MOST.items()}) as process:
        yield process


async def join_until_held(gateway: Process, address: str, there: list[asyncio.StreamWriter]) -> None:
    """Let large joins wait until the gateway reads somebody no more."""
    for joins in itertools.count(1):
        if is_holding(gateway):
            return
        there.append((await connect(address))[1])
        there[-1].write(large_join(joins))
        # All at once they may be unfinished together, and the gateway would close most of them.
        await eventually(lambda waiting=joins: is_holding(gateway) or waits(gateway) == waiting)


def is_holding(gateway: Process) -> bool:
    return any("connections are not read" in each for each in gateway.said)


def waits(gateway: Process) -> float:
    return gateway.metrics()["group_coordinator_gateway_waiting", "JoinGroup"]


@pytest.mark.verify
@pytest.mark.spark
def test_all_limits_at_their_ends_take_the_memory_that_they_name(small: Process) -> None:
    address = small.wait_for("clients find the gateway at ")
    memory = psutil.Process(small.pid).memory_info

    def closed(reason: str) -> float:
        return small.metrics()["group_coordinator_gateway_connections_closed_total", reason]

    async def fill(there: list[asyncio.StreamWriter]) -> tuple[int, int]:
        there += [await ask(address) for _ in range(100)]
        before = memory().rss
        there += [await ask(address) for _ in range(200)]
        for number in range(10):
            there.append((await connect(address))[1])
            there[-1].write(large_join(number)[:-1])
        await eventually(lambda: closed("unfinished requests") == 3)
        for _ in range(40):
            there.append((await connect(address))[1])
            there[-1].write(fetch(RECORDS))
        await eventually(lambda: closed("unread responses") > 0)
        await join_until_held(small, address, there)
        while len(there) < 450:
            there.append((await connect(address))[1])
        await eventually(lambda: closed("too many") > 0)
        return before, memory().rss

    async def story() -> tuple[int, int]:
        there: list[asyncio.StreamWriter] = []
        try:
            return await fill(there)
        finally:
            await hang_up(there)

    before, after = asyncio.run(story())
    allowed = (
        MOST_BYTES * MOST["gateway.max.connections"]
        + MOST["gateway.max.unfinished.bytes"]
        + MOST["gateway.max.unread.bytes"]
        + MOST["gateway.max.waiting.bytes"]
    )
    print(f"all limits at their ends take {after - before:,} bytes, of {allowed:,}")
    assert after - before <= allowed
    wait_for(lambda: small.metrics()["group_coordinator_gateway_connections",] == 0)

    async def another() -> None:
        await hang_up([await ask(address)])

    asyncio.run(another())
