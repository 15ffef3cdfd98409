"""The time that a client waits at a gateway beside another one that sends the worst that it can.

Each attack sends well-formed requests at a megabyte a second over some connections. The innocent asks for
ApiVersions, over and over, on a connection of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic

from benchmarks.gateways import FOUND, command
from benchmarks.report import percentile, show, write
from group_coordinator.deploy.broker import EmbeddedBroker
from group_coordinator.gateway.codec import MOST_ELEMENTS
from tests.gateway.worst import WORST, request, text, varint

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE_S = 60
_RATE = 1_000_000
"""Bytes that an attack sends in a second."""
_CONNECTIONS = 10
_PAUSE_S = 0.02
_GROUPS = 1_000
_EMPTY = {"state": "Empty", "protocol_type": "consumer"}
_PARTITIONS = 3_000
_API_VERSIONS = bytes.fromhex("0000000b0012000000000001") + b"\0\1c"
_LIST_GROUPS = bytes.fromhex("0000000b0010000000000001") + b"\0\1c"
_METADATA = request(3, 9, varint(0) + b"\0\0\0\0")


def _unknown_topics(count: int) -> bytes:
    names = b"".join(text(b"%04x" % number) + b"\0" for number in range(count))
    return request(3, 9, varint(count + 1) + names + b"\0\0\0\0")


def _groups(count: int) -> bytes:
    """DescribeGroups of different groups, as many as one request may name."""
    return request(15, 5, varint(count + 1) + b"".join(text(b"%d" % each) for each in range(count)) + b"\0\0")


def attacks() -> dict[str, bytes]:
    """The frames that each attack sends again and again, by name."""
    at_most = {
        f"{name}, as many as there may be": each.of(MOST_ELEMENTS - each.others)
        for name, each in WORST.items()
    }
    beyond = {f"{name}, a megabyte": each.of(999_000 // len(each.element)) for name, each in WORST.items()}
    return {
        "nothing": b"",
        **beyond,
        **at_most,
        "DescribeGroups, 10,000 different ones": _groups(10_000),
        f"ListGroups, {_GROUPS} groups": _LIST_GROUPS,
        f"Metadata of all, {_PARTITIONS} partitions": _METADATA,
        "Metadata of 60,000 that are not there": _unknown_topics(60_000),
        "ApiVersions, as small as there is": _API_VERSIONS,
        "bytes that are no request": b"\0\0\0\x08" + bytes(8),
    }


class Plan(NamedTuple):
    """How much of what. `gateways`: interpreters of checkouts, whose gateways are measured, by name."""

    seconds: float
    gateways: dict[str, str]


def run(plan: Plan, file: Path | None) -> dict[str, dict[str, float]]:
    """Measure, print and write; return the worst answer in ms, by attack and gateway."""
    worst: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        broker = stack.enter_context(EmbeddedBroker(directory / "broker"))
        _prepare(broker.bootstrap_servers)
        for name, interpreter in plan.gateways.items():
            for attack, frame in attacks().items():
                # Each has a gateway of its own, in which nothing of the one before waits.
                with ExitStack() as of_attack:
                    address = _start(of_attack, interpreter, broker.bootstrap_servers, directory)
                    asked = asyncio.run(_measure(address, frame, plan.seconds))
                worst.setdefault(attack, {})[name] = 1000 * max(asked)
                print(f"{name}: {attack}: {1000 * max(asked):.0f} ms, p50 {1000 * percentile(asked, 50):.1f}")
    show(
        f"Worst answer of another client, in ms, beside {_RATE / 1e6:.0f} MB a second of each",
        ["", *plan.gateways],
        [[attack, *(f"{each:.0f}" for each in of.values())] for attack, of in worst.items()],
    )
    write(file, {"plan": plan._asdict(), "worst_ms": worst})
    return worst


def _prepare(servers: str) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=120_000)) as admin:
        stamped = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics(
            [
                NewTopic("coordinator.requests", 4, 1, topic_configs=stamped),
                NewTopic("coordinator.responses", 8, 1),
                NewTopic("coordinator.groups", 4, 1, topic_configs={"cleanup.policy": "compact"}),
                *(NewTopic(f"wide-{number}", _PARTITIONS // 4, 1) for number in range(4)),
            ],
            timeout_ms=100_000,
        )
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for number in range(_GROUPS):
            group = f"group-number-{number:07d}"
            picture = {"group_id": group, "members": [], "generation_id": 1, **_EMPTY}
            producer.send("coordinator.groups", key=group.encode(), value=json.dumps(picture).encode())


def _start(stack: ExitStack, interpreter: str, servers: str, directory: Path) -> str:
    words = [interpreter, *command(servers)[1:]]
    log = directory / "gateway.log"
    process = subprocess.Popen(
        words, stdout=log.open("w"), stderr=subprocess.STDOUT, cwd=Path(interpreter).parents[2]
    )
    stack.callback(process.wait)
    stack.callback(process.kill)

    def address() -> str:
        lines = [each for each in log.read_text().splitlines() if each.startswith(FOUND)]
        return lines[0].removeprefix(FOUND) if lines else ""

    _await(lambda: bool(address()) or process.poll() is not None)
    if not address():
        raise RuntimeError(f"the gateway is not up: {log.read_text()[-1000:]}")
    return address()


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)


async def _measure(address: str, frame: bytes, seconds: float) -> list[float]:
    """The times that the innocent waits for its answers, in seconds."""
    host, _, port = address.rpartition(":")
    asked: list[float] = []
    attack = None
    if frame:
        words = [sys.executable, "-m", "benchmarks.innocent", host, port, f"{seconds}"]
        attack = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE)
        assert attack.stdin is not None
        attack.stdin.write(frame)
        attack.stdin.close()
    reader, writer = await asyncio.open_connection(host, int(port))
    end_s = time.monotonic() + seconds + 1
    while time.monotonic() < end_s or (attack is not None and attack.returncode is None):
        began_s = time.monotonic()
        writer.write(_API_VERSIONS)
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        asked.append(time.monotonic() - began_s)
        await asyncio.sleep(_PAUSE_S)
    writer.close()
    return asked


# -- the attack, in a process of its own -----------------------------------------------------------------


async def _attack(host: str, port: int, seconds: float, frame: bytes) -> None:
    end_s = time.monotonic() + seconds
    # Small frames go together, as many clients would send them.
    together = frame * max(1, 10_000 // len(frame))
    every_s = _CONNECTIONS * len(together) / _RATE

    async def attack(offset_s: float) -> None:
        await asyncio.sleep(offset_s)
        while time.monotonic() < end_s:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection(host, port)
                reading = asyncio.create_task(reader.read(-1))
                try:
                    while time.monotonic() < end_s and not reading.done():
                        began_s = time.monotonic()
                        writer.write(together)
                        await asyncio.wait({asyncio.create_task(writer.drain()), reading}, timeout=every_s)
                        await asyncio.sleep(max(0.0, began_s + every_s - time.monotonic()))
                finally:
                    reading.cancel()
                    writer.transport.abort()

    await asyncio.gather(*(attack(every_s * number / _CONNECTIONS) for number in range(_CONNECTIONS)))


if __name__ == "__main__":
    asyncio.run(_attack(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.stdin.buffer.read()))
