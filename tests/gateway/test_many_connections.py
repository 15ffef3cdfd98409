"""As many clients as the machine lets a test have, and how much memory each of them takes."""

from __future__ import annotations

import asyncio
import resource

import psutil
import pytest
from kafka.protocol.metadata import ApiVersionsRequest

from group_coordinator.gateway import codec
from tests.gateway.conftest import Running
from tests.patience import PATIENCE_S, wait_for

MOST_BYTES = 60_000
"""Of an idle connection with its connection to the broker: both have been used."""


async def ask(address: str) -> asyncio.StreamWriter:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(codec.encode_request(ApiVersionsRequest(version=0), 1, "c"))
    length = int.from_bytes(await reader.readexactly(4))
    assert (await reader.readexactly(length))[:4] == (1).to_bytes(4)
    return writer


@pytest.mark.verify
@pytest.mark.spark
def test_an_idle_connection_takes_little_memory_and_all_of_it_is_given_back(running: Running) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(9_500, hard // 2 - 500)
    process = psutil.Process(running.process._process.pid)

    async def story() -> tuple[int, int]:
        async with asyncio.timeout(PATIENCE_S):
            # What is made once is made by the first ones.
            there = [await ask(running.gateway) for _ in range(100)]
            before = process.memory_info().rss
            there += [await ask(running.gateway) for _ in range(count)]
            after = process.memory_info().rss
        connected = running.process.metrics()["group_coordinator_gateway_connections",]
        assert connected == len(there)
        for each in there:
            each.close()
        return before, after

    try:
        before, after = asyncio.run(story())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    each = (after - before) / count
    print(f"{count} idle connections take {each:,.0f} bytes each")
    assert each <= MOST_BYTES
    wait_for(lambda: running.process.metrics()["group_coordinator_gateway_connections",] == 0)
    wait_for(lambda: process.num_fds() < count)
