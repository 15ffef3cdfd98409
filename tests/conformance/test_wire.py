from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.conformance.classic.client import ClassicClient


class SlowForOneGroup(ClassicClient):
    """A client of a broker that has to wait for the lock of the group `slow`."""

    async def _told(self, group_id: str, api: str, version: int, **fields: Any) -> dict[str, Any]:
        if group_id == "slow":
            await asyncio.sleep(0.03)
        return {"topics": []}


def held_up_ms_after_a_look(group_id: str) -> int:
    client = SlowForOneGroup("localhost:9092")
    started_ms = client.clock.now_ms()
    asyncio.run(client.look(group_id))
    return client.held_up_ms(started_ms)


def test_a_broker_that_is_slow_for_one_group_counts_as_held_up() -> None:
    assert held_up_ms_after_a_look("slow") >= 30


def test_a_broker_that_answers_at_once_does_not() -> None:
    assert held_up_ms_after_a_look("quick") == 0


def test_a_process_that_stands_still_counts_as_held_up_also_while_nothing_is_asked() -> None:
    client = SlowForOneGroup("localhost:9092")
    started_ms = client.clock.now_ms()

    async def stand_still() -> None:
        watcher = asyncio.create_task(client.watch())
        await asyncio.sleep(0.001)  # the watcher is in its pause
        asyncio.get_running_loop().call_soon(time.sleep, 0.05)
        await asyncio.sleep(0.02)
        watcher.cancel()

    asyncio.run(stand_still())
    assert client.held_up_ms(started_ms) >= 30
